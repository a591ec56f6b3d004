package scheduler

import (
	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A Config holds the parameters of New.
type Config struct {
	Tree     *tree.Tree
	Share    *budget.Share // memory of the tables
	Policy   compaction.Policy
	Tables   compaction.Env                    // what all new tables have in common
	Codecs   [manifest.NumLevels]sstable.Codec // of tables written to each level
	Rate     int64                             // bytes per second that compactions write; 0 means no limit
	ReadOnly bool                              // no work is done except loading filters
	Observer Observer
}

// An Observer is called for what background work does. The tables are new, and durable.
type Observer interface {
	Flushed(f Flush, tables []*manifest.Table)
	Compacted(c Compaction, tables []*manifest.Table)
	Removed(level int, t *manifest.Table)           // the file of a table
	WorkFailed(work string, attempt int, err error) // work that will be tried again
	Damaged(err error)
}
