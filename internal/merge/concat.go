package merge

import (
	"errors"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A Concat is the tables of one run as one source: their keys are disjoint and ascend from table to table. At most one
// table is open at a time. It is for one goroutine.
type Concat struct {
	n    int
	find func(user []byte) int
	open func(i int) (Source, error)

	table  int    // the open one
	src    Source // nil if none is open
	valid  bool
	err    error
	closed []error // errors of closing tables on the way
}

var _ Source = (*Concat)(nil)

// NewConcat makes a source of n tables. find returns the first table whose largest user key is user or greater, n if there
// is none; open opens table i, and the Concat closes what it returns. Neither is called before the first move.
func NewConcat(n int, find func(user []byte) int, open func(i int) (Source, error)) *Concat {
	return &Concat{n: n, find: find, open: open}
}

// First goes to the first version of the first table that has one.
func (c *Concat) First() bool { return c.from(0, Source.First) }

// SeekGE goes to the first version at or after k. A table that is already open is kept.
func (c *Concat) SeekGE(k ikey.Key) bool {
	// Not First in the tables after the one found: the versions of a user key may go on there.
	return c.from(c.find(k.User), func(s Source) bool { return s.SeekGE(k) })
}

// Next goes to the next version, in the next table if this one has no more.
func (c *Concat) Next() bool {
	if !c.valid {
		return false
	}
	if c.src.Next() {
		return true
	}
	if c.failed() {
		return false
	}
	return c.from(c.table+1, Source.First)
}

// from positions the tables from i on, until one has a version.
func (c *Concat) from(i int, position func(Source) bool) bool {
	c.valid, c.err = false, nil
	for ; i < c.n; i++ {
		if c.src == nil || c.table != i {
			c.leave()
			src, err := c.open(i)
			if err != nil {
				c.err = err
				return false
			}
			c.src, c.table = src, i
		}
		if position(c.src) {
			c.valid = true
			return true
		}
		if c.failed() {
			return false
		}
	}
	return false
}

// failed keeps the error of the open table, if it has one.
func (c *Concat) failed() bool {
	c.err = c.src.Err()
	c.valid = false
	return c.err != nil
}

// leave closes the open table.
func (c *Concat) leave() {
	if c.src == nil {
		return
	}
	if err := c.src.Close(); err != nil {
		c.closed = append(c.closed, err)
	}
	c.src = nil
}

// Key is the current version's place.
func (c *Concat) Key() ikey.Key { return c.src.Key() }

// Value is the current version's value.
func (c *Concat) Value() []byte { return c.src.Value() }

// Err is the error of a table, or of opening one, that stopped the source.
func (c *Concat) Err() error { return c.err }

// Close closes the open table, and reports what closing it or any table before it said.
func (c *Concat) Close() error {
	c.leave()
	c.valid, c.n = false, 0
	err := errors.Join(c.closed...)
	c.closed = nil
	return err
}
