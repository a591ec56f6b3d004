package inspect

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Table contains the facts of one table, with their names in JSON. Level, Run and Place are only set for a table
// that was found through a manifest.
type Table struct {
	Level       *int     `json:"level,omitempty"`
	Run         *uint64  `json:"run,omitempty"`
	Place       *Place   `json:"place,omitempty"`
	File        string   `json:"file"`
	Bytes       uint64   `json:"bytes"`
	Blocks      uint64   `json:"blocks"`
	Entries     uint64   `json:"entries"`
	Deletes     uint64   `json:"deletes"`
	Smallest    string   `json:"smallest"` // key of an entry, escaped
	Largest     string   `json:"largest"`
	RangeDels   uint64   `json:"range_deletes"`
	RangesFrom  string   `json:"range_deletes_from,omitempty"` // escaped; empty means the first key
	RangesTo    string   `json:"range_deletes_to,omitempty"`   // exclusive; empty means no end
	MinSeq      ikey.Seq `json:"min_seq"`
	MaxSeq      ikey.Seq `json:"max_seq"`
	FilterBytes uint64   `json:"filter_bytes"` // on disk; 0 without a filter
	FilterKeys  uint64   `json:"filter_keys"`
	BitsPerKey  float64  `json:"bits_per_key"`
	FPRPromised float64  `json:"fpr_promised"` // 1 without a filter
	FPRFromBits float64  `json:"fpr_from_bits"`
	Sample      int      `json:"sample_hashes"`    // 0 without a sample
	SampleKeys  float64  `json:"keys_from_sample"` // distinct keys, estimated from the sample
	Units       []Unit   `json:"units,omitempty"`
	Prefix      *Prefix  `json:"prefix_filter,omitempty"`
	// Filter is the complete filter block. It is set for a single table and for the tables of a store that are shown in
	// full.
	Filter *Filter `json:"filter,omitempty"`
	Live   *Live   `json:"live,omitempty"`   // set if the store has counted lookups
	Verify *Verify `json:"verify,omitempty"` // with --verify, if the filter can be read
	Keys           // set for a single table
	// of the filter or the sample, or of the whole table: then the rest is unknown
	Damage *Damage `json:"damage,omitempty"`

	path          string
	fences        manifest.Bounds // in a store: a lookup asks the table for keys between them
	seed          bloomblock.Seed // of its filter, if it has units
	bits          []byte          // of its filter block, if the page of its store has them
	parts         uint64          // of its filter's units, if they stand side by side
	unread        bool            // only the name is known
	filterDamaged bool
	verified      bool    // as requested; Verify is nil without a filter
	wrong         []error // other errors than Damage
}

// ReadTable reads a table, its complete filter blocks, and what o selects. It returns an error if nothing is known of
// the file.
func ReadTable(ctx context.Context, name string, o Options) (*Table, error) {
	facts, r, _, err := readTable(name)
	if err != nil {
		return nil, err
	}
	r.Close()
	t := &facts
	t.path = cmp.Or(o.Path, name)
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
		t.wrong = append(t.wrong, k.askTable(name))
		_, denied := k.denials()
		t.wrong = append(t.wrong, denied)
	}
	return t, nil
}

// Wrong returns the errors of damage, of keys that filters deny, and of parts that could not be read, or nil.
func (t *Table) Wrong() error { return errors.Join(append([]error{t.damage()}, t.wrong...)...) }

func (t *Table) verify(ctx context.Context, name string) {
	t.verified = true
	keys, prefixes, err := verifyFilters(ctx, name)
	t.Verify = keys
	if t.Prefix != nil {
		t.Prefix.Verify = prefixes
	}
	t.wrong = append(t.wrong, err)
}

// readTable reads a table. Damage of only the filter or the sample is one of the facts; other damage is an error.
// Without an error the caller closes the reader, which has the whole index and filter. The sample may be nil.
func readTable(name string) (facts Table, r *sstable.Reader, sample *bloomblock.Sample, err error) {
	facts = Table{File: filepath.Base(name), FPRPromised: 1, FPRFromBits: 1}
	f, err := vfs.OS.Open(name)
	if err != nil {
		return facts, nil, nil, err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil && r != nil {
			r.Close()
		}
	}()
	size, err := f.Size()
	if err != nil {
		return facts, nil, nil, err
	}
	facts.Bytes = uint64(max(size, 0))
	if r, err = sstable.Open(f, size, name); err != nil {
		return facts, nil, nil, foreignTable(f, size, name, err)
	}
	p, err := r.Properties()
	if err != nil {
		return facts, r, nil, err
	}
	facts.Blocks, facts.Entries, facts.Deletes = p.Blocks, p.Entries, p.Deletes
	facts.Smallest, facts.Largest = words.Escaped(p.Smallest, words.KeyLimit), words.Escaped(p.Largest, words.KeyLimit)
	facts.MinSeq, facts.MaxSeq, facts.RangeDels = p.MinSeq, p.MaxSeq, p.RangeDeletes
	meta := r.Meta()
	facts.FilterBytes, facts.FilterKeys = meta.FilterLen-p.Prefixes.Bytes, p.FilterKeys
	facts.BitsPerKey = bitsPerKey(facts.FilterBytes, p.FilterKeys)
	if p.Prefixes.Bytes > 0 {
		if facts.Prefix, err = readPrefixes(f, r, &p.Prefixes); err != nil {
			return facts, r, nil, err
		}
	}
	if err := errors.Join(r.Load(0), r.LoadParts()); err != nil {
		return facts, r, nil, err
	}
	if dels := r.RangeDels().List(); len(dels) > 0 {
		from, to := dels.Bounds()
		facts.RangesFrom, facts.RangesTo = words.Escaped(from, words.KeyLimit), words.Escaped(to, words.KeyLimit)
	}
	sample, err = r.Sample()
	if errors.Is(err, bloomkv.ErrCorruption) {
		facts.Damage = &Damage{err.Error(), err}
	} else if sample != nil {
		facts.Sample, facts.SampleKeys = sample.Len(), sample.Distinct()
	}
	state := r.Keys.State()
	if damage := damageOf(state.Damage); damage != nil {
		facts.Damage, facts.filterDamaged = damage, true
		return facts, r, sample, nil
	}
	facts.FPRPromised = state.Rate
	if filter := r.Filter(); filter != nil {
		header, _ := r.Keys.Header()
		facts.FPRFromBits, facts.Units = inspectFilter(header, filter)
		facts.seed, facts.parts = filter.Seed(), header.Parts()
	}
	return facts, r, sample, nil
}

// damage returns the damage of the table's filters.
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

// A Live is how a table's filter has answered lookups, from the manifest.
type Live struct {
	bloomkv.FilterAnswers

	Rate float64 `json:"fpr_measured"` // false positives / (false positives + negatives); 0 without any
}

// newLive returns the counts of a table, or nil if it has no counts.
func newLive(s *manifest.State, number uint64) *Live {
	c, ok := s.Counts[number]
	if !ok {
		return nil
	}
	l := &Live{FilterAnswers: bloomkv.FilterAnswers{
		FilterNegatives: c.Negatives, TruePositives: c.TruePositives, FalsePositives: c.FalsePositives,
		Unfiltered: c.Unfiltered,
	}}
	l.Rate = l.FPR()
	return l
}

// liveOf returns the counts of a table from the manifest in its directory, or nil.
func liveOf(name string) *Live {
	kind, number := filename.Parse(filepath.Base(name))
	if kind != filename.Table {
		return nil
	}
	s, err := manifest.Load(vfs.OS, filepath.Dir(name))
	if err != nil {
		return nil
	}
	return newLive(&s, number)
}
