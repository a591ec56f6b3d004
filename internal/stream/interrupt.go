package stream

import (
	"context"
	"io"
)

// Interruptible returns a reader of r whose calls end when ctx does, even while r blocks. The returned stop must be
// called once no more is read. It does not wait for a call of r that blocks; r is not used after that call returns.
func Interruptible(ctx context.Context, r io.Reader) (_ io.Reader, stop func()) {
	i := &interruptible{ctx: ctx, want: make(chan int), got: make(chan result, 1)}
	go i.serve(r)
	return i, func() { close(i.want) }
}

type interruptible struct {
	ctx  context.Context //nolint:containedctx // of one call that reads a stream
	want chan int
	got  chan result // with space for one, so that serve never waits for a reader that is gone
}

type result struct {
	b   []byte
	err error
}

// serve reads what is wanted.
func (i *interruptible) serve(r io.Reader) {
	var buf []byte
	for n := range i.want {
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
	select {
	case i.want <- min(len(p), frameSize+sumSize):
	case <-i.ctx.Done():
		return 0, i.ctx.Err()
	}
	select {
	case got := <-i.got:
		return copy(p, got.b), got.err
	case <-i.ctx.Done():
		return 0, i.ctx.Err()
	}
}
