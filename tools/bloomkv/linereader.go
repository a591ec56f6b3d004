package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// lineReader splits input into lines and counts them. Its memory is limited by longest, the maximum length of a line.
type lineReader struct {
	in      *bufio.Reader
	longest int
	number  int // of the line that next returned, from 1
}

func newLineReader(in io.Reader, longest int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 256<<10), longest: longest}
}

// next returns the next line without its line feed, valid until the next call. After the last line it returns io.EOF.
// Other errors, of reading and of a line that is too long, include the line number.
func (l *lineReader) next() ([]byte, error) {
	l.number++
	var parts [][]byte // of a line that does not fit the buffer
	for n := 0; ; {
		part, err := l.in.ReadSlice('\n')
		end := err == nil
		if end {
			part = part[:len(part)-1]
		}
		if n += len(part); n > l.longest {
			return nil, fmt.Errorf("line %d: longer than %d bytes", l.number, l.longest)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // a buffer that grew would be copied several times
			parts = append(parts, bytes.Clone(part))
		case errors.Is(err, io.EOF) && n == 0:
			l.number--
			return nil, io.EOF
		case end || errors.Is(err, io.EOF):
			if parts == nil {
				return part, nil
			}
			return bytes.Join(append(parts, part), nil), nil
		default:
			return nil, fmt.Errorf("line %d: %w", l.number, err)
		}
	}
}
