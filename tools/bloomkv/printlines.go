package main

import (
	"bufio"
	"errors"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
)

// A printer defines how pairs are printed.
type printer struct {
	limit   int // maximum number of pairs; 0 means all
	reverse bool
	line    func(dst, key, value []byte) ([]byte, error) // appends a line without its end
}

// printLines prints the pairs of a store, one per line, and returns their number.
func (a *app) printLines(c *cobra.Command, db *bloomkv.DB, o bloomkv.IterOptions, p printer) (n int, err error) {
	out := bufio.NewWriterSize(a.Out, 64<<10)
	defer func() { // print the lines before an error too
		if flush := out.Flush(); !errors.Is(err, flush) {
			err = errors.Join(err, flush)
		}
	}()
	it := db.Iter(o)
	defer func() { err = errors.Join(err, it.Close()) }()
	step := it.Next
	if p.reverse {
		step = it.Prev
	}
	var buf []byte
	for (p.limit == 0 || n < p.limit) && step() {
		if n%64 == 0 && c.Context().Err() != nil {
			return n, c.Context().Err()
		}
		if buf, err = p.line(buf[:0], it.Key(), it.Value()); err != nil {
			return n, err
		}
		if _, err := out.Write(append(buf, '\n')); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
