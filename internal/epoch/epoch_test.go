package epoch

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWithoutReadersARetiredThingIsReleasedAtOnce(t *testing.T) {
	var d Domain
	released := 0
	d.Retire(func() { released++ })
	if released != 1 {
		t.Errorf("released %d times, want once", released)
	}
	d.Collect()
	if released != 1 {
		t.Errorf("released %d times, want once", released)
	}
	if n := d.waiting.Load(); n != 0 {
		t.Errorf("%d things wait", n)
	}
}

// TestReadersThatFollowOneAnotherHoldNothing lets each reader enter before the one before it leaves.
func TestReadersThatFollowOneAnotherHoldNothing(t *testing.T) {
	var d Domain
	released := false
	g := d.Enter()
	d.Retire(func() { released = true })
	for range 3 {
		h := d.Enter()
		g.Leave()
		d.Collect()
		g = h
	}
	g.Leave()
	if !released {
		t.Error("a thing stays, though all readers of it have left")
	}
}

func TestNothingIsReleasedWhileAReaderOfItIsInside(t *testing.T) {
	for later := range 4 { // later readers, one in each epoch
		var d Domain
		released := 0
		g := d.Enter()
		d.Retire(func() { released++ })
		for range later {
			h := d.Enter()
			d.Collect()
			h.Leave()
			d.Collect()
		}
		if released != 0 {
			t.Fatalf("released while its reader was inside, after %d others", later)
		}
		g.Leave()
		d.Collect()
		if released != 1 {
			t.Errorf("released %d times after its reader left, want once", released)
		}
	}
}

func TestThingsAreReleasedInTheOrderOfRetiring(t *testing.T) {
	var d Domain
	var got []int
	g := d.Enter()
	for i := range 10 {
		d.Retire(func() { got = append(got, i) })
	}
	g.Leave()
	d.Collect()
	for i := range 10 {
		if len(got) != 10 || got[i] != i {
			t.Fatalf("released in the order %v", got)
		}
	}
}

func TestAReaderThatStaysHoldsOnlyWhatItMaySee(t *testing.T) {
	var d Domain
	d.Enter().Leave()
	early := false
	d.Retire(func() { early = true })
	g := d.Enter()
	if !early {
		t.Error("a thing retired before a reader entered waits for it")
	}
	g.Leave()
}

func TestAReleaseMayRetireAndCollect(t *testing.T) {
	var d Domain
	inner := false
	d.Retire(func() {
		d.Retire(func() { inner = true })
		d.Collect()
	})
	if !inner {
		t.Error("what a release retired was not released")
	}
}

func TestWaitReturnsWhenTheReadersHaveLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d Domain
		released, left := false, false
		g := d.Enter()
		d.Retire(func() { released = true })
		go func() {
			time.Sleep(time.Second)
			left = true
			g.Leave()
		}()
		start := time.Now()
		d.Wait()
		if !left || !released || time.Since(start) > 2*time.Second {
			t.Errorf("waited %v: reader left %v, released %v", time.Since(start), left, released)
		}
	})
}

func TestWaitLaterReleasesOnceTheReaderHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d Domain
		var released atomic.Bool
		g := d.Enter()
		d.Retire(func() { released.Store(true) })
		start := time.Now()
		if d.WaitLater(); released.Load() || time.Since(start) > 0 {
			t.Errorf("released %v, after %v", released.Load(), time.Since(start))
		}
		time.Sleep(time.Second)
		g.Leave()
		if time.Sleep(time.Second); !released.Load() {
			t.Error("not released, though the reader has left")
		}
		released.Store(false)
		g = d.Enter()
		d.Retire(func() { released.Store(true) })
		g.Leave()
		if d.WaitLater(); !released.Load() {
			t.Error("not released at once, though no reader is inside")
		}
	})
}

// Two goroutines retire without a pause for a minute, so one of them is always inside a release.
// The end of a bubble, in which time stands still from then on, fails if a goroutine is left.
func TestEndWaitsForTheGoroutineButNotForAReader(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		var d Domain
		g := d.Enter()
		d.Retire(func() {})
		d.End()
		time.Sleep(time.Second)
		g.Leave()
		d.End()
	})
}

func TestWaitReturnsWhileOthersRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d Domain
		end := time.Now().Add(time.Minute)
		var others sync.WaitGroup
		defer others.Wait()
		for i := range 2 {
			others.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				for time.Now().Before(end) {
					d.Retire(func() { time.Sleep(2 * time.Second) })
				}
			})
		}
		time.Sleep(10 * time.Second)
		start := time.Now()
		d.Wait()
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("waited %v for releases that take 2s", took)
		}
	})
}

// A release that began before Wait was called ends before Wait returns, also if another goroutine runs it.
func TestWaitReturnsAfterReleasesThatAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d Domain
		for range 3 {
			var released [2]bool
			for i := range released {
				go d.Retire(func() {
					time.Sleep(time.Second)
					released[i] = true
				})
				time.Sleep(time.Millisecond)
			}
			d.Wait()
			if !released[0] || !released[1] {
				t.Errorf("when Wait returned the releases had ended: %v, want both", released)
			}
		}
	})
}

// Readers load a shared pointer and check its target; a writer replaces and retires it, and the release poisons it.
// Under the race detector this also proves the order: the release writes without any other synchronisation.
func TestReadersNeverSeeWhatWasReleased(t *testing.T) {
	const good, poison = 1, -1
	type thing struct{ value int }
	var (
		d       Domain
		current atomic.Pointer[thing]
		stop    atomic.Bool
		readers sync.WaitGroup
	)
	current.Store(&thing{good})
	for range 8 {
		readers.Go(func() {
			for n := 0; !stop.Load(); n++ {
				g := d.Enter()
				p := current.Load()
				if n%64 == 0 {
					runtime.Gosched() // stay during a change or two
				}
				if p.value != good {
					t.Error("a reader saw what was released")
					stop.Store(true)
				}
				g.Leave()
			}
		})
	}
	var writers sync.WaitGroup
	var retired, released atomic.Int64
	for range 2 {
		writers.Go(func() {
			for range 2000 {
				old := current.Swap(&thing{good})
				retired.Add(1)
				d.Retire(func() {
					old.value = poison
					released.Add(1)
				})
				runtime.Gosched()
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
	d.Wait()
	if retired.Load() != released.Load() {
		t.Errorf("retired %d, released %d", retired.Load(), released.Load())
	}
}

func TestEnteringAllocatesNothing(t *testing.T) {
	var d Domain
	if n := testing.AllocsPerRun(100, func() { d.Enter().Leave() }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkEnterLeave(b *testing.B) {
	var d Domain
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			d.Enter().Leave()
		}
	})
}

// TestGoroutinesSpread counts the stripes of goroutines that are alive together. Distributed at random, 96 of them
// would take 64 × (1 - (1 - 1/64)^96) = 50 stripes of 64, with a deviation of 2.6.
func TestGoroutinesSpread(t *testing.T) {
	const n, stripes = 96, 64
	var at [n]int
	var ready, noted, done sync.WaitGroup
	ready.Add(n)
	noted.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			ready.Wait() // the runtime may pass a small stack on to another goroutine
			at[i] = Stripe(stripes)
			noted.Done()
			noted.Wait()
		})
	}
	done.Wait()
	taken := map[int]bool{}
	for _, s := range at {
		if s < 0 || s >= stripes {
			t.Fatalf("stripe %d of %d", s, stripes)
		}
		taken[s] = true
	}
	if len(taken) < 37 { // five deviations below 50
		t.Errorf("%d goroutines are on %d stripes of %d", n, len(taken), stripes)
	}
}

func BenchmarkStripe(b *testing.B) {
	for b.Loop() {
		if Stripe(64) < 0 {
			b.Fatal("below 0")
		}
	}
}
