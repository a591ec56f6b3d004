package debug

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestOneRequestMakesWhatAllOthersGet asks for a value from many goroutines at once.
func TestOneRequestMakesWhatAllOthersGet(t *testing.T) {
	c := newCached[int64]()
	var calls atomic.Int64
	fresh := func(valid time.Duration) func() (int64, time.Duration) {
		return func() (int64, time.Duration) {
			n := calls.Add(1)
			time.Sleep(10 * time.Millisecond)
			return n, valid
		}
	}
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if got, err := c.get(t.Context(), fresh(time.Hour)); got != 1 || err != nil {
				t.Errorf("got %d, %v; want the first value", got, err)
			}
		})
	}
	wg.Wait()

	synctest.Test(t, func(t *testing.T) {
		old := newCached[int64]()
		calls.Store(0)
		for want := int64(1); want <= 3; want++ {
			for _, how := range []string{"made", "shown again, since making it took long"} {
				if got, err := old.get(t.Context(), fresh(0)); got != want || err != nil {
					t.Errorf("got %d, %v; want %d, %s", got, err, want, how)
				}
			}
			time.Sleep(201 * time.Millisecond) // more than 20 times as long as making it takes
		}
	})
}

func TestAViewerThatLeavesDoesNotWaitForItsTurn(t *testing.T) {
	c := newCached[int]()
	begun, end := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := c.get(t.Context(), func() (int, time.Duration) {
			close(begun)
			<-end
			return 1, time.Hour
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.get(ctx, func() (int, time.Duration) { return 2, 0 }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the error of the context", err)
	}
	close(end)
	wg.Wait()
}
