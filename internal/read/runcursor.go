package read

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A runCursor reads one run for a cursor: its tables as one source, and its range tombstones. It is pooled with the cursor.
type runCursor struct {
	reader   *Reader
	run      *tree.Run
	from, to int          // the tables within the cursor's bounds
	prefix   *prefixProbe // the cursor's
	concat   merge.Concat
	table    sstable.Iter // of the table that is open
	none     merge.Iter   // of one that has nothing for the cursor
	err      error        // of loading range tombstones
}

var (
	_ rangedel.Set = (*runCursor)(nil)
	_ merge.Tables = (*runCursor)(nil)
)

// begin makes r read what of a run lies within a cursor's bounds.
func (r *runCursor) begin(c *Cursor, run *tree.Run) *merge.Concat {
	r.reader, r.run, r.err = c.reader, run, nil
	r.prefix = &c.prefix
	r.from, r.to = 0, len(run.Tables)
	if len(c.lower) > 0 {
		r.from = run.Search(c.lower)
	}
	if c.bounded {
		end := run.Search(c.upper)
		if end < r.to && bytes.Compare(run.Tables[end].Meta.Smallest, c.upper) < 0 {
			end++
		}
		r.to = max(r.from, end)
	}
	r.concat.Reset(r)
	return &r.concat
}

// end lets go of the run. The merge has closed what was open.
func (r *runCursor) end() { r.reader, r.run = nil, nil }

// Len is the number of tables.
func (r *runCursor) Len() int { return r.to - r.from }

// Find is the first table that does not end before user.
func (r *runCursor) Find(user []byte) int {
	return min(max(r.run.Search(user), r.from), r.to) - r.from
}

// Bounds are those of a table.
func (r *runCursor) Bounds(i int) merge.Bounds {
	return compaction.Bounds(r.run.Tables[r.from+i].Meta)
}

// Open is a cursor over a table, always the same one; over nothing if the table's prefix filter says that it would come to none
// of the table's keys. What range tombstones of the table say is asked of Stretch.
func (r *runCursor) Open(i int) (merge.Source, error) {
	t := r.run.Tables[r.from+i]
	if r.prefix.asking {
		if without, err := r.without(t); without || err != nil {
			return &r.none, err
		}
	}
	if !t.Reader.Loaded() {
		if err := r.reader.tables.Load(t); err != nil {
			return nil, err
		}
	}
	r.table.Reset(t.Reader, sstable.IterOptions{})
	return &r.table, nil
}

// Stretch is keys [lo, hi) around key for all of which Covering at seq is newest. A table whose tombstones are not known
// yet is loaded; if that fails err says so, and the answer is not to be used.
func (r *runCursor) Stretch(key []byte, seq ikey.Seq) (lo, hi []byte, newest ikey.Seq) {
	i := r.run.Search(key)
	if i > 0 {
		lo = r.run.Tables[i-1].Meta.Upper() // no tombstone is over that key itself, if it is in the table before
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
	if t.Reader.RangeDels() == nil {
		if r.err = r.reader.tables.Load(t); r.err != nil {
			return nil, nil, 0
		}
	}
	from, to, newest := t.Reader.RangeDels().Stretch(key, seq)
	if bytes.Compare(from, t.Meta.Smallest) < 0 {
		from = t.Meta.Smallest
	}
	if to == nil && newest == 0 {
		to = hi
	}
	return from, to, newest
}

// Covering is the newest tombstone over key at or below seq.
func (r *runCursor) Covering(key []byte, seq ikey.Seq) ikey.Seq {
	_, _, newest := r.Stretch(key, seq)
	return newest
}
