package memtable

import (
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/merge"
)

// flushStep is the number of versions after which a flush notes how many it has passed.
const flushStep = 64

// A flush is a cursor over all versions of a table, from the first on.
type flush struct {
	Cursor

	passed uint64
}

// Flush returns a source of all versions of a frozen table, to be read once, in order.
func (t *Table) Flush() merge.Source {
	f := new(flush)
	f.Reset(t, ikey.MaxSeq)
	t.flushed.Store(0)
	return f
}

// Flushed returns the number of versions that the last source of Flush has passed, in steps. It is safe for concurrent
// use.
func (t *Table) Flushed() uint64 { return t.flushed.Load() }

// Next moves to the next version: an older one of the same key, or the newest one of the next key.
func (f *flush) Next() (ok bool) {
	if r := f.cur.older(); r != 0 {
		f.cur, ok = f.t.arena.version(r), true
	} else {
		ok = f.Cursor.Next()
	}
	if f.passed++; f.passed%flushStep == 0 || !ok {
		f.t.flushed.Store(f.passed)
	}
	return ok
}
