package check

import (
	"bytes"
	"context"
	"errors"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/internal/words"
)

// A lookup stops at the newest run that has its key; a scan takes the largest sequence number. For both to return the
// same, every version and range tombstone of a key in a run must be newer than all those in older runs.

// A suspect is the part of a run that must be compared with other runs key by key.
type suspect struct {
	*tree.Run

	dels *rangedel.Index
}

var _ merge.Tables = (*suspect)(nil)

// Len returns the number of tables.
func (s *suspect) Len() int { return len(s.Tables) }

// Find returns the index of the first table that does not end before user.
func (s *suspect) Find(user []byte) int { return s.Search(user) }

// Bounds returns the bounds of a table.
func (s *suspect) Bounds(i int) merge.Bounds { return merge.Bounds(s.Tables[i].Meta.Bounds()) }

// Open returns a cursor over a table that reads past the cache.
func (s *suspect) Open(i int) (merge.Source, error) {
	return s.Tables[i].Reader.Iter(sstable.IterOptions{Bypass: true}), nil
}

// load loads the tables' indexes and range tombstones.
func (s *suspect) load(ctx context.Context) error {
	var dels rangedel.List
	for _, t := range s.Tables {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.Reader.Load(1); err != nil {
			return err
		}
		dels = append(dels, t.Reader.RangeDels().List()...)
	}
	s.dels = rangedel.NewIndex(dels)
	return nil
}

func (s *suspect) close() (err error) {
	for _, t := range s.Tables {
		t.Reader.Close()
		err = errors.Join(err, t.File.Close())
	}
	return err
}

// order verifies the runs of v against each other, without the damaged tables. Each other table is already known to
// agree with the manifest. So order reads only tables whose bounds overlap and whose sequence numbers do not prove
// that the newer run has the newer data. It reports the first damage of each table.
func (c *checker) order(ctx context.Context, v *manifest.Version, damaged map[*manifest.Table]bool) (err error) {
	suspects, err := c.suspects(ctx, v, damaged)
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range suspects {
			err = errors.Join(err, s.close())
		}
	}()
	var m merge.Iter
	sources := make([]merge.Source, len(suspects))
	for i, s := range suspects {
		if err := s.load(ctx); err != nil {
			return err
		}
		sources[i] = merge.NewConcat(s)
	}
	m.Reset(sources)
	defer m.Close() //nolint:errcheck // see merge.Source
	w := orderWalk{suspects: suspects, told: map[*tree.Table]bool{}}
	n := 0
	for ok := m.First(); ok; ok = m.Next() {
		if n++; n&63 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		w.version(m.Key(), m.Order())
	}
	if err := m.Err(); stops(err) {
		return err
	}
	return errors.Join(append(w.damage, m.Err())...)
}

// suspects returns the parts of v to be compared, newest data first.
func (c *checker) suspects(
	ctx context.Context, v *manifest.Version, damaged map[*manifest.Table]bool,
) (suspects []*suspect, err error) {
	var levels []int // of runs
	var runs []manifest.Run
	for level, rs := range v.Levels {
		for _, r := range rs {
			levels, runs = append(levels, level), append(runs, r)
		}
	}
	marked := map[*manifest.Table]bool{}
	for i, r := range runs {
		for _, older := range runs[i+1:] {
			if err := ctx.Err(); err != nil { // there may be many tables and many runs
				return nil, err
			}
			for _, a := range r.Tables {
				for _, b := range older.Touching(a.Bounds()) {
					if a.MinSeq <= b.MaxSeq && !damaged[a] && !damaged[b] {
						marked[a], marked[b] = true, true
					}
				}
			}
		}
	}
	for i, r := range runs {
		var tables []*tree.Table
		for _, meta := range r.Tables {
			if marked[meta] {
				tables = append(tables, c.NewTable(meta))
			}
		}
		if len(tables) > 0 {
			suspects = append(suspects, &suspect{Run: tree.NewRun(levels[i], r.ID, tables)})
		}
	}
	return suspects, nil
}

// An orderWalk compares all versions of the suspects. It gets them in the order of keys, the newest version of a key
// first.
type orderWalk struct {
	suspects []*suspect
	told     map[*tree.Table]bool // tables whose damage is recorded
	damage   []error

	key []byte // of the last version; nil before the first
	seq ikey.Seq
	of  int // its suspect
}

func (w *orderWalk) version(k ikey.Key, of int) {
	seq := k.Trailer.Seq()
	if of != w.of && w.key != nil && bytes.Equal(k.User, w.key) {
		switch {
		case of < w.of:
			w.tell(of, seq, w.of, w.seq, k.User, "the key")
		case seq == w.seq:
			w.tell(w.of, w.seq, of, seq, k.User, "the key")
		}
	}
	w.key, w.seq, w.of = append(w.key[:0], k.User...), seq, of
	if w.key == nil {
		w.key = []byte{} // the empty key is not nil
	}
	for i, s := range w.suspects {
		switch {
		case i < of:
			if del := s.dels.Covering(k.User, seq); del > 0 {
				w.tell(i, del, of, seq, k.User, "a range delete")
			}
		case i > of:
			if del := s.dels.Covering(k.User, ikey.MaxSeq); del > 0 && del >= seq {
				w.tell(of, seq, i, del, k.User, "the key")
			}
		}
	}
}

// tell records the damage that a newer run has data that is not newer than that of an older run, once for each table.
func (w *orderWalk) tell(newer int, seq ikey.Seq, older int, olderSeq ikey.Seq, key []byte, what string) {
	n, o := w.suspects[newer], w.suspects[older]
	t := n.Tables[n.Find(key)]
	if w.told[t] {
		return
	}
	w.told[t] = true
	w.damage = append(w.damage, corrupt.Newf(t.File.Name, 0,
		"key %s: run %d of level %d has %s at sequence %d, the older run %d of level %d (%s) goes up to %d",
		words.Quoted(key), n.ID, n.Level, what, seq, o.ID, o.Level, o.Tables[o.Find(key)].File.Name, olderSeq))
}
