package commit

import "time"

// A Reason is the reason why writes had to wait for background work.
type Reason uint8

// The reasons.
const (
	SlowedByLevel0    Reason = iota // each write was delayed a little: level 0 had too many runs
	StoppedByLevel0                 // writes waited until level 0 had fewer runs
	StoppedByMemtable               // writes were delayed, or waited, until a memtable had been flushed

	Reasons = iota // number of reasons
)

// A Stall is a period during which writes waited.
type Stall struct {
	Reason   Reason
	Writes   uint64        // groups of writes that waited: one if they were stopped, several in a row if delayed
	Duration time.Duration // total time that they waited
}

// A StallCount counts the groups of writes that waited for one reason, and the total time.
type StallCount struct {
	Count    uint64
	Duration time.Duration
}

// stall counts one group of writes that waited. mu is held.
func (w *Writer) stall(reason Reason, waited time.Duration) {
	w.countsMu.Lock()
	defer w.countsMu.Unlock()
	c := &w.counts.Stalls[reason]
	c.Count++
	c.Duration += waited
}

// stopped counts and reports the time that a group of writes has waited. mu is held.
func (w *Writer) stopped(s *stop) {
	s.end()
	for reason := range Reason(Reasons) {
		if waited := s.waited[reason]; waited > 0 {
			w.stall(reason, waited)
			w.Observer.Stalled(Stall{Reason: reason, Writes: 1, Duration: waited})
		}
	}
}

// A stop measures how long a group of writes waits for each reason.
type stop struct {
	waited  [Reasons]time.Duration
	since   time.Time
	reason  Reason
	waiting bool
}

// on records what the group waits for from now on, until the next call of on or end.
func (s *stop) on(reason Reason) {
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
