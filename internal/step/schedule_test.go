//go:build schedule

package step

import (
	"strings"
	"testing"
)

// counter is a program with a bug of depth two: between its load and its store another goroutine may add.
func counter(n, adds int) (got int) {
	var g WaitGroup
	var mu Mutex
	shared := 0
	Meet()
	for range n {
		g.Go(func() {
			for range adds {
				At("load")
				mu.Lock()
				v := shared
				mu.Unlock()
				At("store")
				mu.Lock()
				shared = v + 1
				mu.Unlock()
			}
		})
	}
	g.Wait()
	return shared
}

func TestSchedulesOfOneSeedAreEqual(t *testing.T) {
	sums := map[uint64]bool{}
	for seed := range uint64(200) {
		for _, kind := range []Kind{Priorities, Uniform} {
			var got [2]int
			var traces [2]Trace
			for i := range got {
				traces[i] = Run(Schedule{Seed: seed, Kind: kind, Log: true}, func() { got[i] = counter(3, 2) })
			}
			if traces[0].Err != nil || got[0] != got[1] || traces[0].Sum != traces[1].Sum {
				t.Fatalf("seed %d: %d and %d:\n%s\n\n%s", seed, got[0], got[1],
					strings.Join(traces[0].Lines, "\n"), strings.Join(traces[1].Lines, "\n"))
			}
			sums[traces[0].Sum] = true
		}
	}
	if len(sums) < 100 {
		t.Errorf("400 runs have %d schedules", len(sums))
	}
}

func TestSchedulesFindLostUpdates(t *testing.T) {
	for _, kind := range []Kind{Priorities, Uniform} {
		lost := 0
		for seed := range uint64(1000) {
			Run(Schedule{Seed: seed, Kind: kind}, func() {
				if counter(2, 1) != 2 {
					lost++
				}
			})
		}
		if lost == 0 || lost == 1000 {
			t.Errorf("kind %v: %d of 1000 runs lose an update", kind, lost)
		}
	}
}

// TestCallsThatBeginLaterMeetOthersHalfway compares how often an update is lost.
func TestCallsThatBeginLaterMeetOthersHalfway(t *testing.T) {
	lost := map[bool]int{}
	for _, late := range []bool{false, true} {
		for seed := range uint64(1000) {
			trace := Run(Schedule{Seed: seed, Kind: Priorities}, func() {
				shared := 0
				var g WaitGroup
				Meet()
				g.Go(func() {
					for range 20 {
						At("other")
					}
					v := shared
					At("store")
					shared = v + 1
				})
				g.Go(func() {
					if late {
						Later(1)
					}
					shared++
				})
				if g.Wait(); shared != 2 {
					lost[late]++
				}
			})
			if trace.Err != nil {
				t.Fatal(trace.Err)
			}
		}
	}
	if lost[true] < lost[false]*3/2 {
		t.Errorf("of 1000 runs %d lose an update, and %d if a call begins later", lost[false], lost[true])
	}
}

func TestSchedulesEndWithWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		name, want string
		f          func()
	}{
		{"locks in two orders", "no goroutine can go on", func() {
			var a, b Mutex
			Go(func() { a.Lock(); At("a"); b.Lock() })
			b.Lock()
			At("b")
			a.Lock()
		}},
		{"a panic", "goroutine 1: oh", func() { Go(func() { panic("oh") }) }},
		{"what does not hold", "goroutine 1: step: no", func() { Go(func() { Assert(false, "no") }) }},
		{"no end", "no end after 1000", func() {
			for {
				Poll(0)
			}
		}},
	} {
		found := ""
		for seed := range uint64(400) {
			if err := Run(Schedule{Seed: seed, Kind: Uniform, Most: 1000}, test.f).Err; err != nil {
				found = err.Error()
				break
			}
		}
		if !strings.Contains(found, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, found, test.want)
		}
	}
}
