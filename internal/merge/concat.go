package merge

import (
	"errors"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// Tables is what a Concat knows of the tables of a run: their user keys are disjoint and ascend from table to table.
type Tables interface {
	// Len is how many there are.
	Len() int
	// Find is the first table that does not end before the key user; Len if all do.
	Find(user []byte) int
	// Bounds are those of all keys in table i.
	Bounds(i int) Bounds
	// Open returns a source of the versions of table i, which may be none. The Concat closes it before it opens another, so
	// that it may always be the same one.
	Open(i int) (Source, error)
}

// Bounds are the user keys between which a table lies. They stay valid and unchanged for as long as a Concat is in use.
type Bounds struct {
	Smallest, Largest []byte
	Upper             Upper
}

// Upper says how Largest is meant.
type Upper uint8

const (
	Inclusive Upper = iota // keys are at most Largest
	Exclusive              // keys are less than Largest
	Infinite               // keys may be any from Smallest on; Largest does not count
)

// A Concat is the tables of one run as one source. At most one table is open at a time, and none before the first move.
//
// In an Iter it is lazy: where a move leads to another table and the table's bounds tell that all of it is at or after the
// place sought (or before, on the way back), it stands pending on the bound, and the table is opened when the Iter has
// come that far. A seek that falls between two tables, or the end of one, thus costs no table until it has to.
//
// The zero value has no tables. It is for one goroutine at a time.
type Concat struct {
	tables Tables
	n      int
	lazy   bool // its Iter settles it

	src  Source // the open table; nil if none is
	open int    // its number

	where   position
	at      int      // the table of where
	bound   ikey.Key // where it stands pending: no version of the table is before that place (or behind, on the way back)
	bounded bool     // there is such a place
	err     error
	told    error // what Err has said of src
	closing error // of closing tables on the way
}

// A position is where a Concat stands.
type position uint8

const (
	nowhere position = iota // before the first move, past an end, or where an error stopped it
	inside                  // on a version of the open table
	ahead                   // pending: before all of a table
	behind                  // pending: behind all of a table
)

var _ Source = (*Concat)(nil)

// NewConcat returns a source of the versions in tables. It calls none of their methods but Len before the first move.
func NewConcat(tables Tables) *Concat {
	c := &Concat{}
	c.Reset(tables)
	return c
}

// Reset makes c a source of the versions in tables, as new. Only on a zero Concat or after Close.
func (c *Concat) Reset(tables Tables) { *c = Concat{tables: tables, n: tables.Len()} }

// First goes to the first version of the first table that has one.
func (c *Concat) First() bool {
	c.err = nil
	return c.rest(c.before(0))
}

// Last goes to the last version of the last table that has one.
func (c *Concat) Last() bool {
	c.err = nil
	return c.rest(c.after(c.n - 1))
}

// SeekGE goes to the first version at or after k. A table that is already open is kept if it is the one.
func (c *Concat) SeekGE(k ikey.Key) bool {
	if c.err = nil; c.n == 0 {
		return false
	}
	i := c.tables.Find(k.User)
	if !c.before(i) || ikey.Compare(c.bound, k) >= 0 {
		return c.rest(c.where == ahead)
	}
	if !c.enter(i) {
		return false
	}
	return c.src.SeekGE(k) || c.onward()
}

// SeekLT goes to the last version before k. A table that is already open is kept if it is the one.
func (c *Concat) SeekLT(k ikey.Key) bool {
	if c.err = nil; c.n == 0 {
		return false
	}
	i := c.tables.Find(k.User)
	if !c.before(i) || ikey.Compare(c.bound, k) >= 0 {
		return c.rest(c.after(i - 1))
	}
	if !c.enter(i) {
		return false
	}
	return c.src.SeekLT(k) || c.backward()
}

// Next goes to the next version, in the next table if this one has no more.
func (c *Concat) Next() bool {
	return c.where == inside && c.src.Next() || c.onward()
}

// Prev goes to the version before, in the table before if this one has no more.
func (c *Concat) Prev() bool {
	return c.where == inside && c.src.Prev() || c.backward()
}

// onward goes on to the tables after this one, unless this one has ended with an error.
func (c *Concat) onward() bool { return c.where != nowhere && !c.failed() && c.rest(c.before(c.at+1)) }

// backward goes on to the tables before this one, unless this one has ended with an error.
func (c *Concat) backward() bool {
	return c.where != nowhere && !c.failed() && c.rest(c.after(c.at-1))
}

// before stands pending before table i, if there is one.
func (c *Concat) before(i int) bool {
	if i >= c.n {
		c.where = nowhere
		return false
	}
	c.where, c.at = ahead, i
	c.bound, c.bounded = ikey.Search(c.tables.Bounds(i).Smallest, ikey.MaxSeq), true
	return true
}

// after stands pending behind table i, if there is one.
func (c *Concat) after(i int) bool {
	if i < 0 {
		c.where = nowhere
		return false
	}
	c.where, c.at = behind, i
	b := c.tables.Bounds(i)
	c.bound, c.bounded = ikey.Key{User: b.Largest}, b.Upper != Infinite
	if b.Upper == Exclusive {
		c.bound = ikey.Search(b.Largest, ikey.MaxSeq)
	}
	return true
}

// pending reports whether the Concat stands on a bound, and not on a version.
func (c *Concat) pending() bool { return c.where > inside }

// rest settles the Concat until it stands on a version, or on a bound if that is enough.
func (c *Concat) rest(ok bool) bool {
	for ok && c.pending() && !(c.lazy && c.bounded) {
		ok = c.settle()
	}
	return ok
}

// settle opens the table that the Concat is pending at and stands in it. A table that has no versions is passed over: then
// the Concat is pending at the next one.
func (c *Concat) settle() bool {
	i, forward := c.at, c.where == ahead
	if !c.enter(i) {
		return false
	}
	if forward && c.src.First() || !forward && c.src.Last() {
		return true
	}
	if c.failed() {
		return false
	}
	if forward {
		return c.before(i + 1)
	}
	return c.after(i - 1)
}

// enter makes table i the open one, and where the Concat stands.
func (c *Concat) enter(i int) bool {
	if c.where = nowhere; c.src == nil || c.open != i {
		c.leave()
		src, err := c.tables.Open(i)
		if err != nil {
			c.err = err
			return false
		}
		c.src, c.open = src, i
	}
	c.where, c.at = inside, i
	return true
}

// failed keeps the error of the open table, if it is that what ended it.
func (c *Concat) failed() bool {
	if c.where != inside {
		return false
	}
	if c.err = c.src.Err(); c.err == nil {
		return false
	}
	c.told, c.where = c.err, nowhere
	return true
}

// leave closes the open table. What Err has said of it is not said again by Close.
func (c *Concat) leave() {
	if c.src == nil {
		return
	}
	if err := c.src.Close(); err != nil && !(c.told != nil && errors.Is(err, c.told)) {
		c.closing = errors.Join(c.closing, err)
	}
	c.src, c.told = nil, nil
}

// Key is the current version's place.
func (c *Concat) Key() ikey.Key { return c.src.Key() }

// Value is the current version's value.
func (c *Concat) Value() []byte { return c.src.Value() }

// Err is the error of a table, or of opening one, that stopped the source.
func (c *Concat) Err() error { return c.err }

// Close closes the open table, and reports what closing it or any table before it said. The Concat has no tables then, and
// may be Reset.
func (c *Concat) Close() error {
	c.leave()
	err := c.closing
	*c = Concat{err: c.err}
	return err
}
