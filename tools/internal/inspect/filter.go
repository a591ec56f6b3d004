package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Filter is a filter block in its file.
type Filter struct {
	Offset uint64 `json:"offset"` // in the file
	filterexam.Exam

	block []byte
}

// An openTable is a table that is being inspected.
type openTable struct {
	file     vfs.File
	reader   *sstable.Reader
	block    []byte // the filter block, empty without a filter
	prefixes []byte // the prefix filter that follows, may be empty
	offset   uint64 // of the filter block
}

// withTable opens a table, reads its tail, which is verified, and its filter blocks, which are not, and closes it
// after body.
func withTable(name string, body func(t *openTable) error) (err error) {
	t := &openTable{}
	if t.file, err = vfs.OS.Open(name); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.file.Close()) }()
	size, err := t.file.Size()
	if err != nil {
		return err
	}
	if t.reader, err = sstable.Open(t.file, size, name); err != nil {
		return err
	}
	defer t.reader.Close()
	p, err := t.reader.Properties()
	if err != nil {
		return err
	}
	m := t.reader.Meta()
	t.offset = m.Size - m.TailLen - m.FilterLen
	both, err := filterBlock(name, t.file, m.Size, m.TailLen, m.FilterLen)
	if err != nil {
		return err
	}
	end := m.FilterLen - p.Prefixes.Bytes // the reader has checked this
	t.block, t.prefixes = both[:end], both[end:]
	return body(t)
}

// Block returns the filter block as it is in the file.
func (r *Filter) Block() []byte { return r.block }

// ReadFilters examines the filter blocks of a table, even damaged ones: that of its keys and that of their prefixes.
// Without such a block the result is nil.
func ReadFilters(name string) (keys, prefixes *Filter, err error) {
	err = withTable(name, func(t *openTable) error {
		keys, prefixes = newFilter(t.block, t.offset), newFilter(t.prefixes, t.offset+uint64(len(t.block)))
		return nil
	})
	return keys, prefixes, err
}

func newFilter(block []byte, offset uint64) *Filter {
	if len(block) == 0 {
		return nil
	}
	exam, _ := filterexam.Examine(block) // damage is one of the flags
	return &Filter{Offset: offset, Exam: exam, block: block}
}

// filterBlock reads the filter block of a table, which lies before the tail, or returns nil if filterLen is 0.
func filterBlock(name string, f io.ReaderAt, size, tailLen, filterLen uint64) ([]byte, error) {
	if filterLen == 0 {
		return nil, nil
	}
	if tailLen > size || filterLen > size-tailLen {
		return nil, fmt.Errorf("%s: filter of %d bytes before a tail of %d in a file of %d", filepath.Base(name),
			filterLen, tailLen, size)
	}
	if filterLen > math.MaxInt/2 { // possible where int has 32 bits
		return nil, fmt.Errorf("%s: filter of %d bytes is too large for this machine", filepath.Base(name), filterLen)
	}
	b := make([]byte, filterLen)
	offset := int64(size - tailLen - filterLen) //nolint:gosec // within the size of a file
	switch n, err := f.ReadAt(b, offset); {
	case n == len(b):
		return b, nil
	case errors.Is(err, io.EOF):
		return nil, corrupt.Newf(name, offset, "filter of %d bytes, want %d: the file has become shorter", n, len(b))
	default:
		return nil, fmt.Errorf("%s: offset %d: %w", filepath.Base(name), offset, err)
	}
}

// A Prefix is the prefix filter of a table.
type Prefix struct {
	Rule        string  `json:"rule"`
	FilterBytes uint64  `json:"filter_bytes"` // on disk
	FilterKeys  uint64  `json:"filter_keys"`  // distinct prefixes
	BitsPerKey  float64 `json:"bits_per_key"`
	FPRPromised float64 `json:"fpr_promised"`
	FPRFromBits float64 `json:"fpr_from_bits"`
	Units       []Unit  `json:"units,omitempty"`
	Verify      *Verify `json:"verify,omitempty"` // with --verify
	Damage      *Damage `json:"damage,omitempty"` // then the rates and units are unknown
	// Filter is the complete filter block. It is set for a single table.
	Filter *Filter `json:"filter,omitempty"`

	header bloomblock.Header // set if the filter is not damaged
}

// A Unit summarizes a unit of a filter.
type Unit struct {
	Probes      int     `json:"probes"`            // 0 for a Ribbon unit
	Columns     int     `json:"columns,omitempty"` // for a Ribbon unit
	Blocks      uint64  `json:"blocks"`
	Fill        float64 `json:"fill"` // the share of bits that are set
	FPRFromBits float64 `json:"fpr_from_bits"`
}

func bitsPerKey(bytes, keys uint64) float64 { return 8 * float64(bytes) / float64(max(keys, 1)) }

// inspectFilter returns the false positive rate of a filter's bits, and its units. f has all units of h.
func inspectFilter(h bloomblock.Header, f *bloomblock.Filter) (rate float64, units []Unit) {
	rate = 1
	for i, bits := range f.UnitBits() {
		u := &h.Units[i]
		units = append(units, Unit{u.Probes, u.Columns, u.Blocks, bits.Fill, bits.Rate})
		rate *= bits.Rate
	}
	return rate, units
}

// readPrefixes reads the prefix filter of a table. Its damage is one of the facts.
func readPrefixes(f io.ReaderAt, r *sstable.Reader, p *sstable.PrefixProperties) (*Prefix, error) {
	facts := &Prefix{
		Rule: words.Escaped([]byte(p.Rule), words.KeyLimit), FilterBytes: p.Bytes, FilterKeys: p.Keys,
		BitsPerKey: bitsPerKey(p.Bytes, p.Keys), FPRPromised: 1, FPRFromBits: 1,
	}
	meta := r.Meta()
	block, err := filterBlock(meta.Name, f, meta.Size, meta.TailLen, p.Bytes)
	if err != nil {
		return facts, err
	}
	var rule sstable.PrefixRule
	if rule.UnmarshalText([]byte(p.Rule)) == nil { // else the rule is from a later version, and not used
		err := r.KnowPrefixes(rule)
		if err == nil {
			err = r.Prefixes.Load(0)
		}
		if err != nil {
			return facts, err
		}
	}
	filter, parseErr := bloomblock.Parse(block)
	if facts.Damage = damageOf(cmp.Or(r.Prefixes.State().Damage, parseErr)); facts.Damage != nil {
		return facts, nil
	}
	h, err := bloomblock.ParseHeader(block)
	if err != nil {
		return facts, err
	}
	facts.header, facts.FPRPromised = h, h.Rate(len(h.Units))
	facts.FPRFromBits, facts.Units = inspectFilter(h, &filter)
	return facts, nil
}

// describe describes the prefix filter in a few words.
func (p *Prefix) describe() string {
	if p.Damage != nil {
		return p.Rule + ": damaged"
	}
	return fmt.Sprintf("%s: %s, promised %.3g", p.Rule, words.Plural(p.FilterBytes, "byte"), p.FPRPromised)
}
