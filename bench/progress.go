package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress is a progress bar on a terminal, and nothing elsewhere.
type progress struct{ bar *progressbar.ProgressBar }

func (s streams) progress(what string) progress {
	if !s.terminal {
		return progress{}
	}
	return progress{progressbar.NewOptions64(-1,
		progressbar.OptionSetWriter(s.err),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(30),
		progressbar.OptionClearOnFinish(),
		// Only set draws. By default a bar without a total starts a goroutine that draws even after end.
		progressbar.OptionSetSpinnerChangeInterval(0),
	)}
}

// set sets the amount of work done, and of all work.
func (p progress) set(done, total int) {
	if p.bar == nil {
		return
	}
	if int64(total) != p.bar.GetMax64() {
		p.bar.ChangeMax(total)
	}
	_ = p.bar.Set(min(done, total)) // the work does not fail if a bar cannot be drawn
}

// end removes the bar.
func (p progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear() // as above
	}
}
