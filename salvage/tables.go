package salvage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
)

// A table is a table that counts.
type table struct {
	number uint64
	name   string
	size   uint64          // bytes of the file
	placed *manifest.Added // its level and run; nil if no manifest has them
	meta   manifest.Table  // from the manifest or else from the table; if neither has it, the bounds are infinite
	age    int             // 1 is the newest
	failed error           // why the file cannot be opened
}

// findTables decides which tables count and reads their tails.
func (s *salvage) findTables(ctx context.Context) error {
	t := &s.traces
	for _, n := range s.found[filename.Table] {
		name := filename.Base(filename.Table, n)
		added, placed := t.placed[n]
		switch {
		case t.gone[n], !placed && t.whole && n < t.number:
			s.leftOver = append(s.leftOver, name)
			continue
		case placed:
			s.tables = append(s.tables, &table{number: n, name: name, placed: &added, meta: *added.Table})
		default:
			if t.number != 0 {
				s.unnamed = append(s.unnamed, name)
			}
			unknown := manifest.Table{Number: n, Flags: manifest.LargestInfinite}
			s.tables = append(s.tables, &table{number: n, name: name, meta: unknown})
		}
	}
	for n, added := range t.placed {
		if _, there := slices.BinarySearch(s.found[filename.Table], n); !there && !t.gone[n] {
			b := added.Table
			s.lose(Loss{
				File: filename.Base(filename.Table, n), Part: "table", Lower: b.Smallest, Upper: b.Upper(),
				Err: s.missing(),
			})
		}
	}
	for _, t := range s.tables {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.surveyTable(ctx, t); err != nil {
			return err
		}
	}
	s.rank()
	return nil
}

// surveyTable reads range tombstones from the tail of a table, and properties if the manifest does not have them.
// Damage is reported later, when the whole table is read.
func (s *salvage) surveyTable(ctx context.Context, t *table) error {
	f, r, err := s.open(ctx, t)
	if err != nil || r == nil {
		return err
	}
	for _, d := range r.dels {
		for _, seq := range d.Seqs {
			s.dels = append(s.dels, rangedel.Tombstone{Start: d.Start, End: d.End, Seq: seq})
		}
	}
	if p := r.props; p != nil && t.placed == nil {
		m := &t.meta
		m.Flags, m.Smallest, m.Largest, m.Entries = 0, p.Smallest, p.Largest, p.Entries
		if p.MaxSeq <= 1 && p.Entries > 0 {
			s.unplaced = append(s.unplaced, t.name)
		}
	}
	return f.Close()
}

// open opens a table and reads its tail. It returns nil results if the file cannot be opened.
func (s *salvage) open(ctx context.Context, t *table) (vfs.File, *remains, error) {
	f, err := s.fs.Open(filename.Make(s.dir, filename.Table, t.number))
	if t.failed = err; err != nil {
		return nil, nil, nil //nolint:nilerr // kept in t.failed
	}
	size, err := f.Size()
	if t.failed = err; err != nil {
		return nil, nil, f.Close()
	}
	t.size = uint64(size) //nolint:gosec // not negative
	m, known := sstable.Meta{Name: t.name}, (*counts)(nil)
	if t.placed != nil {
		b := t.placed.Table
		m.ID, m.Size, m.TailLen, m.FilterLen = b.ID, b.Size, b.TailLen, b.FilterLen
		if b.Flags&manifest.SeqOverridden != 0 {
			m.Seq = b.MaxSeq
		}
		known = &counts{b.Entries, b.RangeDeletes}
	}
	r, err := readTail(ctx, f, t.size, m, known)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, r, nil
}

// rank sorts tables from the newest to the oldest and sets their ages.
func (s *salvage) rank() {
	all := !slices.ContainsFunc(s.tables, func(t *table) bool { return t.placed == nil })
	slices.SortFunc(s.tables, func(a, b *table) int {
		if all {
			return cmp.Or(cmp.Compare(a.placed.Level, b.placed.Level), cmp.Compare(b.placed.Run, a.placed.Run),
				cmp.Compare(b.number, a.number))
		}
		return cmp.Compare(b.number, a.number)
	})
	for i, t := range s.tables {
		t.age = i + 1
	}
}

// chains divides the tables among as few sources as their bounds allow.
func (s *salvage) chains(ctx context.Context) (chains []*chain) {
	tables := slices.Clone(s.tables)
	slices.SortFunc(tables, func(a, b *table) int {
		return cmp.Or(bytes.Compare(a.meta.Smallest, b.meta.Smallest), cmp.Compare(a.number, b.number))
	})
	for _, t := range tables {
		i := slices.IndexFunc(chains, func(c *chain) bool {
			return c.tables[len(c.tables)-1].meta.EndsBefore(t.meta.Smallest)
		})
		if i < 0 {
			i = len(chains)
			chains = append(chains, &chain{ctx: ctx, s: s})
		}
		chains[i].tables = append(chains[i].tables, t)
	}
	return chains
}

// A chain reads tables with ascending bounds one after the other.
type chain struct {
	ctx    context.Context //nolint:containedctx // Next has no parameter for it
	s      *salvage
	tables []*table // the first is open if file is not nil
	file   vfs.File
	it     *versions
	offset uint64 // bytes of the open table that were read
	begun  bool   // a version of the open table was returned
	last   []byte // last key of the tables before; nil before the first
	err    error
}

// First moves to the first version that can be read.
func (c *chain) First() bool { return c.Next() }

// Next moves to the next version that can be read.
func (c *chain) Next() bool {
	for c.err == nil {
		if c.it == nil {
			if len(c.tables) == 0 || !c.open() {
				return false
			}
			continue
		}
		more := c.it.Next()
		for _, l := range c.it.takeLosses() {
			c.lose(l)
		}
		if !more {
			c.leave()
			continue
		}
		if n := c.it.at; n > c.offset {
			c.s.progress.advance(n - c.offset)
			c.offset = n
		}
		k := c.it.Key().User
		if c.begun || c.last == nil || bytes.Compare(c.last, k) < 0 {
			c.begun = true
			return true
		}
		c.lose(Loss{
			Part: "table", Lower: bytes.Clone(k),
			Err: fmt.Errorf("key %s, want keys after %s, the last key of the table before",
				words.Quoted(k), words.Quoted(c.last)),
		})
		c.leave()
	}
	return false
}

// open opens the first table and reports what cannot be read of its tail. Once the context has ended, it opens none.
func (c *chain) open() bool {
	if c.err = c.ctx.Err(); c.err != nil {
		return false
	}
	t := c.tables[0]
	f, r, err := c.s.open(c.ctx, t)
	if err != nil {
		c.err = err
		return false
	}
	if r == nil {
		c.lose(Loss{Part: "table", Err: t.failed})
		c.tables = c.tables[1:]
		return true
	}
	for _, l := range r.lost {
		// A table without a footer that no edit of a whole manifest names was never finished.
		l.Harmless = l.Harmless || c.s.traces.whole && t.placed == nil && !r.readable()
		c.lose(l)
	}
	c.file, c.it, c.offset = f, r.versions(), 0
	return true
}

// lose reports a loss in the first table.
func (c *chain) lose(l Loss) {
	t := c.tables[0]
	l.File = t.name
	if l.Upper == nil {
		l.Upper = t.meta.Upper()
	}
	if len(l.Lower) == 0 {
		l.Lower = t.meta.Smallest
	}
	c.s.lose(l)
}

// leave closes the open table.
func (c *chain) leave() {
	t := c.tables[0]
	if t.size > c.offset {
		c.s.progress.advance(t.size - c.offset)
	}
	if c.begun {
		c.last = append([]byte{}, c.it.last.User...)
	}
	c.err = c.file.Close()
	c.file, c.it, c.begun, c.tables = nil, nil, false, c.tables[1:]
}

// Key returns the key of the current version.
func (c *chain) Key() ikey.Key { return c.it.Key() }

// Value returns the value of the current version.
func (c *chain) Value() []byte { return c.it.value }

// Age returns the age of the open table.
func (c *chain) Age() int { return c.tables[0].age }

// Err returns the error that ended the salvage, or nil.
func (c *chain) Err() error { return c.err }

// Close closes the open table, if any.
func (c *chain) Close() error {
	if c.file == nil {
		return nil
	}
	f := c.file
	c.file = nil
	return f.Close()
}
