package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress is a bar on a terminal, and nothing elsewhere.
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
		// Only set draws. By default a bar without a total has a goroutine that draws for ever, also after end.
		progressbar.OptionSetSpinnerChangeInterval(0),
	)}
}

// set says how much is done, of how much.
func (p progress) set(done, total int) {
	if p.bar == nil {
		return
	}
	if int64(total) != p.bar.GetMax64() {
		p.bar.ChangeMax(total)
	}
	_ = p.bar.Set(min(done, total)) // a bar that can't be drawn is no error of the work
}

// end removes the bar.
func (p progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear() // as above
	}
}
