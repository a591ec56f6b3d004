// Package epoch delays the release of shared things until no reader can still see them.
//
// A reader enters before it loads a pointer to what may be reclaimed, and leaves after its last use. A writer that
// unlinks a thing retires it; it is released once every reader that was inside at that moment has left. Entering adds
// to a counter that goroutines on other processors rarely touch (Fraser, "Practical lock-freedom", 2004, with striped
// counts in place of per-thread flags, which Go does not have).
package epoch

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/bloomkv/bloomkv/internal/step"
)

// stripes is small enough to check all stripes at each retirement.
const stripes = 64

// A Domain is a set of readers and of the things they may see. The zero value is ready.
type Domain struct {
	epoch   atomic.Uint64
	waiting atomic.Int64 // length of limbo, changed under mu; lets Collect return quickly when it is 0
	later   atomic.Int64 // calls of WaitLater that its goroutine has still to wait for
	_       [112]byte
	stripes [stripes]readers

	mu        step.Mutex // guards limbo and turn; never held while a release runs
	limbo     []retired
	turn      uint64          // number of calls of Wait that have changed the counter of releasing calls
	releasing [2]atomic.Int64 // calls of Collect that are releasing, by the parity of the turn in which they began
	waiter    step.Mutex      // held from the change of turn until all calls of the previous turn have ended
}

// readers is one stripe of the readers' counts, alone on its two cache lines (processors fetch adjacent lines
// together).
type readers struct {
	inside [2]atomic.Int64 // readers inside that entered in an even, an odd epoch
	_      [112]byte
}

type retired struct {
	epoch   uint64
	release func()
}

// A Guard is one reader's stay.
type Guard struct{ count *atomic.Int64 }

// Enter begins a stay. Stays must be short: a lookup, a block read.
func (d *Domain) Enter() Guard {
	c := &d.stripes[Stripe(stripes)].inside[d.epoch.Load()&1]
	step.At("epoch: enter")
	c.Add(1)
	return Guard{c}
}

// Leave ends the stay.
func (g Guard) Leave() {
	g.count.Add(-1)
	step.At("epoch: leave")
}

// Retire calls release once no reader that is inside now is left. The thing must already be unlinked: a reader that
// enters later must not find it. Release runs, without locks, on a goroutine that calls Retire, Collect or Wait.
// Readers that leave release nothing, so retired things stay until the next such call.
func (d *Domain) Retire(release func()) {
	d.mu.Lock()
	d.limbo = append(d.limbo, retired{d.epoch.Load(), release})
	d.waiting.Add(1)
	d.mu.Unlock()
	d.Collect()
}

// Collect releases what may be released. It never waits.
func (d *Domain) Collect() {
	if d.waiting.Load() == 0 {
		return
	}
	d.mu.Lock()
	releasing := &d.releasing[d.turn&1]
	releasing.Add(1)
	defer releasing.Add(-1)
	d.advance()
	// Both parities were seen empty after the retirement once the epoch has advanced by three: a reader that still sees
	// a thing was counted in one of them since before the thing was unlinked, however long ago it read the epoch.
	safe, n := d.epoch.Load(), 0
	for n < len(d.limbo) && d.limbo[n].epoch+3 <= safe {
		n++
	}
	ready := slices.Clone(d.limbo[:n])
	d.limbo = slices.Delete(d.limbo, 0, n)
	d.waiting.Add(-int64(n))
	d.mu.Unlock()
	for _, r := range ready {
		step.At("epoch: release")
		r.release()
	}
}

// advance advances the epoch as far as the readers allow, at most until everything in limbo is safe.
func (d *Domain) advance() {
	for range 3 {
		e := d.epoch.Load()
		for i := range d.stripes {
			if d.stripes[i].inside[(e+1)&1].Load() != 0 {
				return
			}
		}
		d.epoch.Store(e + 1) // the only store, under mu
	}
}

// Wait returns when every reader that was inside at the call has left and everything retired before it is released.
// Other goroutines may continue to enter and to retire. A release must not call Wait.
func (d *Domain) Wait() {
	var last atomic.Bool
	d.Retire(func() { last.Store(true) })
	poll(func() bool {
		d.Collect()
		return last.Load()
	})
	// Everything retired before has been taken out of limbo, in order, by calls of Collect in this turn, which may
	// still be releasing it. Calls that begin after the turn has changed release only later things. Waiting for a
	// moment without any call could take for ever: there may always be some.
	d.waiter.Lock()
	defer d.waiter.Unlock()
	d.mu.Lock()
	releasing := &d.releasing[d.turn&1]
	d.turn++
	d.mu.Unlock()
	poll(func() bool { return releasing.Load() == 0 })
}

// WaitLater releases what is retired: now, if no reader is inside, and otherwise on a goroutine, once they have left. A
// reader may stay for as long as its file system takes, so there is one goroutine for all calls meanwhile.
func (d *Domain) WaitLater() {
	d.Collect()
	if d.waiting.Load() == 0 || d.later.Add(1) > 1 {
		return
	}
	step.Go(func() {
		for n := int64(0); !d.later.CompareAndSwap(n, 0); {
			n = d.later.Load()
			d.Wait()
		}
	})
}

// End is a last WaitLater. It returns once the goroutine has ended, unless a reader is inside.
func (d *Domain) End() {
	d.WaitLater()
	poll(func() bool { return d.later.Load() == 0 || d.occupied() })
}

func (d *Domain) occupied() bool {
	for i := range d.stripes {
		if s := &d.stripes[i]; s.inside[0].Load() != 0 || s.inside[1].Load() != 0 {
			return true
		}
	}
	return false
}

// poll calls done until it returns true, at intervals that grow from 1 µs to 1 ms.
func poll(done func() bool) {
	for wait := time.Microsecond; !done(); wait = min(2*wait, time.Millisecond) {
		step.Poll(wait)
	}
}

// Stripe returns a number in [0, n) for the calling goroutine. Data that all goroutines write is kept in stripes on
// separate cache lines, so that goroutines on different processors rarely write to the same one; Go has no data for
// each processor. Two goroutines get the same stripe with a probability of 1/n.
//
// The number is derived from the address of the stack, so that a goroutine keeps to few stripes. It takes 1 ns.
func Stripe(n uint64) int {
	if step.Scheduled {
		return 0
	}
	var here byte
	// Stacks are at least 2 KiB, never shared, and lie at small multiples of a power of two from each other. One
	// multiplication would map such neighbours to neighbouring stripes, and often to the same.
	h := uint64(uintptr(unsafe.Pointer(&here))>>11) * 0x9e3779b97f4a7c15
	i, _ := bits.Mul64((h^h>>29)*0xbf58476d1ce4e5b9, n)
	return int(i) //nolint:gosec // below n
}
