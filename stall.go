package bloomkv

import (
	"time"

	"github.com/bloomkv/bloomkv/internal/commit"
)

// A StallReason is the reason why writes had to wait for background work.
type StallReason uint8

const (
	// SlowedByLevel0 means that each write was delayed a little, because compaction was falling behind: level 0 had
	// too many runs.
	SlowedByLevel0 = StallReason(commit.SlowedByLevel0)
	// StoppedByLevel0 means that writes waited until level 0 had fewer runs.
	StoppedByLevel0 = StallReason(commit.StoppedByLevel0)
	// StoppedByMemtable means that writes waited until a full memtable had been flushed.
	StoppedByMemtable = StallReason(commit.StoppedByMemtable)
)

// String returns the reason as text, such as "slowed by level 0".
func (r StallReason) String() string {
	switch r {
	case SlowedByLevel0:
		return "slowed by level 0"
	case StoppedByLevel0:
		return "stopped by level 0"
	case StoppedByMemtable:
		return "stopped by a memtable"
	}
	return "unknown"
}

// StallInfo describes a period during which writes waited.
type StallInfo struct {
	Reason StallReason
	// Writes is the number of groups of writes that waited: one if they were stopped, several in a row if they were
	// slowed.
	Writes   uint64
	Duration time.Duration // total time that they waited
}
