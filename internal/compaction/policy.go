// Package compaction decides which tables to merge, and merges them. A Policy and Manual choose: a version in, a
// plan out. Flush and a Merge turn sorted versions and range tombstones into tables. Goroutines, locks and the manifest
// are the caller's.
package compaction

import (
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// A Policy determines the shape of the tree: which compaction is due, and when writers wait. All methods are pure and
// safe for concurrent use.
type Policy interface {
	// Pick returns the most urgent compaction, or nil if the tree is in shape.
	Pick(v Shape) *Plan
	// Pressure returns how far writers are ahead of compaction.
	Pressure(v *manifest.Version) Pressure
	// Cuts returns the keys, ascending, where tables of level 0 and of the level that it is merged into should end,
	// given those of an earlier version.
	Cuts(v *manifest.Version, old [][]byte) [][]byte
	// Backlog returns the work that is left.
	Backlog(v *manifest.Version) Backlog
}

// Pressure describes how much writers must slow down for compaction to keep up. The zero value does not slow them.
type Pressure struct {
	Slow int  // steps by which each write is delayed; a step doubles the delay
	Stop bool // writes wait
}

// A Backlog is the work that compaction has left.
type Backlog struct {
	Base    int                        // the level that level 0 is merged into
	Runs    int                        // runs of level 0 if a compaction is due, counted from the one that starts it
	Bytes   uint64                     // bytes above the targets, and all of level 0 if Runs is not 0
	Targets [manifest.NumLevels]uint64 // bytes that each level should hold at most; 0 for level 0 and the last level
}

// A Shape is a version with everything else that plans depend on.
type Shape struct {
	*manifest.Version

	// Running are the plans that are being carried out. Each was allowed by a shape.
	Running []*Plan
	// Snapshots are the sequence numbers that readers hold, ascending. Data that they need does not justify a
	// compaction that is meant to drop it.
	Snapshots []ikey.Seq
	Facts     TableFacts // nil means that nothing is known
	// Idle means that nobody has written for a while. Then level 0 is merged further, to the runs that reads like best.
	Idle bool
	// Sought counts the runs of level 0 that seeks have looked into since level 0 was last merged.
	Sought uint64

	taken map[uint64]bool // numbers of the tables of plans that run; nil before it is asked for
	rooms []room          // where these plans write
}

// A room is a range of a level.
type room struct {
	level int
	b     manifest.Bounds
}

// TableFacts are facts about tables that the manifest does not have. Only Stale reads files.
type TableFacts interface {
	// RangeDels returns the range tombstones of a table that has some, or nil if they are not in memory. Then they
	// do not justify a compaction of their own.
	RangeDels(t *manifest.Table) *rangedel.Index
	// Outdated reports whether the table's filter differs from one that would be built for the level now. Such a
	// table is rewritten instead of being moved to the level, and a Manual rewrites it instead of leaving it there.
	Outdated(level int, t *manifest.Table) bool
	// Stale returns the share of the keys of the oldest run that newer tables have too, as the function Stale does.
	Stale() float64
}
