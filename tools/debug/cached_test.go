package debug

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestOneRequestMakesWhatAllOthersGet asks for a value from many goroutines at once.
func TestOneRequestMakesWhatAllOthersGet(t *testing.T) {
	c := newCached[int64]()
	var calls atomic.Int64
	fresh := func(valid time.Duration) func() (int64, time.Time) {
		return func() (int64, time.Time) {
			n := calls.Add(1)
			time.Sleep(10 * time.Millisecond)
			return n, time.Now().Add(valid)
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

	old := newCached[int64]()
	calls.Store(0)
	for want := int64(1); want <= 3; want++ {
		if got, err := old.get(t.Context(), fresh(-time.Second)); got != want || err != nil {
			t.Errorf("got %d, %v; want %d, since the value before is too old", got, err, want)
		}
	}
}

func TestAViewerThatLeavesDoesNotWaitForItsTurn(t *testing.T) {
	c := newCached[int]()
	begun, end := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := c.get(t.Context(), func() (int, time.Time) {
			close(begun)
			<-end
			return 1, time.Now().Add(time.Hour)
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.get(ctx, func() (int, time.Time) { return 2, time.Time{} }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the error of the context", err)
	}
	close(end)
	wg.Wait()
}
