package merge

import "github.com/bloomkv/bloomkv/internal/ikey"

// Tables describes the tables of a run to a Concat. The user keys of the tables are disjoint and ascend from table to
// table.
type Tables interface {
	// Len returns the number of tables.
	Len() int
	// Find returns the first table that does not end before the key user, or Len.
	Find(user []byte) int
	// Bounds returns the bounds of all keys in table i.
	Bounds(i int) Bounds
	// Open returns a source of the versions of table i, possibly without any. The Concat closes it before it opens
	// another, so that Open may always return the same source.
	Open(i int) (Source, error)
}

// Bounds are the user keys between which a table lies, as manifest.Bounds. They must not change while a Concat is in
// use.
type Bounds struct {
	Lo, Hi    []byte // a nil Hi, and only that, is infinite
	Exclusive bool   // keys are less than Hi
}

// A Concat presents the tables of one run as one source. At most one table is open at a time, and none before the first
// move.
//
// In an Iter it is lazy: if a move leads to another table whose bounds show that all of it is at or after the target
// (or before it, going backward), the Concat is pending at that bound, and the table is opened only when the Iter has
// come that far. So a seek between two tables, or the end of a table, opens no table until necessary.
//
// The zero value has no tables. A Concat must not be used by several goroutines at a time.
type Concat struct {
	tables Tables
	n      int
	lazy   bool // it may stay pending, and its Iter settles it

	src  Source // the open table, or nil
	open int    // its index

	where   position
	at      int      // the table that where refers to
	back    bool     // if it is pending: behind the table
	bound   ikey.Key // where it is pending: no version of the table is before this (or behind, going backward)
	bounded bool     // there is a bound
	err     error
}

// A position is the state of a Concat relative to a table.
type position uint8

const (
	nowhere position = iota // before the first move, past an end, or after an error
	inside                  // on a version of the open table
	pending                 // before all of a table, or behind all of it
)

var _ Source = (*Concat)(nil)

// NewConcat returns a source of the versions in tables. Before the first move it calls none of their methods except
// Len.
func NewConcat(tables Tables) *Concat {
	c := &Concat{}
	c.Reset(tables)
	return c
}

// Reset makes c a new source of the versions in tables. Only on a zero Concat or after Close.
func (c *Concat) Reset(tables Tables) { *c = Concat{tables: tables, n: tables.Len()} }

// First moves to the first version of the first table that has one.
func (c *Concat) First() bool {
	c.err = nil
	return c.rest(c.approach(0, false))
}

// Last moves to the last version of the last table that has one.
func (c *Concat) Last() bool {
	c.err = nil
	return c.rest(c.approach(c.n-1, true))
}

// SeekGE moves to the first version at or after k. If its table is already open, it stays open.
func (c *Concat) SeekGE(k ikey.Key) bool { return c.seek(k, false) }

// SeekLT moves to the last version before k. If its table is already open, it stays open.
func (c *Concat) SeekLT(k ikey.Key) bool { return c.seek(k, true) }

func (c *Concat) seek(k ikey.Key, back bool) bool {
	if c.err = nil; c.n == 0 {
		return false
	}
	i := c.tables.Find(k.User)
	if between := !c.approach(i, false) || ikey.Compare(c.bound, k) >= 0; between {
		return c.rest(c.where == pending && !back || back && c.approach(i-1, true))
	}
	return c.enter(i) && (seek(c.src, k, back) || c.goOn(back))
}

// Next moves to the next version, in the next table if this one has no more.
func (c *Concat) Next() bool {
	return c.where == inside && c.src.Next() || c.goOn(false)
}

// Prev moves to the previous version, in the previous table if this one has no more.
func (c *Concat) Prev() bool {
	return c.where == inside && c.src.Prev() || c.goOn(true)
}

// goOn continues with the tables beyond this one, unless this one has ended with an error.
func (c *Concat) goOn(back bool) bool {
	return c.where != nowhere && !c.failed() && c.rest(c.approach(c.beyond(back), back))
}

// beyond returns the index of the table after the current one, or before it.
func (c *Concat) beyond(back bool) int {
	if back {
		return c.at - 1
	}
	return c.at + 1
}

// approach makes the Concat pending before table i, or behind it, if the table exists.
func (c *Concat) approach(i int, back bool) bool {
	if c.where = nowhere; i < 0 || i >= c.n {
		return false
	}
	c.where, c.at, c.back = pending, i, back
	b := c.tables.Bounds(i)
	c.bounded = !back || b.Hi != nil
	switch {
	case !back:
		c.bound = ikey.Search(b.Lo, ikey.MaxSeq)
	case b.Exclusive:
		c.bound = ikey.Search(b.Hi, ikey.MaxSeq)
	default:
		c.bound = ikey.Key{User: b.Hi}
	}
	return true
}

// rest settles the Concat until it is on a version, or at a bound if that is enough.
func (c *Concat) rest(ok bool) bool {
	for ok && c.where == pending && !(c.lazy && c.bounded) {
		ok = c.settle()
	}
	return ok
}

// settle opens the table at which the Concat is pending and moves into it. If the table has no versions, the Concat is
// pending at the next one afterwards.
func (c *Concat) settle() bool {
	back := c.back
	switch {
	case !c.enter(c.at):
		return false
	case end(c.src, back):
		return true
	}
	return !c.failed() && c.approach(c.beyond(back), back)
}

// enter opens table i, unless it is open, and makes it the current one.
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

// failed reports whether the open table ended with an error, and records it.
func (c *Concat) failed() bool {
	if c.where != inside {
		return false
	}
	if c.err = c.src.Err(); c.err == nil {
		return false
	}
	c.where = nowhere
	return true
}

// leave closes the open table.
func (c *Concat) leave() {
	if c.src != nil {
		_ = c.src.Close() // see Source
		c.src = nil
	}
}

// Key returns the key of the current version.
func (c *Concat) Key() ikey.Key { return c.src.Key() }

// Value returns the value of the current version.
func (c *Concat) Value() []byte { return c.src.Value() }

// Err returns the error of a table, or of opening one, that stopped the source.
func (c *Concat) Err() error { return c.err }

// Close closes the open table and returns nil. Afterwards the Concat has no tables and may be Reset.
func (c *Concat) Close() error {
	c.leave()
	*c = Concat{err: c.err}
	return nil
}
