package salvage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
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
	read   uint64          // bytes of the file that progress has counted
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
	s.dels = append(s.dels, r.dels.Tombstones()...)
	if p := r.props; p != nil && t.placed == nil {
		m := &t.meta
		m.Flags, m.Smallest, m.Largest, m.Entries = 0, p.Smallest, p.Largest, p.Entries
		if p.MaxSeq <= 1 && p.Entries > 0 {
			s.unplaced = append(s.unplaced, t.name)
		}
	}
	return f.Close()
}

// open opens a table and reads its tail, unless the context has ended. It returns nil results if the file cannot be
// opened.
func (s *salvage) open(ctx context.Context, t *table) (vfs.File, *remains, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
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

// chains divides the tables among as few chains as their bounds allow: those of each ascend.
func (s *salvage) chains() (chains [][]*table) {
	tables := slices.Clone(s.tables)
	slices.SortFunc(tables, func(a, b *table) int {
		return cmp.Or(bytes.Compare(a.meta.Smallest, b.meta.Smallest), cmp.Compare(a.number, b.number))
	})
	for _, t := range tables {
		i := slices.IndexFunc(chains, func(c []*table) bool { return c[len(c)-1].meta.EndsBefore(t.meta.Smallest) })
		if i < 0 {
			i = len(chains)
			chains = append(chains, nil)
		}
		chains[i] = append(chains[i], t)
	}
	return chains
}

// read returns a source of what can be read of the tables of a chain, one after the other.
func (s *salvage) read(ctx context.Context, chain []*table) source {
	return func(yield func(version, error) bool) {
		var last []byte // last key of the tables before; nil before the first
		for _, t := range chain {
			f, r, err := s.open(ctx, t)
			if err != nil {
				yield(version{}, err)
				return
			}
			if r == nil {
				s.loseOf(t, Loss{Part: "table", Err: t.failed})
				continue
			}
			for _, l := range r.lost {
				// A table without a footer that no edit of a whole manifest names was never finished.
				l.Harmless = l.Harmless || s.traces.whole && t.placed == nil && !r.readable()
				s.loseOf(t, l)
			}
			wanted, begun := true, false
			var key []byte
			for k, value := range r.versions(func(l Loss) { s.loseOf(t, l) }) {
				s.advance(r.at, t)
				if !begun && last != nil && bytes.Compare(last, k.User) >= 0 {
					s.loseOf(t, Loss{
						Part: "table", Lower: bytes.Clone(k.User),
						Err: fmt.Errorf("key %s, want keys after %s, the last key of the table before",
							words.Quoted(k.User), words.Quoted(last)),
					})
					break
				}
				key, begun = k.User, true
				if wanted = yield(version{k, value, t.age}, nil); !wanted {
					break
				}
			}
			err = f.Close()
			if !wanted {
				s.closing = errors.Join(s.closing, err)
				return
			}
			if err != nil {
				yield(version{}, err)
				return
			}
			s.advance(t.size, t)
			if begun {
				last = append([]byte{}, key...)
			}
		}
	}
}

// advance reports that a table was read up to an offset.
func (s *salvage) advance(at uint64, t *table) {
	if at > t.read {
		s.progress.advance(at - t.read)
		t.read = at
	}
}

// loseOf reports a loss in a table.
func (s *salvage) loseOf(t *table, l Loss) {
	l.File = t.name
	if l.Upper == nil {
		l.Upper = t.meta.Upper()
	}
	if len(l.Lower) == 0 {
		l.Lower = t.meta.Smallest
	}
	s.lose(l)
}
