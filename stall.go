package bloomkv

import (
	"sync/atomic"
	"time"
)

// StallReason says why writes had to wait for background work.
type StallReason uint8

const (
	// SlowedByLevel0 delayed each write a little: level 0 had so many runs that compaction was falling behind.
	SlowedByLevel0 StallReason = iota
	// StoppedByLevel0 let no write through until level 0 had fewer runs.
	StoppedByLevel0
	// StoppedByMemtable let no write through until a full memtable had been written out.
	StoppedByMemtable

	stallReasons = iota
)

// String names the reason.
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

// StallInfo is a time for which writes waited.
type StallInfo struct {
	Reason   StallReason
	Writes   uint64        // groups of writes that waited: where they are slowed, several one after the other
	Duration time.Duration // for which they waited, in all
}

// A stallCount is what WriteMetrics say of one reason.
type stallCount struct{ count, nanos atomic.Int64 }

func (c *stallCount) metrics() StallMetrics {
	return StallMetrics{Count: uint64(c.count.Load()), Duration: time.Duration(c.nanos.Load())} //nolint:gosec // it only grows
}

// stall counts writes that waited. commitMu is held.
func (db *DB) stall(reason StallReason, waited time.Duration) {
	c := &db.writes.stalls[reason]
	c.count.Add(1)
	c.nanos.Add(int64(waited))
}

// slowed notes that a group of writes was delayed, and with 0 that one was not, which ends the spell. commitMu is held.
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

// A stop measures for what a group of writes waits, and how long, as it goes from one reason to another.
type stop struct {
	waited  [stallReasons]time.Duration
	since   time.Time
	reason  StallReason
	waiting bool
}

// on says what the group waits for from now on; until it is called again, or end.
func (s *stop) on(reason StallReason) {
	s.end()
	s.reason, s.since, s.waiting = reason, time.Now(), true
}

// end says that the group waits no longer.
func (s *stop) end() {
	if s.waiting {
		s.waited[s.reason] += time.Since(s.since)
		s.waiting = false
	}
}

// stopped notes what a group of writes has waited for. commitMu is held.
func (db *DB) stopped(s *stop) {
	s.end()
	for reason := range StallReason(stallReasons) {
		if waited := s.waited[reason]; waited > 0 {
			db.stall(reason, waited)
			db.report.stalled(StallInfo{Reason: reason, Writes: 1, Duration: waited})
		}
	}
}
