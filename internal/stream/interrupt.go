package stream

import (
	"context"
	"io"

	"github.com/bloomkv/bloomkv/internal/step"
)

// Interruptible returns a reader of r whose calls end when ctx does, even while r blocks. The returned stop must be
// called once no more is read. It does not wait for a call of r that blocks; r is not used after that call returns.
func Interruptible(ctx context.Context, r io.Reader) (_ io.Reader, stop func()) {
	ctx, stop = context.WithCancel(ctx)
	i := &interruptible{ctx: ctx, want: make(chan int, 1), got: make(chan result, 1)}
	step.Go(func() { i.serve(r) })
	return i, stop
}

type interruptible struct {
	ctx  context.Context //nolint:containedctx // of one call that reads a stream
	want chan int
	got  chan result // both with space for one, so that neither side waits for the other to receive
}

type result struct {
	b   []byte
	err error
}

// serve reads what is wanted.
func (i *interruptible) serve(r io.Reader) {
	var buf []byte
	for {
		n, ok := step.TakeOr(i.ctx, i.want)
		if !ok || i.ctx.Err() != nil {
			return
		}
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		n, err := r.Read(buf[:n])
		i.got <- result{buf[:n], err}
	}
}

// Read implements io.Reader. After the end of ctx it must not be called again.
func (i *interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	i.want <- min(len(p), frameSize+sumSize)
	got, ok := step.TakeOr(i.ctx, i.got)
	if !ok {
		return 0, i.ctx.Err()
	}
	return copy(p, got.b), got.err
}
