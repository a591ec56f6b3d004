package bloomkv

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/sstable"
)

// A table is one file of the tree while any state names it: its reader, which stays, and its descriptor, which comes and
// goes. It is removed from the disk when the last state that names it is released.
type table struct {
	meta   *manifest.Table // immutable
	reader *sstable.Reader
	file   *tablefile.File
	refs   atomic.Int64 // states that name it
	level  atomic.Int32 // where it is now

	// How many units of its filter there is room for: what Resources have left it, and Options.FilterMemory. MaxUnits is for all.
	kept, planned atomic.Int32

	damaged atomic.Bool // a filter of it is, as far as they were read

	loading sync.Mutex // one load at a time, so that each is accounted for once
	counted tableBytes // guarded by loading: what Resources know of

	tableCounts
}

// tableBytes is what a table has in memory.
type tableBytes struct{ filter, prefix, index, rangeDeletes int64 }

func newTable(meta *manifest.Table, files *tablefile.Dir, blocks *cache.Cache) *table {
	t := &table{meta: meta, file: files.File(meta.Number)}
	t.kept.Store(bloomblock.MaxUnits)
	t.planned.Store(bloomblock.MaxUnits)
	m := sstable.Meta{Name: t.file.Name, Size: meta.Size, ID: meta.ID, TailLen: meta.TailLen, FilterLen: meta.FilterLen}
	if meta.Flags&manifest.SeqOverridden != 0 {
		m.Seq = meta.MaxSeq
	}
	m.Check = func(i sstable.Info) error { return agrees(meta, i) }
	t.reader = sstable.NewReader(t.file, m, blocks, files.Domain)
	return t
}

// agrees compares what a table's file says of itself with what the manifest says of it.
func agrees(meta *manifest.Table, i sstable.Info) error {
	i.FilterRate = meta.FilterRate // which the tail does not say
	t := compaction.Table(meta.Number, i)
	t.Flags |= meta.Flags & (manifest.SeqOverridden | manifest.Superseded)
	if t.Flags&manifest.SeqOverridden != 0 {
		t.MinSeq, t.MaxSeq = meta.MaxSeq, meta.MaxSeq
	}
	if !t.Equal(meta) {
		return fmt.Errorf("holds %v, the manifest has %v", t, meta)
	}
	return nil
}
