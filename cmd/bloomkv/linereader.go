package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// lineReader splits input into lines and counts them. Its memory is limited by longest, the maximum length of a line.
type lineReader struct {
	in      *bufio.Reader
	longest int
	long    []byte // a line that did not fit the buffer of in
	number  int    // of the line that next returned, from 1
}

func newLineReader(in io.Reader, longest int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 256<<10), longest: longest}
}

// next returns the next line without its line feed, valid until the next call. After the last line it returns io.EOF.
// Other errors, of reading and of a line that is too long, include the line number.
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
