package cli

import (
	"context"
	"io"
	"math"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/bloomkv/bloomkv/tools/outfile"
)

// A Progress is a bar on a terminal. Elsewhere, as the zero Progress, it draws nothing.
type Progress struct{ bar *progressbar.ProgressBar }

// Progress starts a bar on Err. A total below 0 is unknown. The bar counts bytes if inBytes is true, else items.
func (s *Streams) Progress(what string, total int64, inBytes bool) Progress {
	if !s.ErrTerminal {
		return Progress{}
	}
	return Progress{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(s.Err),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(inBytes),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(30),
		progressbar.OptionClearOnFinish(),
		// Only Set and Write draw. By default a bar without a total has a goroutine that draws forever, even after End.
		progressbar.OptionSetSpinnerChangeInterval(0),
	)}
}

// Set sets how much is done, and the total. A total below 0 is still unknown.
func (p Progress) Set(done, total int) { p.set(int64(done), int64(total)) }

// SetBytes is like Set for numbers of bytes, which may exceed the largest int64.
func (p Progress) SetBytes(done, total uint64) { p.set(clamp(done), clamp(total)) }

func (p Progress) set(done, total int64) {
	if p.bar == nil {
		return
	}
	if total >= 0 {
		if total != p.bar.GetMax64() {
			p.bar.ChangeMax64(total)
		}
		done = min(done, total)
	}
	_ = p.bar.Set64(done) // failing to draw must not stop the work
}

func clamp(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// Write adds the length of b, so that a Progress can be the writer of an io.TeeReader.
func (p Progress) Write(b []byte) (int, error) {
	if p.bar != nil {
		_ = p.bar.Add(len(b)) // as above
	}
	return len(b), nil
}

// Follow draws the bar ten times a second with what done returns, until stop is called. A total below 0 is unknown.
func (p Progress) Follow(done func() uint64, total int64) (stop func()) {
	if p.bar == nil {
		return func() {}
	}
	draw := func() { p.set(clamp(done()), total) }
	draw()
	return Every(100*time.Millisecond, draw)
}

// Every calls f at an interval, on a goroutine of its own, until stop is called. When stop returns, f does not run.
func Every(interval time.Duration, f func()) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				f()
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// End removes the bar.
func (p Progress) End() {
	if p.bar != nil {
		_ = p.bar.Clear() // as above
	}
}

// Open opens a file for reading. When ctx ends, it stops waiting for the writer of a pipe and returns the error of ctx.
func Open(ctx context.Context, name string) (*os.File, error) {
	return outfile.Wait(ctx, func() (*os.File, error) { return os.Open(name) })
}

// UntilDone returns a reader of in that fails with the error of ctx as soon as ctx is done, even while a Read of in
// waits for a terminal or a pipe. That Read keeps its own buffer and goroutine until the process ends.
func UntilDone(ctx context.Context, in io.Reader) io.Reader {
	return &interruptible{ctx: ctx, in: in, buf: make([]byte, 64<<10)}
}

type interruptible struct {
	ctx  context.Context //nolint:containedctx // Read has no parameter for it
	in   io.Reader
	buf  []byte // of a Read that was not waited for, once ctx is done
	rest []byte
	err  error
}

func (u *interruptible) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	if len(u.rest) == 0 && u.err == nil {
		var n int
		n, u.err = outfile.Wait(u.ctx, func() (int, error) { return u.in.Read(u.buf) })
		u.rest = u.buf[:n]
	}
	n := copy(p, u.rest)
	u.rest = u.rest[n:]
	if n == 0 {
		return 0, u.err
	}
	return n, nil
}
