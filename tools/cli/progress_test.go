package cli

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A lastWords fails a test if something is drawn after the end, and ends the goroutine that draws it.
type lastWords struct {
	t     *testing.T
	drawn strings.Builder
	over  bool
}

func (l *lastWords) Write(b []byte) (int, error) {
	if l.over {
		l.t.Errorf("drawn after the end: %q", b)
		runtime.Goexit()
	}
	return l.drawn.Write(b)
}

func TestABarIsGoneAfterItsEnd(t *testing.T) {
	for _, total := range []int64{-1, 100} {
		synctest.Test(t, func(t *testing.T) {
			screen := &lastWords{t: t}
			bar := (&Streams{Err: screen, ErrTerminal: true}).Progress("work", total, true)
			for range 3 {
				if _, err := bar.Write(make([]byte, 10)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			bar.End()
			screen.over = true
			time.Sleep(time.Minute)
			if s := screen.drawn.String(); !strings.Contains(s, "work") || !strings.HasSuffix(s, " \r") {
				t.Errorf("of %d: drew %q, want the bar and then spaces over it", total, s)
			}
		})
	}
}

func TestABarFollowsUntilItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		screen := &lastWords{t: t}
		bar := (&Streams{Err: screen, ErrTerminal: true}).Progress("work", -1, true)
		looks := uint64(0)
		stop := bar.Follow(func() uint64 { looks++; return 1000 * looks }, 20_000)
		time.Sleep(time.Second + time.Millisecond)
		stop()
		bar.End()
		screen.over = true
		if seen := looks; seen != 11 {
			t.Errorf("asked %d times in a second, want 11", seen)
		}
		time.Sleep(time.Minute)
		if s := screen.drawn.String(); !strings.Contains(s, "11/20 kB") || looks != 11 {
			t.Errorf("asked %d times, drew %q; want 11 times and 11/20 kB", looks, s)
		}
	})
	stop := Progress{}.Follow(func() uint64 { t.Error("asked without a bar"); return 0 }, -1)
	stop()
}
