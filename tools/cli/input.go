package cli

import (
	"context"
	"io"
)

// UntilDone returns a reader of in that fails with the error of ctx as soon as ctx is done, even while a Read of in
// waits for a terminal or a pipe. That Read keeps its own buffer and goroutine until the process ends.
func UntilDone(ctx context.Context, in io.Reader) io.Reader {
	return &interruptible{ctx: ctx, in: in, results: make(chan chunk, 1), buf: make([]byte, 64<<10)}
}

type interruptible struct {
	ctx     context.Context //nolint:containedctx // Read has no parameter for it
	in      io.Reader
	results chan chunk
	buf     []byte
	rest    []byte
	err     error
}

type chunk struct {
	n   int
	err error
}

func (u *interruptible) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	if len(u.rest) == 0 && u.err == nil {
		go func() {
			n, err := u.in.Read(u.buf)
			u.results <- chunk{n, err}
		}()
		select {
		case c := <-u.results:
			u.rest, u.err = u.buf[:c.n], c.err
		case <-u.ctx.Done():
			u.err = u.ctx.Err() // buf belongs to the Read now
			return 0, u.err
		}
	}
	n := copy(p, u.rest)
	u.rest = u.rest[n:]
	if n == 0 {
		return 0, u.err
	}
	return n, nil
}
