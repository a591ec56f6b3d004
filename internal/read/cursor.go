package read

import (
	"bytes"
	"errors"
	"runtime"
	"sync"

	"github.com/bloomkv/bloomkv/internal/deadkeys"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A Cursor merges the memtables and runs of a state, shows the newest visible version of each key, and skips deleted
// keys. Until Close, it keeps the tables that it may read from being removed. It must not be used by several
// goroutines at once. Cursors are pooled, with the memory that they have grown.
type Cursor struct {
	reader   *Reader
	state    *tree.State     // holds a reference
	over     *Writes         // nil outside of transactions
	own      int             // sources of own writes: 1 if the transaction has written, else 0
	seq      ikey.Seq        // newer versions are not visible; of the state none is newer, if there are own writes
	view     deadkeys.Reader // as of when the state is read, and its ingests
	current  bool            // that was the newest number in state: all newer ones are in its memtable or in later ones
	keysOnly bool
	lower    []byte
	upper    []byte // deadkeys.Beyond if there is no upper bound
	bounded  bool   // there is an upper bound
	opened   opened
	prefix   prefixProbe

	at    position
	key   []byte // current key, or the last one
	value []byte
	err   error

	walk     walk
	merge    merge.Iter    // at a version of key, or, after a backward move, at a version before key
	lane     *sstable.Iter // if not nil: walks alone, and the merge is behind; key is the lane's
	outside  []byte        // memory of key outside lanes, while there is a lane
	order    int           // the source of the key
	streak   int           // successive keys from it
	back     bool          // the last move was backward
	more     bool          // if back: the merge is at a version
	sources  []merge.Source
	mems     []*memtable.Cursor
	runs     []*runCursor
	tables   []*sstable.Reader // of prefetch
	covers   []cover           // of each source, in the order of sources; empty if no source has range tombstones
	target   ikey.Key          // of the current seek; range tombstones of each source move it for the older ones
	eachGE   func(i int) ikey.Key
	eachLT   func(i int) ikey.Key
	kept     []byte  // copy of a value, for backward moves
	dead     deadRun // dead keys skipped by this move
	behind   []byte  // memory of afterKey
	later    memtable.Cursor
	boundary []byte // memory of upper
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

var cursors = sync.Pool{New: func() any {
	c := &Cursor{key: []byte{}, kept: []byte{}} // neither the empty key nor an empty value is nil
	c.eachGE, c.eachLT = c.nextGE, c.nextLT
	return c
}}

// Open returns a cursor over the keys in [lower, upper) as of the given moment; a nil upper means no end. With
// keysOnly, values are nil. In a transaction, over has its writes, which the cursor shows as they are now. The bounds
// are copied. The error is ErrClosed.
func (r *Reader) Open(lower, upper []byte, keysOnly bool, at AsOf, over *Writes) (*Cursor, error) {
	s, seq, ok := r.hold(at)
	if !ok || at.over() {
		if ok {
			r.tree.Release(s)
		}
		return nil, tree.ErrClosed
	}
	c := cursors.Get().(*Cursor) //nolint:errcheck // the pool holds nothing else
	c.reader, c.state, c.seq = r, s, seq
	c.over, c.own = over, 0
	if over != nil && over.mem != nil {
		c.own, c.seq = 1, over.seq
	}
	c.view = deadkeys.Reader{Seq: seq, Ingests: s.Ingests}
	c.current = at.Pin == nil || r.tree.NewestSeq() == seq
	c.keysOnly = keysOnly
	c.lower = append(c.lower[:0], lower...)
	c.bounded = upper != nil
	if c.bounded {
		c.boundary = append(c.boundary[:0], upper...)
		c.upper = c.boundary
	} else {
		c.upper = deadkeys.Beyond
	}
	c.prefix.ask(r.prefix, lower, upper)
	c.at, c.err, c.back, c.streak = fresh, nil, false, 0
	c.open()
	if c.opened.byN = 0; r.naming {
		c.opened.byN = runtime.Callers(2, c.opened.by[:])
	}
	r.open.add(c)
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

// open sets up the sources. It reads nothing.
func (c *Cursor) open() {
	s := c.state
	c.sources, c.covers = c.sources[:0], c.covers[:0]
	covered := false
	for i := -c.own; i <= len(s.Frozen); i++ {
		m, v := s.Mem, cover{seq: c.view.Seq}
		switch {
		case i < 0:
			m, v.seq = c.over.mem, c.seq
		case i > 0:
			m = s.Frozen[i-1]
		}
		at := len(c.sources)
		if at == len(c.mems) {
			c.mems = append(c.mems, new(memtable.Cursor))
		}
		c.mems[at].Reset(m, v.seq, true)
		c.sources = append(c.sources, c.mems[at])
		if d := m.RangeDels(); d != nil {
			v.set, covered = d, true
		}
		c.covers = append(c.covers, v)
	}
	for i, r := range s.Runs {
		if i == len(c.runs) {
			c.runs = append(c.runs, new(runCursor))
		}
		c.sources = append(c.sources, c.runs[i].begin(c, r))
		v := cover{seq: c.view.Seq}
		if r.RangeDels {
			v.set, covered = c.runs[i], true
		}
		c.covers = append(c.covers, v)
	}
	if !covered {
		c.covers = c.covers[:0]
	}
	c.merge.Reset(c.sources)
}

// Close releases the state and returns the cursor to the pool.
func (c *Cursor) Close() error {
	c.endWalk()
	c.reader.open.remove(c)
	c.reader.prefixes.add(&c.prefix)
	err := c.merge.Close()
	clear(c.sources)
	clear(c.covers)
	clear(c.tables)
	for _, r := range c.runs {
		r.end()
	}
	s := c.state
	if c.lane != nil {
		c.lane, c.key, c.outside = nil, c.outside, nil
	}
	c.state, c.over, c.value, c.target = nil, nil, nil, ikey.Key{}
	if cap(c.kept) > 1<<20 {
		c.kept = []byte{} // an empty value is not nil
	}
	c.reader.tree.Release(s)
	c.reader.tables.Fit()
	c.reader = nil
	cursors.Put(c)
	return err
}

// First moves to the first key.
func (c *Cursor) First() bool { return !c.closed() && c.seekFrom(c.lower) }

// Last moves to the last key.
func (c *Cursor) Last() bool { return !c.closed() && c.seekBefore(c.upper) }

// SeekGE moves to the first key greater than or equal to key.
func (c *Cursor) SeekGE(key []byte) bool {
	if bytes.Compare(key, c.lower) < 0 {
		key = c.lower
	}
	return !c.closed() && c.seekFrom(key)
}

// SeekLT moves to the last key less than key.
func (c *Cursor) SeekLT(key []byte) bool {
	if bytes.Compare(key, c.upper) > 0 {
		key = c.upper
	}
	return !c.closed() && c.seekBefore(key)
}

// Next moves to the next key, or to the first one if the cursor is fresh.
func (c *Cursor) Next() bool {
	if c.closed() {
		return false
	}
	if c.streak >= worthLane && c.lane == nil && c.at == standing && !c.back {
		c.enterLane() // not where a seek ends: many iterators read one key
	}
	if c.lane != nil {
		if !c.back && c.lane.Advance() {
			return c.show(c.lane.Pair())
		}
		c.leaveLane()
	}
	switch {
	case c.at == fresh || c.at == beforeFirst:
		return c.seekFrom(c.lower)
	case c.at != standing:
		return false
	case c.back: // the merge is before the key
		c.beginWalk(c.key, false)
		return c.forward(c.merge.SeekGE(ikey.Key{User: c.key}), true)
	}
	return c.forward(c.merge.Next(), true)
}

// Prev moves to the previous key, or to the last one if the cursor is fresh.
func (c *Cursor) Prev() bool {
	if c.closed() {
		return false
	}
	if c.streak >= worthLane && c.lane == nil && c.at == standing && c.back {
		c.enterLaneBack()
	}
	if c.lane != nil {
		if c.back && c.lane.Advance() {
			return c.show(c.lane.Pair())
		}
		c.leaveLane()
	}
	switch {
	case c.at == fresh || c.at == afterLast:
		return c.seekBefore(c.upper)
	case c.at != standing:
		return false
	case c.back:
		return c.backward(c.more)
	}
	c.beginWalk(c.key, true)
	c.dead.begin(nil)
	return c.backward(c.merge.SeekLT(ikey.Search(c.key, ikey.MaxSeq)))
}

// closed reports whether the store was closed. If so, the cursor is at no key afterwards.
func (c *Cursor) closed() bool {
	if c.reader.tree.Load() != nil {
		return false
	}
	c.at, c.err = broken, tree.ErrClosed
	return true
}

// seekFrom moves to the first live key greater than or equal to key.
func (c *Cursor) seekFrom(key []byte) bool {
	c.leaveLane()
	c.beginWalk(key, false)
	c.err = nil
	if bytes.Compare(key, c.upper) >= 0 {
		return c.leave(afterLast)
	}
	c.dead.begin(key)
	if c.own == 0 { // else own keys may be in the range: see forward
		if d := c.rangeAt(key); d != nil {
			if key = d.Hi; bytes.Compare(key, c.upper) >= 0 {
				return c.leave(afterLast)
			}
			c.dead.after(key)
		}
	}
	c.target = ikey.Search(key, c.seq)
	c.prefetch(key)
	if len(c.covers) == 0 {
		return c.forward(c.merge.SeekGE(c.target), false)
	}
	return c.forward(c.merge.SeekGEEach(c.eachGE), false)
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
		}
	}
	if len(c.tables) > 1 {
		sstable.Prefetch(c.tables, key)
	}
}

// nextGE returns the position at which source i starts a forward seek. If range tombstones of source i cover it,
// nextGE moves the target of the older sources to the end of what they delete.
func (c *Cursor) nextGE(i int) ikey.Key {
	k := c.target
	if v := &c.covers[i]; v.at(k.User) > 0 {
		c.target = ikey.Search(v.end(), c.seq)
	}
	return k
}

// seekBefore moves to the last live key less than key.
func (c *Cursor) seekBefore(key []byte) bool {
	c.leaveLane()
	c.beginWalk(key, true)
	c.err = nil
	if bytes.Compare(key, c.lower) <= 0 {
		return c.leave(beforeFirst)
	}
	c.dead.begin(key)
	if c.own == 0 {
		if d := c.rangeBelow(key); d != nil {
			if key = d.Lo; bytes.Compare(key, c.lower) <= 0 {
				return c.leave(beforeFirst)
			}
			c.dead.after(key)
		}
	}
	c.target = ikey.Search(key, ikey.MaxSeq)
	c.prefetch(key)
	if len(c.covers) == 0 {
		return c.backward(c.merge.SeekLT(c.target))
	}
	return c.backward(c.merge.SeekLTEach(c.eachLT))
}

// nextLT returns the position at which source i starts a backward seek: see nextGE.
func (c *Cursor) nextLT(i int) ikey.Key {
	k := c.target
	if v := &c.covers[i]; v.at(k.User) > 0 && bytes.Compare(v.lo, k.User) < 0 {
		c.target = ikey.Search(v.lo, ikey.MaxSeq)
	}
	return k
}

const patience = 8 // versions of one key to step over before a seek skips the rest

// forward moves from the current version of the merge, if ok, to the first live key. The merge returns the versions
// of a key newest first, so the first visible one decides whether the key is live. If again is true, the versions of
// c.key are skipped first.
func (c *Cursor) forward(ok, again bool) bool {
	steps := 0
	for ok {
		k := c.merge.Key()
		switch {
		case c.bounded && bytes.Compare(k.User, c.upper) >= 0:
			c.endMove(c.dead.edge, c.upper)
			return c.leave(afterLast)
		case k.Trailer.Seq() > c.seq:
			ok = c.merge.Next()
			continue
		case again && bytes.Equal(k.User, c.key):
			// An older version of a key that is already decided. Most keys have few, so step over them, and seek only
			// if there are many. The seek's target sorts after all valid versions of the key. A trailer of 0, which
			// only a damaged store has, equals the target: the seek would not move past it.
			if steps++; steps < patience || k.Trailer == 0 {
				ok = c.merge.Next()
			} else {
				ok = c.merge.SeekGE(ikey.Key{User: c.key})
			}
			continue
		}
		again, steps = true, 0
		c.key = append(c.key[:0], k.User...)
		i := c.deletedBy(k.Trailer, c.merge.Order())
		if i >= 0 || k.Trailer.Kind() == ikey.Delete {
			var end []byte
			if c.byOwn(i, c.merge.Order()) {
				c.endMove(c.dead.edge, c.key) // the store may have the key
			} else {
				end = c.bury()
			}
			switch own := c.merge.Order() <= i; {
			case end != nil: // an earlier cursor has found that no key of the store up to there is alive
				switch {
				case c.own > 0:
					ok = c.merge.SkipGE(0, ikey.Search(end, c.seq))
				case bytes.Compare(end, c.upper) >= 0:
					ok = false
				default:
					ok = c.merge.SeekGE(ikey.Search(end, c.seq))
				}
			case i < 0:
				ok = c.merge.Next()
			default:
				// All data of older sources up to the end of the stretch is older than the tombstone: skip it. Source i
				// itself may have newer versions there, so it stays, and if the deleted version is its own, one step
				// leads past that version.
				if ok = c.merge.SkipGE(i, ikey.Search(c.covers[i].end(), c.seq)); ok && own {
					ok = c.merge.Next()
				}
			}
			continue
		}
		// A source that failed may have hidden a newer version or a tombstone of this key, so check before showing it.
		if c.failed() {
			return false
		}
		c.endMove(c.dead.edge, c.key)
		if c.value = nil; !c.keysOnly {
			c.value = c.merge.Value()
		}
		c.came(c.merge.Order())
		c.at, c.back = standing, false
		return true
	}
	if c.failed() {
		return false
	}
	c.endMove(c.dead.edge, c.upper)
	return c.leave(afterLast)
}

// backward moves from the current version of the merge, if ok, back to the next live key. On the way back, the merge
// returns the versions of a key oldest first, so the newest visible one is known only once the merge has left the
// key. Therefore the merge ends up before the key, and c.back and c.more record that for the next move.
func (c *Cursor) backward(ok bool) bool {
	for ok {
		k := c.merge.Key()
		if bytes.Compare(k.User, c.lower) < 0 {
			break
		}
		if k.Trailer.Seq() > c.seq {
			ok = c.merge.Prev()
			continue
		}
		c.key = append(c.key[:0], k.User...)
		// Walk over all visible versions of the key. The last one, the newest, counts. Its value is copied, since it is
		// invalid once the merge moves on, and only then is it known whether a newer version follows.
		var visible ikey.Trailer
		order := 0
		for ok && k.Trailer.Seq() <= c.seq && bytes.Equal(k.User, c.key) {
			visible, order = k.Trailer, c.merge.Order()
			if !c.keysOnly && visible.Kind() == ikey.Set {
				c.kept = append(c.kept[:0], c.merge.Value()...)
			}
			if ok = c.merge.Prev(); ok {
				k = c.merge.Key()
			}
		}
		i := c.deletedBy(visible, order)
		if i >= 0 || visible.Kind() == ikey.Delete {
			var start []byte
			if c.byOwn(i, order) {
				c.endMove(c.afterKey(), c.dead.edge)
			} else {
				start = c.buryBack()
			}
			switch {
			case start != nil:
				switch {
				case c.own > 0:
					ok = ok && c.merge.SkipLT(0, ikey.Search(start, ikey.MaxSeq))
				case bytes.Compare(start, c.lower) <= 0:
					ok = false
				default:
					ok = c.merge.SeekLT(ikey.Search(start, ikey.MaxSeq))
				}
			case i >= 0:
				// As in forward, only older sources skip the stretch. The merge has already left the deleted version.
				ok = ok && c.merge.SkipLT(i, ikey.Search(c.covers[i].lo, ikey.MaxSeq))
			}
			continue
		}
		if c.failed() {
			return false
		}
		if c.dead.known {
			c.endMove(c.afterKey(), c.dead.edge) // the edge is the upper end on the way back
		}
		if c.value = nil; !c.keysOnly {
			c.value = c.kept
		}
		c.came(order)
		c.at, c.back, c.more = standing, true, ok
		return true
	}
	if c.failed() {
		return false
	}
	c.endMove(c.lower, c.dead.edge)
	return c.leave(beforeFirst)
}

// byOwn reports whether the transaction itself has deleted a key, whose newest version is that of source order, and
// which range tombstones of source deleted delete, unless that is -1.
func (c *Cursor) byOwn(deleted, order int) bool { return c.own > 0 && (deleted == 0 || order == 0) }

// failed stops the cursor if a source failed, and reports whether one did.
func (c *Cursor) failed() bool {
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

// leave ends a move without a key.
func (c *Cursor) leave(at position) bool {
	c.at, c.value = at, nil
	return false
}
