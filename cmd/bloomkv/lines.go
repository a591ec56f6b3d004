package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
)

// lineReader splits input into lines and knows their numbers. Its memory is that of the longest line, at most longest.
type lineReader struct {
	in      *bufio.Reader
	longest int
	long    []byte // a line that did not fit the buffer of in
	number  int    // of the line that next returned, from 1
}

func newLineReader(in io.Reader, longest int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 256<<10), longest: longest}
}

// next is the next line without its line feed, valid until the next call. After the last line it is io.EOF. Other errors are
// those of reading and of a line that is too long; they name the line.
func (l *lineReader) next() ([]byte, error) {
	l.number++
	l.long = l.long[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		end := err == nil
		if end {
			part = part[:len(part)-1]
		}
		if len(l.long)+len(part) > l.longest {
			return nil, fmt.Errorf("line %d: longer than %d bytes", l.number, l.longest)
		}
		switch {
		case end && len(l.long) == 0:
			return part, nil
		case end:
			l.long = append(l.long, part...)
			return l.long, nil
		case errors.Is(err, bufio.ErrBufferFull):
			l.long = append(l.long, part...)
		case errors.Is(err, io.EOF) && len(l.long)+len(part) == 0:
			l.number--
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			l.long = append(l.long, part...)
			return l.long, nil
		default:
			return nil, fmt.Errorf("line %d: %w", l.number, err)
		}
	}
}

// untilDone is a reader that ends with the error of ctx as soon as ctx does, even while a Read of in waits for a terminal or
// a pipe. That Read is left behind, with a buffer of its own, for the end of the process.
func untilDone(ctx context.Context, in io.Reader) io.Reader {
	u := &interruptible{ctx: ctx, in: in, results: make(chan chunk, 1), buf: make([]byte, 64<<10)}
	return u
}

type interruptible struct {
	ctx     context.Context //nolint:containedctx // io.Reader has no other place for it
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
