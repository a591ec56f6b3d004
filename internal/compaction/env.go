package compaction

import (
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/vfs"
)

// Env holds what is needed to write tables.
type Env struct {
	FS        vfs.FS
	Dir       string
	Numbers   Numbers
	TableSize uint64             // bytes at which an output ends
	BlockSize int                // as in sstable.WriterOptions
	Codec     sstable.Codec      // of the output level
	Filter    bloomblock.Params  // of the output level
	Prefix    sstable.PrefixRule // of a second filter
	Seed      bloomblock.Seed    // of filters
	Cuts      [][]byte           // keys, ascending, where an output ends unless little was written since the last

	// Snapshots are the sequence numbers that readers hold, ascending; duplicates do no harm. The list must be
	// taken after the inputs were chosen, a version or a frozen memtable, so that no later snapshot is older than
	// anything in them.
	Snapshots []ikey.Seq

	// The rest is for Begin alone.

	// PartSize is the number of bytes of its input from which a Merge makes a part. 0 means that it is not divided.
	PartSize uint64
	// Progress, if not nil, is increased by the number of versions read, every yieldEvery versions.
	Progress *atomic.Uint64

	Recodes bool // the inputs usually have another codec: sizes of outputs can't be predicted
}

// Numbers allocates file numbers.
type Numbers interface {
	// NewNumber returns a number that no file has had (I20).
	NewNumber() (uint64, error)
}

// A Counter numbers the files of a new directory from 1 on.
type Counter uint64

// NewNumber returns the next number.
func (c *Counter) NewNumber() (uint64, error) {
	*c++
	return uint64(*c), nil
}

// Inputs gives access to the tables that a compaction reads. It is safe for concurrent use.
type Inputs interface {
	Samples
	// Open returns a cursor over the versions of a table. The cursor bypasses the block cache. It is not called for a
	// table without versions, nor for one that newer tables delete as a whole.
	Open(t *manifest.Table) (merge.Source, error)
	// RangeDels returns the range tombstones of a table that has some. It is not called for a table that newer tables
	// delete as a whole.
	RangeDels(t *manifest.Table) (*rangedel.Index, error)
}
