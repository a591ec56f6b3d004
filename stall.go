package bloomkv

import (
	"sync/atomic"
	"time"
)

// A StallReason is the reason why writes had to wait for background work.
type StallReason uint8

const (
	// SlowedByLevel0 means that each write was delayed a little, because compaction was falling behind: level 0 had
	// too many runs.
	SlowedByLevel0 StallReason = iota
	// StoppedByLevel0 means that writes waited until level 0 had fewer runs.
	StoppedByLevel0
	// StoppedByMemtable means that writes waited until a full memtable had been flushed.
	StoppedByMemtable

	stallReasons = iota
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

// A stallCount counts the figures of one StallReason for WriteMetrics.
type stallCount struct{ count, nanos atomic.Int64 }

func (c *stallCount) metrics() StallMetrics {
	count := uint64(c.count.Load()) //nolint:gosec // it only grows
	return StallMetrics{Count: count, Duration: time.Duration(c.nanos.Load())}
}

// stall counts one group of writes that waited. commitMu is held.
func (db *DB) stall(reason StallReason, waited time.Duration) {
	c := &db.writes.stalls[reason]
	c.count.Add(1)
	c.nanos.Add(int64(waited))
}

// slowed records that a group of writes was delayed. With 0, it was not delayed, which ends the spell. commitMu is
// held.
func (db *DB) slowed(by time.Duration) {
	s := &db.slowSpell
	if by > 0 {
		db.stall(SlowedByLevel0, by)
		s.Writes++
		s.Duration += by
	} else if s.Writes > 0 {
		db.report.stalled(*s)
		*s = StallInfo{Reason: SlowedByLevel0}
	}
}

// A stop measures how long a group of writes waits for each reason.
type stop struct {
	waited  [stallReasons]time.Duration
	since   time.Time
	reason  StallReason
	waiting bool
}

// on records what the group waits for from now on, until the next call of on or end.
func (s *stop) on(reason StallReason) {
	s.end()
	s.reason, s.since, s.waiting = reason, time.Now(), true
}

// end records that the group no longer waits.
func (s *stop) end() {
	if s.waiting {
		s.waited[s.reason] += time.Since(s.since)
		s.waiting = false
	}
}

// stopped counts and reports the time that a group of writes has waited. commitMu is held.
func (db *DB) stopped(s *stop) {
	s.end()
	for reason := range StallReason(stallReasons) {
		if waited := s.waited[reason]; waited > 0 {
			db.stall(reason, waited)
			db.report.stalled(StallInfo{Reason: reason, Writes: 1, Duration: waited})
		}
	}
}
