package read

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/bloomkv/bloomkv/internal/deadkeys"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A Cursor merges the memtables and runs of a state, shows the newest visible version of each key, and skips deleted
// keys. Until Close, it keeps the tables that it may read from being removed. It must not be used by several
// goroutines at once. Cursors are pooled, with the memory that they have grown.
//
// A move goes through four layers: the sources, with the merge over them; the newest visible version of the next key
// within the bounds (visible.go); what deletes it (covers.go, dead_keys.go); and stop or leave, where the move ends.
type Cursor struct {
	reader   *Reader
	state    *tree.State // holds a reference
	seq      ikey.Seq    // newer versions are not visible; of the state none is newer, if there are own writes
	own      int         // sources of own writes: 1 if the transaction has written, else 0
	keysOnly bool
	bounds   bounds
	opened   opened
	prefix   prefixProbe
	sought   uint64 // looks of seeks into runs of level 0, where there are other runs too

	at    position
	key   []byte // current key, or the last one
	value []byte
	err   error
	back  bool // the direction of this move, or of the last one

	sources []merge.Source
	mems    []*memtable.Cursor
	runs    []*runCursor
	tables  []*sstable.Reader // of prefetch
	merge   merge.Iter        // at a version of key, or, after a backward move, at a version before key
	version version           // of key
	more    bool              // after a backward move: the merge is at a version
	kept    []byte            // copy of a value, for backward moves
	pairs   pairs
	covers  []cover    // of each source, in their order; empty if no source has range tombstones
	targets []ikey.Key // of each source, in a seek
	dead    deadRun
	walk    walk
}

// A position is the state of a cursor.
type position uint8

const (
	fresh       position = iota // not moved yet
	standing                    // at a key
	beforeFirst                 // past the lower end
	afterLast                   // past the upper end
	broken                      // at no key: stopped by an error
)

// bounds are the keys in [lower, upper).
type bounds struct {
	lower  []byte
	upper  []byte // deadkeys.Beyond if there is no upper bound
	open   bool   // there is none
	memory []byte // of upper
}

// set copies the bounds; a nil upper means no end.
func (b *bounds) set(lower, upper []byte) {
	b.lower, b.upper, b.open = append(b.lower[:0], lower...), deadkeys.Beyond, upper == nil
	if !b.open {
		b.memory = append(b.memory[:0], upper...)
		b.upper = b.memory
	}
}

// limit returns the bound at which moves forward, or backward, end.
func (b *bounds) limit(back bool) []byte {
	if back {
		return b.lower
	}
	return b.upper
}

// exhausts reports whether no key is left for a move from key on, or backward from the keys below it.
func (b *bounds) exhausts(key []byte, back bool) bool {
	if back {
		return bytes.Compare(key, b.lower) <= 0
	}
	return bytes.Compare(key, b.upper) >= 0
}

var cursors = sync.Pool{New: func() any {
	return &Cursor{key: []byte{}, kept: []byte{}} // neither the empty key nor an empty value is nil
}}

// Open returns a cursor over the keys in [lower, upper) as of the given moment; a nil upper means no end. With
// keysOnly, values are nil. In a transaction, over has its writes, which the cursor shows as they are now. The bounds
// are copied. The error is ErrClosed.
func (r *Reader) Open(lower, upper []byte, keysOnly bool, at AsOf, over *Writes) (*Cursor, error) {
	s, seq, err := r.hold(at)
	if err != nil {
		return nil, err
	}
	c := cursors.Get().(*Cursor) //nolint:errcheck // the pool holds nothing else
	c.reader, c.state, c.seq, c.keysOnly = r, s, seq, keysOnly
	c.walk.over, c.own = over, 0
	if over != nil && over.mem != nil {
		c.own, c.seq = 1, over.seq
	}
	c.dead.view = deadkeys.Reader{Seq: seq, Ingests: s.Ingests}
	c.dead.current = at.Pin == nil || r.Tree.NewestSeq() == seq
	c.bounds.set(lower, upper)
	c.prefix.ask(r.Prefix, lower, upper)
	c.at, c.err, c.back, c.pairs.streak, c.sought = fresh, nil, false, 0, 0
	c.open()
	if c.opened.byN = 0; r.Naming {
		c.opened.byN = runtime.Callers(2, c.opened.by[:])
	}
	r.iterators.add(c)
	return c, nil
}

// Standing reports whether the cursor is at a key.
func (c *Cursor) Standing() bool { return c.at == standing }

// Key returns the current key, valid until the next move.
func (c *Cursor) Key() []byte { return c.key }

// Value returns the current value, valid until the next move.
func (c *Cursor) Value() []byte { return c.value }

// Err returns the error of the last move, or nil.
func (c *Cursor) Err() error { return c.err }

// open sets up the sources, newest first. It reads nothing. A memtable that has nothing yet never has anything that the
// cursor may see, except the one of a transaction's own writes.
func (c *Cursor) open() {
	s, seq := c.state, c.dead.view.Seq
	c.sources, c.covers = c.sources[:0], c.covers[:0]
	if c.own > 0 {
		c.addMemtable(c.walk.over.mem, c.seq)
	}
	if s.Mem.Len() > 0 {
		c.addMemtable(s.Mem, seq)
	}
	for _, m := range s.Frozen {
		c.addMemtable(m, seq)
	}
	for i, r := range s.Runs {
		if i == len(c.runs) {
			c.runs = append(c.runs, new(runCursor))
		}
		var dels rangedel.Set
		if r.RangeDels {
			dels = c.runs[i]
		}
		c.add(c.runs[i].begin(c, r), dels, seq)
	}
	if !slices.ContainsFunc(c.covers, func(v cover) bool { return v.set != nil }) {
		c.covers = c.covers[:0]
	}
	c.merge.Reset(c.sources)
}

func (c *Cursor) addMemtable(m *memtable.Table, seq ikey.Seq) {
	i := len(c.sources)
	if i == len(c.mems) {
		c.mems = append(c.mems, new(memtable.Cursor))
	}
	c.mems[i].Reset(m, seq)
	var dels rangedel.Set
	if d := m.RangeDels(); d != nil {
		dels = d
	}
	c.add(c.mems[i], dels, seq)
}

func (c *Cursor) add(s merge.Source, dels rangedel.Set, seq ikey.Seq) {
	c.sources = append(c.sources, s)
	c.covers = append(c.covers, cover{set: dels, seq: seq})
}

// Close releases the state and returns the cursor to the pool.
func (c *Cursor) Close() {
	c.endWalk()
	if c.reader.Tree.Load() != c.state {
		c.sought = 0 // the runs may be merged already
	}
	if n := c.reader.iterators.remove(c); n > 0 {
		c.reader.Sought(n)
	}
	c.reader.prefixCounts.add(&c.prefix.PrefixCounts)
	_ = c.merge.Close() // always nil
	clear(c.sources)
	clear(c.covers)
	clear(c.targets)
	clear(c.tables)
	for _, r := range c.runs {
		r.end()
	}
	if p := &c.pairs; p.table != nil {
		c.key, p.table, p.outside = p.outside, nil, nil
	}
	if cap(c.kept) > 1<<20 {
		c.kept = []byte{} // an empty value is not nil
	}
	c.reader.Tree.Release(c.state)
	c.reader, c.state, c.walk.over, c.value = nil, nil, nil, nil
	cursors.Put(c)
}

// First moves to the first key.
func (c *Cursor) First() bool { return !c.closed() && c.seek(c.bounds.lower, false) }

// Last moves to the last key.
func (c *Cursor) Last() bool { return !c.closed() && c.seek(c.bounds.upper, true) }

// SeekGE moves to the first key greater than or equal to key.
func (c *Cursor) SeekGE(key []byte) bool {
	if bytes.Compare(key, c.bounds.lower) < 0 {
		key = c.bounds.lower
	}
	return !c.closed() && c.seek(key, false)
}

// SeekLT moves to the last key less than key.
func (c *Cursor) SeekLT(key []byte) bool {
	if bytes.Compare(key, c.bounds.upper) > 0 {
		key = c.bounds.upper
	}
	return !c.closed() && c.seek(key, true)
}

// Next moves to the next key, or to the first one if the cursor is fresh.
func (c *Cursor) Next() bool {
	if t := c.pairs.table; t != nil && !c.back && !c.closed() && t.Advance() {
		return c.show(t.Pair())
	}
	if c.at == standing && !c.back && c.pairs.streak < worthPairs && !c.closed() {
		return c.find(c.merge.Next(), true)
	}
	return c.step(false)
}

// Prev moves to the previous key, or to the last one if the cursor is fresh.
func (c *Cursor) Prev() bool {
	if t := c.pairs.table; t != nil && c.back && !c.closed() && t.Advance() {
		return c.show(t.Pair())
	}
	if c.at == standing && c.back && c.pairs.streak < worthPairs && !c.closed() {
		return c.find(c.more, true)
	}
	return c.step(true)
}

// closed reports whether the store was closed. If so, the cursor is at no key afterwards.
func (c *Cursor) closed() bool {
	if c.reader.Tree.Load() != nil {
		return false
	}
	c.at, c.err = broken, tree.ErrClosed
	return true
}

// step moves by one key, not within pairs.
func (c *Cursor) step(back bool) bool {
	outside := beforeFirst
	if back {
		outside = afterLast
	}
	switch {
	case c.closed():
		return false
	case c.pairs.table != nil:
		c.leavePairs()
	case c.pairs.streak >= worthPairs && c.at == standing && c.back == back && c.enterPairs():
		if t := c.pairs.table; t.Advance() {
			return c.show(t.Pair())
		}
		c.leavePairs()
	}
	switch {
	case c.at == fresh || c.at == outside:
		return c.seek(c.bounds.limit(!back), back)
	case c.at != standing:
		return false
	case c.back != back:
		return c.turn()
	case back:
		return c.find(c.more, true)
	}
	return c.find(c.merge.Next(), true)
}

// turn moves to the next key in the other direction. After a backward move, the merge is before the key.
func (c *Cursor) turn() bool {
	c.beginWalk(c.key)
	c.back = !c.back
	behind := ikey.Key{User: c.key} // all versions of key
	if c.back {
		behind = ikey.Search(c.key, ikey.MaxSeq)
	}
	return c.find(c.merge.Seek(behind, c.back), true)
}

// seek moves to the first live key greater than or equal to key, or to the last one less than key.
func (c *Cursor) seek(key []byte, back bool) bool {
	c.leavePairs()
	c.beginWalk(key)
	c.back, c.err = back, nil
	if c.bounds.exhausts(key, back) {
		return c.leave()
	}
	c.dead.end()
	if c.own == 0 { // else own keys may be in a known range, see skipDeleted; and what own writes delete is not dead
		c.dead.from(key)
		if _, far, ok := c.knownDead(key); ok {
			if key = far; c.bounds.exhausts(key, back) {
				return c.leave()
			}
			c.dead.after(key)
		}
	}
	c.prefetch(key)
	if len(c.covers) == 0 {
		return c.find(c.merge.Seek(c.target(key), back), false)
	}
	return c.find(c.merge.SeekEach(c.eachTarget(key), back), false)
}

// prefetch prefetches what several runs read at a seek of key, all at once.
func (c *Cursor) prefetch(key []byte) {
	runs := c.runs[:len(c.state.Runs)]
	if len(runs) < 2 {
		return
	}
	c.tables = c.tables[:0]
	for _, r := range runs {
		if i := r.run.Search(key); i >= r.from && i < r.to {
			c.tables = append(c.tables, r.run.Readers[i])
			if r.run.Level == 0 {
				c.sought++
			}
		}
	}
	if len(c.tables) > 1 {
		sstable.Prefetch(c.tables, key)
	}
}

// find moves from the current version of the merge, if ok, to the first live key in the direction of the move. If again
// is true, that is not c.key.
func (c *Cursor) find(ok, again bool) bool {
	for {
		if c.back {
			ok = c.prevVisible(ok)
		} else {
			ok = c.nextVisible(ok, again)
		}
		if !ok {
			if !c.failed() {
				c.endDead(c.bounds.limit(c.back))
				c.leave()
			}
			return false
		}
		by := -1
		if len(c.covers) > 0 {
			by = c.deletedBy()
		}
		if by < 0 && c.version.trailer.Kind() == ikey.Set {
			return c.stop()
		}
		ok, again = c.skipDeleted(by), true
	}
}

// skipDeleted moves the merge beyond a key that a tombstone deletes, or the range tombstones of source by, unless by is
// -1, and beyond other keys that are known to be dead.
func (c *Cursor) skipDeleted(by int) bool {
	if c.own > 0 && (by == 0 || c.version.order == 0) {
		c.endDead(c.near()) // the transaction itself has deleted the key: the store may have it
	} else if far, known := c.bury(); known {
		switch {
		case c.own > 0:
			return c.skip(0, far)
		case c.bounds.exhausts(far, c.back):
			return false
		}
		return c.merge.Seek(c.target(far), c.back)
	}
	if by >= 0 {
		// All data of older sources up to the end of the stretch is older than the tombstone: skip it. Source by itself
		// may have newer versions there, so it stays.
		ok := c.skip(by, c.covers[by].end(c.back))
		if c.back || !ok || c.version.order > by {
			return ok
		}
		// The deleted version is of a source that stayed.
	}
	if c.back {
		return c.more // the merge has already left the version
	}
	return c.merge.Next()
}

// skip moves the sources after the given one to the keys from far on, or backward to those below it.
func (c *Cursor) skip(after int, far []byte) bool {
	return (c.more || !c.back) && c.merge.Skip(after, c.target(far), c.back)
}

// stop ends a move at a key.
func (c *Cursor) stop() bool {
	// A source that failed may have hidden a newer version or a tombstone of this key, so check before showing it.
	if c.failed() {
		return false
	}
	if c.dead.known {
		c.endDead(c.near())
	}
	switch {
	case c.keysOnly:
		c.value = nil
	case c.back:
		c.value = c.kept
	default:
		c.value = c.merge.Value()
	}
	c.pairs.count(c.version.order, c.merge.Single())
	c.at = standing
	return true
}

// leave ends a move without a key.
func (c *Cursor) leave() bool {
	c.at, c.value = afterLast, nil
	if c.back {
		c.at = beforeFirst
	}
	return false
}

// failed stops the cursor if a source failed, and reports whether one did. Without range tombstones, only the merge has
// read anything.
func (c *Cursor) failed() bool {
	return (c.merge.Err() != nil || len(c.covers) > 0) && c.fail()
}

func (c *Cursor) fail() bool {
	err := c.merge.Err()
	for _, r := range c.runs[:len(c.state.Runs)] {
		if r.err != nil {
			err, r.err = errors.Join(err, r.err), nil
		}
	}
	if err == nil {
		return false
	}
	for i := range c.covers {
		c.covers[i].known = false // the answer may be that of a failed load
	}
	c.at, c.err = broken, c.reader.failed(err)
	return true
}
