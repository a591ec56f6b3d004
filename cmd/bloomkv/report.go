package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/sstable"
	"github.com/bloomkv/bloomkv/vfs"
)

// A filterReport is a filter block in its file. Text, JSON and whatever else draws it take their numbers from here.
type filterReport struct {
	Offset uint64 `json:"offset"` // in the file
	bloomblock.Exam

	block []byte
}

// maxFilter is the largest filter block that is looked at: that of some 800 million keys. It bounds the memory of inspect, whatever
// a file says.
const maxFilter = 1 << 30

// checkFilterSize refuses what would take too much memory.
func checkFilterSize(m sstable.Meta) error {
	if m.FilterLen > maxFilter {
		return fmt.Errorf("%s: offset %d: filter of %d bytes, inspect looks at %d at most", m.Name, m.Size-m.TailLen-m.FilterLen, m.FilterLen, maxFilter)
	}
	return nil
}

// An openTable is a table that is looked at.
type openTable struct {
	file     vfs.File
	reader   *sstable.Reader
	block    []byte // the filter block as the file has it; empty if there is none
	prefixes []byte // the prefix filter, right behind it; empty if there is none
	offset   uint64 // of the filter block
}

// withTable opens a table, reads what is behind its filter, which is checked, and the filter block, which is not, and closes it
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
	if err := checkFilterSize(m); err != nil {
		return err
	}
	both, err := filterBlock(t.file, m.Size, m.TailLen, m.FilterLen)
	if err != nil {
		return err
	}
	end := m.FilterLen - p.Prefixes.Bytes // which the reader has compared
	t.block, t.prefixes = both[:end], both[end:]
	return body(t)
}

// examineFilters says all there is to say of the filter blocks of a table, or of what is whole of them: that of its keys, and
// that of their prefixes. Nil is none.
func examineFilters(name string) (keys, prefixes *filterReport, err error) {
	err = withTable(name, func(t *openTable) error {
		keys, prefixes = newFilterReport(t.block, t.offset), newFilterReport(t.prefixes, t.offset+uint64(len(t.block)))
		return nil
	})
	return keys, prefixes, err
}

func newFilterReport(block []byte, offset uint64) *filterReport {
	if len(block) == 0 {
		return nil
	}
	exam, _ := bloomblock.Examine(block) // damage is among the flags, and the reader of the table tells it too
	return &filterReport{Offset: offset, Exam: exam, block: block}
}

// liveFacts are how a table's filter has answered to lookups, as the manifest has it.
type liveFacts struct {
	bloomkv.FilterAnswers

	Rate float64 `json:"fpr_measured"` // false positives among these and the negatives; 0 without any
}

// newLiveFacts is nil where nobody has counted.
func newLiveFacts(s *manifest.State, number uint64) *liveFacts {
	c, ok := s.Counts[number]
	if !ok {
		return nil
	}
	l := &liveFacts{FilterAnswers: bloomkv.FilterAnswers{
		Negatives: c.Negatives, TruePositives: c.TruePositives, FalsePositives: c.FalsePositives, Unfiltered: c.Unfiltered,
	}}
	l.Rate = l.FPR()
	return l
}

// liveOf looks for a table's counts in the manifest beside it. A table that is in no store, or not in this one, has none.
func liveOf(name string) *liveFacts {
	kind, number := filename.Parse(filepath.Base(name))
	if kind != filename.Table {
		return nil
	}
	s, err := manifest.Load(vfs.OS, filepath.Dir(name))
	if err != nil {
		return nil
	}
	return newLiveFacts(&s, number)
}

// verifyFacts are what comes of building a table's filter again from its keys.
type verifyFacts struct {
	OK       bool   `json:"ok"`            // every bit is as it was built, and no key denied
	Recorded uint64 `json:"keys_recorded"` // in the filter's header
	Denied   uint64 `json:"keys_denied"`   // versions in the table whose keys the filter denies: lookups miss them
	bloomblock.Difference

	err error // unless OK, with its address
}

// verifyFilter builds the filter of a table again, from its keys, and compares. Nil is no filter that could be read. An error
// is one of reading the table.
func verifyFilter(ctx context.Context, name string) (v *verifyFacts, err error) {
	return v, withTable(name, func(t *openTable) error {
		filter, err := bloomblock.Parse(t.block)
		if err != nil {
			return nil //nolint:nilerr // damage, which is told with the table
		}
		rebuild, err := bloomblock.NewRebuild(t.block)
		if err != nil {
			return fmt.Errorf("%s: offset %d: %w", filepath.Base(name), t.offset, err)
		}
		v = &verifyFacts{Recorded: filter.Keys()}
		it := t.reader.Iter(sstable.IterOptions{Bypass: true})
		for ok := it.First(); ok && ctx.Err() == nil; ok = it.Next() {
			h := bloomblock.HashKey(it.Key().User)
			if !filter.MayContain(h) {
				v.Denied++
			}
			rebuild.Add(h)
		}
		if err := errors.Join(it.Close(), ctx.Err()); err != nil {
			v = nil
			return err
		}
		v.Difference = rebuild.Finish()
		if v.OK = v.Denied+v.Missing+v.Extra == 0 && v.Keys == v.Recorded; v.OK {
			return nil
		}
		at := t.offset
		if v.First != nil {
			at += *v.First
		}
		v.err = corrupt.Newf(name, int64(at), "the filter is not that of the table's keys: %s", v) //nolint:gosec // an offset in a file
		return nil
	})
}

// String is what was found, in words.
func (v *verifyFacts) String() string {
	return fmt.Sprintf("built again from %s, the header says %d; %s missing, %s too many, %s denied",
		plural(v.Keys, "key"), v.Recorded, plural(v.Missing, "bit"), plural(v.Extra, "bit"), plural(v.Denied, "version"))
}

// damage is why a filter is not that of its table's keys, or nil.
func (v *verifyFacts) damage() error {
	if v == nil {
		return nil
	}
	return v.err
}

// verdict is a line about a filter.
func (v *verifyFacts) verdict() string {
	switch {
	case v == nil:
		return "verify: there is no filter to verify"
	case v.OK:
		return fmt.Sprintf("verify: ok, bit for bit: %s", v)
	default:
		return fmt.Sprintf("verify: NOT the filter of the table's keys: %s", v)
	}
}
