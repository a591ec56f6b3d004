package workload

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// busyStore keeps a processor busy for 20 µs per lookup. The lookup with the number fail fails, if that is not 0.
type busyStore struct {
	stillStore

	calls, fail atomic.Int64
}

var errBusy = errors.New("busy store on fire")

const busy = 20 * time.Microsecond

func (s *busyStore) AppendGet(dst, _ []byte) ([]byte, bool, error) {
	for begin := time.Now(); time.Since(begin) < busy; {
	}
	if s.calls.Add(1) == s.fail.Load() {
		return dst, false, errBusy
	}
	return dst, false, nil
}

func onProcessors(t *testing.T, n int) {
	t.Helper()
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// Four workers on one processor are no faster than one, although none is interrupted while its clock runs.
func TestMoreWorkersThanProcessorsGainNothing(t *testing.T) {
	onProcessors(t, 1)
	set := generated(t, Random, 1000, 10)
	for _, ops := range []int{640, 7} { // with 7 operations, one worker has nothing to do in the second round
		f, err := Run(t.Context(), &busyStore{}, set, Phase{Kind: Absent, Ops: ops, Workers: 4}, nil)
		if err != nil || f.Ops != ops {
			t.Fatalf("%+v, %v, want %d operations", f, err, ops)
		}
		if least := 0.9 * float64(busy); f.MeanNs < least || f.MedianNs < least {
			t.Errorf("%d operations: %.0f ns each on average, median %.0f, want at least %v",
				ops, f.MeanNs, f.MedianNs, busy)
		}
	}
}

func TestAFailureOfOneWorkerEndsThemAll(t *testing.T) {
	onProcessors(t, 1)
	set := generated(t, Random, 1000, 10)
	for _, fail := range []int64{1, 2, 50, 500, 640} {
		s := &busyStore{}
		s.fail.Store(fail)
		if _, err := Run(t.Context(), s, set, Phase{Kind: Absent, Ops: 640, Workers: 4},
			nil); !errors.Is(err, errBusy) {
			t.Errorf("call %d fails: %v, want %v", fail, err, errBusy)
		}
	}
}
