package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress is a bar on a terminal, and nothing elsewhere.
type progress struct{ bar *progressbar.ProgressBar }

// newProgress begins a bar on the error stream. A total below 0 is unknown. In bytes, or else in pieces.
func (a *app) newProgress(what string, total int64, inBytes bool) progress {
	if !a.errTerm {
		return progress{}
	}
	return progress{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(a.err),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(inBytes),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(30),
		progressbar.OptionClearOnFinish(),
		// Only set and Write draw. By default a bar without a total has a goroutine that draws for ever, also after end.
		progressbar.OptionSetSpinnerChangeInterval(0),
	)}
}

// set says how much is done, of how much; a total below 0 is unknown still.
func (p progress) set(done, total int64) {
	if p.bar == nil {
		return
	}
	if total >= 0 {
		if total != p.bar.GetMax64() {
			p.bar.ChangeMax64(total)
		}
		done = min(done, total)
	}
	_ = p.bar.Set64(done) // a bar that can't be drawn is no error of the work
}

// Write counts bytes, for an io.TeeReader.
func (p progress) Write(b []byte) (int, error) {
	if p.bar != nil {
		_ = p.bar.Add(len(b)) // as above
	}
	return len(b), nil
}

// follow draws the bar anew from time to time, as far as done says and without a total, until stop is called.
func (p progress) follow(done func() int64) (stop func()) {
	if p.bar == nil {
		return func() {}
	}
	p.set(done(), -1)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				p.set(done(), -1)
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// end removes the bar.
func (p progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear() // as above
	}
}
