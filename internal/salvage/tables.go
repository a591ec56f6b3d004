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

// findTables decides which tables count and reads their range tombstones.
func (s *Salvage) findTables(ctx context.Context) error {
	t := &s.traces
	for _, n := range s.found[filename.Table] {
		name := filename.Base(filename.Table, n)
		added, placed := t.Placed[n]
		switch {
		case t.Gone[n], !placed && t.Whole && n < t.Number:
			s.leftOver = append(s.leftOver, name)
			continue
		case placed:
			s.tables = append(s.tables, &table{number: n, name: name, placed: &added, meta: *added.Table})
		default:
			if t.Number != 0 {
				s.unnamed = append(s.unnamed, name)
			}
			unknown := manifest.Table{Number: n, Flags: manifest.LargestInfinite}
			s.tables = append(s.tables, &table{number: n, name: name, meta: unknown})
		}
	}
	for n, added := range t.Placed {
		if _, there := slices.BinarySearch(s.found[filename.Table], n); !there && !t.Gone[n] {
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
		if err := s.survey(ctx, t); err != nil {
			return err
		}
	}
	s.rank()
	return nil
}

// survey reads range tombstones from the tail of a table, and properties if the manifest does not have them. Damage is
// reported later, when the whole table is read.
func (s *Salvage) survey(ctx context.Context, t *table) error {
	f, r, err := s.open(ctx, t)
	if err != nil || r == nil {
		return err
	}
	for _, d := range r.RangeDels() {
		for _, seq := range d.Seqs {
			s.dels = append(s.dels, rangedel.Tombstone{Start: d.Start, End: d.End, Seq: seq})
		}
	}
	if p, ok := r.Properties(); ok && t.placed == nil {
		m := &t.meta
		m.Flags, m.Smallest, m.Largest, m.Entries = 0, p.Smallest, p.Largest, p.Entries
		if p.MaxSeq <= 1 && p.Entries > 0 {
			s.unplaced = append(s.unplaced, t.name)
		}
	}
	return f.Close()
}

// open opens a table and reads its tail. It returns nil results if the file cannot be opened.
func (s *Salvage) open(ctx context.Context, t *table) (vfs.File, *sstable.Remains, error) {
	f, err := s.fs.Open(filename.Make(s.dir, filename.Table, t.number))
	if t.failed = err; err != nil {
		return nil, nil, nil //nolint:nilerr // kept in t.failed
	}
	size, err := f.Size()
	if t.failed = err; err != nil {
		return nil, nil, f.Close()
	}
	t.size = uint64(size) //nolint:gosec // not negative
	m, counts := sstable.Meta{Name: t.name}, (*sstable.Counts)(nil)
	if t.placed != nil {
		b := t.placed.Table
		m.ID, m.Size, m.TailLen, m.FilterLen = b.ID, b.Size, b.TailLen, b.FilterLen
		if b.Flags&manifest.SeqOverridden != 0 {
			m.Seq = b.MaxSeq
		}
		counts = &sstable.Counts{Entries: b.Entries, RangeDeletes: b.RangeDeletes}
	}
	r, err := sstable.Survey(ctx, f, t.size, m, counts)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, r, nil
}

// rank sorts tables from the newest to the oldest and sets their ages.
func (s *Salvage) rank() {
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
func (s *Salvage) chains(ctx context.Context) (chains []*chain) {
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
	s      *Salvage
	tables []*table // the first is open if file is not nil
	file   vfs.File
	it     *sstable.RemainsIter
	offset uint64 // bytes of the open table that were read
	begun  bool   // a version of the open table was returned
	last   []byte // last key of the tables before; nil before the first
	err    error
}

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
		for _, l := range c.it.TakeLosses() {
			c.lose(l)
		}
		if !more {
			c.leave()
			continue
		}
		if n := c.it.Offset(); n > c.offset {
			c.s.advance(n - c.offset)
			c.offset = n
		}
		k := c.it.Key().User
		if c.begun || c.last == nil || bytes.Compare(c.last, k) < 0 {
			c.begun = true
			return true
		}
		c.s.lose(Loss{
			File: c.tables[0].name, Part: "table", Lower: bytes.Clone(k), Upper: c.tables[0].meta.Upper(),
			Err: fmt.Errorf("key %s, want keys after %s, the last key of the table before",
				words.Quoted(k), words.Quoted(c.last)),
		})
		c.leave()
	}
	return false
}

// open opens the first table and reports what cannot be read of its tail.
func (c *chain) open() bool {
	t := c.tables[0]
	f, r, err := c.s.open(c.ctx, t)
	if err != nil {
		c.err = err
		return false
	}
	if r == nil {
		c.lose(sstable.Loss{Part: "table", Err: t.failed})
		c.tables = c.tables[1:]
		return true
	}
	for _, l := range r.Lost() {
		// A table without a footer that no edit of a whole manifest names was never finished.
		l.Harmless = l.Harmless || c.s.traces.Whole && t.placed == nil && !r.Readable()
		c.lose(l)
	}
	c.file, c.it, c.offset = f, r.Iter(), 0
	return true
}

// lose reports a loss in the first table.
func (c *chain) lose(l sstable.Loss) {
	t := c.tables[0]
	upper := l.Upper
	if upper == nil {
		upper = t.meta.Upper()
	}
	if len(l.Lower) == 0 {
		l.Lower = t.meta.Smallest
	}
	c.s.lose(Loss{
		File: t.name, Offset: int64(l.Offset), Bytes: int64(l.Bytes), //nolint:gosec // within a file
		Part: l.Part, Harmless: l.Harmless, Lower: l.Lower, Upper: upper, Err: l.Err,
	})
}

// leave closes the open table.
func (c *chain) leave() {
	t := c.tables[0]
	if t.size > c.offset {
		c.s.advance(t.size - c.offset)
	}
	if c.begun {
		c.last = append([]byte{}, c.it.Last()...)
	}
	c.err = c.file.Close()
	c.file, c.it, c.begun, c.tables = nil, nil, false, c.tables[1:]
}

// Key returns the key of the current version.
func (c *chain) Key() ikey.Key { return c.it.Key() }

// Value returns the value of the current version.
func (c *chain) Value() []byte { return c.it.Value() }

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
