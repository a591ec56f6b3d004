package read

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A runCursor reads one run for a cursor: its tables, as one source, and its range tombstones. It is pooled with the
// cursor.
type runCursor struct {
	reader   *Reader
	run      *tree.Run
	from, to int          // the tables within the cursor's bounds
	prefix   *prefixProbe // the cursor's
	concat   merge.Concat
	table    sstable.Iter // of the open table
	none     merge.Iter   // of a table without keys for the cursor
	err      error        // from loading range tombstones
}

var (
	_ rangedel.Set = (*runCursor)(nil)
	_ merge.Tables = (*runCursor)(nil)
)

// begin makes r read the part of a run within the bounds of c.
func (r *runCursor) begin(c *Cursor, run *tree.Run) *merge.Concat {
	r.reader, r.run, r.err = c.reader, run, nil
	r.prefix = &c.prefix
	r.from, r.to = 0, len(run.Tables)
	if b := &c.bounds; len(b.lower) > 0 {
		r.from = run.Search(b.lower)
	}
	if b := &c.bounds; !b.open {
		end := run.Search(b.upper)
		if end < r.to && bytes.Compare(run.Tables[end].Meta.Smallest, b.upper) < 0 {
			end++
		}
		r.to = max(r.from, end)
	}
	r.concat.Reset(r)
	return &r.concat
}

// end releases the run. The merge has already closed what was open.
func (r *runCursor) end() {
	r.reader, r.run = nil, nil
	r.table.Trim()
}

// Len returns the number of tables.
func (r *runCursor) Len() int { return r.to - r.from }

// Find returns the index of the first table that does not end before user.
func (r *runCursor) Find(user []byte) int {
	return min(max(r.run.Search(user), r.from), r.to) - r.from
}

// Bounds returns the bounds of a table.
func (r *runCursor) Bounds(i int) merge.Bounds {
	return merge.Bounds(r.run.Tables[r.from+i].Meta.Bounds())
}

// Open returns a cursor over a table, always the same one. If the prefix filter excludes all keys within the cursor's
// bounds, it returns an empty cursor. The range tombstones of the table are not part of either: see Stretch.
func (r *runCursor) Open(i int) (merge.Source, error) {
	t := r.run.Tables[r.from+i]
	if r.prefix.asking {
		if without, err := r.without(t); without || err != nil {
			return &r.none, err
		}
	}
	if !t.Reader.Loaded() {
		if err := r.reader.Tables.Load(t); err != nil {
			return nil, err
		}
	}
	r.table.Reset(t.Reader, sstable.IterOptions{})
	return &r.table, nil
}

// Stretch returns keys [lo, hi) around key, and the newest tombstone over them at or below seq, or 0. It loads a table
// whose tombstones are not in memory. If that fails, r.err is set and the result must not be used.
func (r *runCursor) Stretch(key []byte, seq ikey.Seq) (lo, hi []byte, newest ikey.Seq) {
	i := r.run.Search(key)
	if i > 0 {
		lo = r.run.Tables[i-1].Meta.Upper() // if the table includes that key, none of its tombstones covers it
	}
	if i == len(r.run.Tables) {
		return lo, nil, 0
	}
	t := r.run.Tables[i]
	if bytes.Compare(key, t.Meta.Smallest) < 0 {
		return lo, t.Meta.Smallest, 0
	}
	if i+1 < len(r.run.Tables) {
		hi = r.run.Tables[i+1].Meta.Smallest
	}
	if t.Meta.RangeDeletes == 0 {
		return t.Meta.Smallest, hi, 0
	}
	dels := t.Reader.RangeDels()
	if dels == nil {
		if r.err = r.reader.Tables.Load(t); r.err == nil {
			dels, r.err = tombstonesOf(t)
		}
		if r.err != nil {
			return nil, nil, 0
		}
	}
	from, to, newest := dels.Stretch(key, seq)
	if bytes.Compare(from, t.Meta.Smallest) < 0 {
		from = t.Meta.Smallest
	}
	if to == nil && newest == 0 {
		to = hi
	}
	return from, to, newest
}
