package commit

import (
	"runtime"
	"time"

	"github.com/bloomkv/bloomkv/internal/step"
)

// A Reason is the reason why writes had to wait for background work.
type Reason uint8

// The reasons.
const (
	SlowedByLevel0    Reason = iota // each write was delayed a little: level 0 had too many runs
	StoppedByLevel0                 // writes waited until level 0 had fewer runs
	StoppedByMemtable               // writes waited until a memtable had been flushed
	SlowedByMemtable                // each write was delayed a little: a flush was behind

	Reasons = iota // number of reasons
)

// A Stall is a period during which writes waited, or the sum of all.
type Stall struct {
	Reason   Reason
	Writes   uint64        // groups of writes that waited: one if they were stopped, several in a row if delayed
	Duration time.Duration // total time that they waited
}

// stall counts one group of writes that waited. mu is held.
func (w *Writer) stall(reason Reason, waited time.Duration) {
	w.countsMu.Lock()
	defer w.countsMu.Unlock()
	c := &w.counts.Stalls[reason]
	c.Writes++
	c.Duration += waited
	w.pace.waited += waited
}

// A pace slows writers before they would have to stop, by a little for each byte. Writer.mu guards it.
type pace struct {
	debt  time.Duration // what writers still have to wait; negative if they have waited too long
	spell Stall         // the present delays

	// of the operations in the memtable, and in the one before
	bytes, lastBytes int64
	began            time.Time     // when the memtable began
	waited           time.Duration // since then, by groups of writes
	perKiB           time.Duration // that writers took for the last memtable, without that
}

const (
	minWait   = 4 * time.Microsecond   // shorter delays are added up
	minSleep  = 200 * time.Microsecond // the system does not time shorter sleeps well
	maxSleep  = 100 * time.Millisecond // so that a large batch notices when the store is closing
	maxYields = 2000                   // in place of a sleep: some 200 µs

	levelLeast = 8 * time.Microsecond  // for each KiB, at the first step of pressure: 128 MiB/s
	levelMost  = 64 * time.Microsecond // the same
	flushMost  = 64 * time.Microsecond // for each KiB
)

// rotated begins the next memtable.
func (p *pace) rotated() {
	if !p.began.IsZero() && p.bytes > 0 {
		p.perKiB = time.Duration(1024 * float64(step.Since(p.began)-p.waited) / float64(p.bytes))
	}
	p.lastBytes, p.bytes, p.began, p.waited = p.bytes, 0, step.Now(), 0
}

// slowDown delays a write of the given number of bytes as far as background work is behind. mu is held.
func (w *Writer) slowDown(size int64) {
	p := &w.pace
	reason, perKiB := SlowedByLevel0, w.levelDelay()
	if d := w.flushDelay(); d > perKiB {
		reason, perKiB = SlowedByMemtable, d
	}
	if perKiB == 0 || reason != p.spell.Reason {
		if p.spell.Writes > 0 {
			w.Stalled(p.spell)
		}
		p.debt, p.spell = 0, Stall{Reason: reason}
	}
	if perKiB == 0 {
		return
	}
	p.debt = min(p.debt+time.Duration(float64(size)/1024*float64(perKiB)), maxSleep)
	if p.debt < minWait {
		return
	}
	waited := wait(p.debt)
	p.debt = max(-10*time.Millisecond, p.debt-waited) // too long a wait shortens later ones
	if waited > 0 {
		w.stall(reason, waited)
		p.spell.Writes++
		p.spell.Duration += waited
	}
}

// levelDelay returns the delay for each KiB by the pressure of compaction. At the first step writers take twice the
// time that they took before, and each further step takes four times the delay, so that they come down to the speed of
// compaction instead of stopping.
func (w *Writer) levelDelay() time.Duration {
	steps := w.Policy.Pressure(w.Tree.Load().Version).Slow
	if steps <= 0 {
		return 0
	}
	return min(max(w.pace.perKiB, levelLeast), levelMost) << (2 * min(steps-1, 2))
}

// flushDelay returns the delay for each KiB while the memtable fills so fast that it would be full before the last one
// is flushed, so that writers would stop for the rest of the flush. They may fill a part of the memtable at any speed,
// and the next part while the last memtable is flushed. What is left is for the end of the flush, the syncs.
func (w *Writer) flushDelay() time.Duration {
	const free, paced = 0.65, 0.25
	p, s := &w.pace, w.Tree.Load()
	if len(s.Frozen) == 0 || p.lastBytes == 0 {
		return 0
	}
	filled := float64(s.Mem.Bytes()) / float64(w.MemtableSize)
	if filled < free {
		return 0
	}
	done := float64(s.Frozen[0].Flushed()) / float64(s.Frozen[0].Len())
	if filled < free+paced*done {
		return 0
	}
	perByte := float64(step.Since(p.began)) / (paced * max(done, 0.01) * float64(p.lastBytes))
	return min(time.Duration(1024*perByte), flushMost)
}

// wait waits for about d and returns how long it did. A short wait lets other goroutines run again and again, since a
// sleep would take longer.
func wait(d time.Duration) time.Duration {
	began := step.Now()
	if d >= minSleep {
		step.Poll(d)
		return step.Since(began)
	}
	for range maxYields { // bounded, for clocks that stand still in tests
		runtime.Gosched()
		if step.Since(began) >= d {
			break
		}
	}
	return step.Since(began)
}
