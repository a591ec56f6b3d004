package inspect

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/sstable"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Table is one table, as JSON has it. Level, Run and Place are known of a table that was found through a manifest.
type Table struct {
	Level       *int     `json:"level,omitempty"`
	Run         *uint64  `json:"run,omitempty"`
	Place       *Place   `json:"place,omitempty"`
	File        string   `json:"file"`
	Bytes       uint64   `json:"bytes"`
	Blocks      uint64   `json:"blocks"`
	Entries     uint64   `json:"entries"`
	Deletes     uint64   `json:"deletes"`
	Smallest    string   `json:"smallest"` // of the entries, escaped
	Largest     string   `json:"largest"`
	RangeDels   uint64   `json:"range_deletes"`
	RangesFrom  string   `json:"range_deletes_from,omitempty"` // escaped; none is the first key
	RangesTo    string   `json:"range_deletes_to,omitempty"`   // exclusive; none is no end
	MinSeq      ikey.Seq `json:"min_seq"`
	MaxSeq      ikey.Seq `json:"max_seq"`
	FilterBytes uint64   `json:"filter_bytes"` // on disk; 0 is no filter
	FilterKeys  uint64   `json:"filter_keys"`
	BitsPerKey  float64  `json:"bits_per_key"`
	FPRPromised float64  `json:"fpr_promised"` // 1 without a filter
	FPRFromBits float64  `json:"fpr_from_bits"`
	Sample      int      `json:"sample_hashes"`    // 0 is no sample
	SampleKeys  float64  `json:"keys_from_sample"` // distinct, estimated from the sample alone
	Units       []Unit   `json:"units,omitempty"`
	Prefix      *Prefix  `json:"prefix_filter,omitempty"`
	// Filter is all of the filter block, of a table that is looked at by itself, or of one that stands out in a store that is drawn.
	Filter *Filter `json:"filter,omitempty"`
	Live   *Live   `json:"live,omitempty"`   // of a table of a store that has counted
	Verify *Verify `json:"verify,omitempty"` // with --verify, of a filter that can be read
	Keys           // of a table that is looked at by itself
	Damage *Damage `json:"damage,omitempty"` // of the filter, of the sample, or of all: then the rest is unknown

	unread        bool // nothing is known but its name
	filterDamaged bool
	verified      bool    // as was asked for; Verify is nil where there is no filter
	wrong         []error // beside Damage
}

// ReadTable reads a table, all of its filter blocks, and what o asks for. An error is one of a file of which nothing can be told.
func ReadTable(ctx context.Context, name string, o Options) (*Table, error) {
	facts, err := readTable(name, nil)
	if err != nil {
		return nil, err
	}
	t := &facts
	var prefix *Filter
	if t.Filter, prefix, err = ReadFilters(name); err != nil {
		return nil, err
	}
	if t.Prefix != nil {
		t.Prefix.Filter = prefix
	}
	t.Live = liveOf(name)
	if o.Verify {
		t.verify(ctx, name)
	}
	t.Keys = newKeys(o.Keys)
	for _, k := range t.Keys.all() {
		t.wrong = append(t.wrong, k.askTable(name), k.damage())
	}
	return t, nil
}

// Wrong is what is damaged of the table, or its filter denies, or could not be read: nil is nothing.
func (t *Table) Wrong() error { return errors.Join(append([]error{t.damage()}, t.wrong...)...) }

func (t *Table) verify(ctx context.Context, name string) {
	t.verified = true
	keys, prefixes, err := verifyFilters(ctx, name)
	t.Verify = keys
	if t.Prefix != nil {
		t.Prefix.Verify = prefixes
	}
	t.wrong = append(t.wrong, err, keys.damage(), prefixes.damage())
}

// readTable reads a table. Damage is among the facts where it is the filter's or the sample's alone, and an error otherwise. take, if
// not nil, is given the reader, with index and filter, and the sample, nil if there is none, and says whether it keeps them.
func readTable(name string, take func(*sstable.Reader, *bloomblock.Sample) (kept bool)) (facts Table, err error) {
	facts = Table{File: filepath.Base(name), FPRPromised: 1, FPRFromBits: 1}
	f, err := vfs.OS.Open(name)
	if err != nil {
		return facts, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return facts, err
	}
	facts.Bytes = uint64(max(size, 0))
	r, err := sstable.Open(f, size, name)
	if err != nil {
		return facts, foreignTable(f, size, err)
	}
	kept := false
	defer func() {
		if !kept {
			r.Close()
		}
	}()
	p, err := r.Properties()
	if err != nil {
		return facts, err
	}
	facts.Blocks, facts.Entries, facts.Deletes = p.Blocks, p.Entries, p.Deletes
	facts.Smallest, facts.Largest = words.Escaped(p.Smallest, words.KeyLimit), words.Escaped(p.Largest, words.KeyLimit)
	facts.MinSeq, facts.MaxSeq, facts.RangeDels = p.MinSeq, p.MaxSeq, p.RangeDeletes
	meta := r.Meta()
	facts.FilterBytes, facts.FilterKeys = meta.FilterLen-p.Prefixes.Bytes, p.FilterKeys
	facts.BitsPerKey = bitsPerKey(facts.FilterBytes, p.FilterKeys)
	if err := checkFilterSize(meta); err != nil {
		return facts, err
	}
	if p.Prefixes.Bytes > 0 {
		if facts.Prefix, err = readPrefixes(f, r, &p.Prefixes); err != nil {
			return facts, err
		}
	}
	if err := r.Load(0); err != nil {
		return facts, err
	}
	if dels := r.RangeDels(); len(dels) > 0 {
		facts.RangesFrom, facts.RangesTo = words.Escaped(dels[0].Start, words.KeyLimit), words.Escaped(dels[len(dels)-1].End, words.KeyLimit)
	}
	sample, err := r.Sample()
	if take != nil {
		defer func() { kept = take(r, sample) }() // last: it drops what is looked at here
	}
	if errors.Is(err, bloomkv.ErrCorruption) {
		facts.Damage = &Damage{err.Error(), err}
	} else if sample != nil {
		facts.Sample, facts.SampleKeys = sample.Len(), sample.Distinct()
	}
	state := r.FilterState()
	if damage := damageOf(state.Damage); damage != nil {
		facts.Damage, facts.filterDamaged = damage, true
		return facts, nil
	}
	facts.FPRPromised = state.Rate
	if filter := r.Filter(); filter != nil {
		facts.FPRFromBits, facts.Units = inspectFilter(filter)
	}
	return facts, nil
}

// damage is what is damaged of the table's filters.
func (t *Table) damage() error {
	var errs []error
	if t.Damage != nil {
		errs = append(errs, t.Damage.err)
	}
	if t.Prefix != nil && t.Prefix.Damage != nil {
		errs = append(errs, t.Prefix.Damage.err)
	}
	return errors.Join(errs...)
}
