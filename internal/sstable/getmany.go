package sstable

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A Lookup is one lookup of many. It may be used again, for another table or key; until it is, or is cleared, it keeps
// what it found from the collector.
type Lookup struct {
	// Set by the caller and left as they are. The key must not change before GetMany returns.
	Reader *Reader // of the table to search
	Key    []byte
	Seq    ikey.Seq

	// Set by GetMany: what Get would have returned.
	Hit Hit
	OK  bool
	Err error

	// Present is set by GetMany too: the table holds some version of the key, however new.
	Present bool

	lane lane
}

// A lane is how far one of several lookups that go side by side has come.
type lane struct {
	state   laneState
	x       *index
	head    uint64 // what is searched for: eight bytes of the key, after the index's prefix and later after the block's
	lo, n   int    // where: n blocks from lo on, later n entries
	at      int    // the block
	b       block
	touched uint64 // what the touch functions return has to go somewhere
}

type laneState uint8

const (
	going laneState = iota
	done            // the result is known
	alone           // the rest is for Reader.search
)

// manyAtOnce is how many lookups go side by side. Sixteen are about as many as a processor has loads under way; beyond,
// there is less and less to gain, and what a lane needs must stay in the first cache.
const manyAtOnce = 64

// GetMany makes every lookup of ls as Get would, in less time than one after the other. The tables may be different
// ones. The caller is inside a guard of their domain; st is added to. It allocates nothing where Get does not.
//
// What a cached lookup waits for is memory: the block's slot says where the block's frame is, that where its heads are,
// they where the entry is. So all lookups take one of these steps before any takes the next, in a loop whose rounds do
// not depend on each other and have no branch that is hard to foresee: then the processor has the loads of many lookups
// under way at a time (group prefetching: Chen, Ailamaki, Gibbons, Mowry, "Improving Hash Join Performance through
// Prefetching", ICDE 2004). A lookup that finds its block not cached, or must go on in the next one, is finished as Get
// does it.
func GetMany(ls []Lookup, st *Stats) {
	for len(ls) > manyAtOnce {
		getMany(ls[:manyAtOnce], st)
		ls = ls[manyAtOnce:]
	}
	if len(ls) == 1 {
		l := &ls[0]
		before := st.Present
		l.Hit, l.OK, l.Err = l.Reader.Get(l.Key, l.Seq, st)
		l.Present = st.Present > before
		return
	}
	if len(ls) > 0 {
		getMany(ls, st)
	}
}

func getMany(ls []Lookup, st *Stats) {
	searchIndexes(ls, beginLanes(ls, st))
	takeBlocks(ls)
	searchHeads(ls, openBlocks(ls))
	touched := touchHeads(ls)
	countHeads(ls)
	touched += touchEntries(ls)
	ls[0].lane.touched = touched
	finishLanes(ls, st)
}

// beginLanes finds out where in its index each lookup has to search, and returns the largest number of blocks.
func beginLanes(ls []Lookup, st *Stats) (most int) {
	for i := range ls {
		l := &ls[i]
		l.Hit, l.OK, l.Present, l.Err = Hit{}, false, false, nil
		c := &l.lane
		c.state = going
		c.x = l.Reader.index.Load()
		if c.x == nil {
			if c.x, l.Err = l.Reader.loadIndex(st); l.Err != nil {
				c.state, c.n = done, 0
				continue
			}
		}
		if c.lo, c.n = c.x.span(l.Key); c.n > 0 {
			c.head = ikey.Head(l.Key[len(c.x.prefix):])
		}
		most = max(most, c.n)
	}
	return most
}

// searchIndexes makes the steps of index.find, of which the largest index, of most blocks, needs the most.
func searchIndexes(ls []Lookup, most int) {
	for ; most > 1; most -= most >> 1 {
		for i := range ls {
			if c := &ls[i].lane; c.n > 1 {
				half := c.n >> 1
				c.lo += half & -ikey.Less(c.x.heads[c.lo+half-1], c.head)
				c.n -= half
			}
		}
	}
}

// takeBlocks looks into the slots that the searches have led to.
func takeBlocks(ls []Lookup) {
	for i := range ls {
		l := &ls[i]
		c := &l.lane
		if c.state != going {
			continue
		}
		c.at = c.lo
		if c.n == 1 {
			c.at = c.x.finish(c.lo, c.head, l.Key)
		}
		if c.at == len(c.x.slots) {
			c.state = done
			continue
		}
		if l.Hit.block = l.Reader.cache.Get(&c.x.slots[c.at]); l.Hit.block == nil {
			c.state = alone
		}
	}
}

// openBlocks prepares the searches in the blocks, and returns the largest number of entries. Whether a key has its
// block's prefix is seen at the end: until then it is searched for as if it had.
func openBlocks(ls []Lookup) (most int) {
	for i := range ls {
		l := &ls[i]
		c := &l.lane
		if c.state != going {
			continue
		}
		b := &c.b
		b.parse(l.Hit.block.Meta, l.Hit.block.Bytes())
		c.head = ikey.Head(l.Key[min(len(l.Key), b.prefix):])
		c.lo, c.n = 0, b.n
		most = max(most, c.n)
	}
	return most
}

// searchHeads makes the steps of block.lowerHead that lead to countable heads; the largest block has most entries.
func searchHeads(ls []Lookup, most int) {
	for ; most > countable; most -= most >> 1 {
		for i := range ls {
			if c := &ls[i].lane; c.state == going && c.n > countable {
				half := c.n >> 1
				c.lo += half & -ikey.Less(c.b.head(c.lo+half-1), c.head)
				c.n -= half
			}
		}
	}
}

// touchHeads loads each line that countHeads and the check of the prefix read. Go has no instruction to fetch a line
// before it is needed; a load whose value is needed by nothing soon does as well.
func touchHeads(ls []Lookup) (touched uint64) {
	const line = 64
	for i := range ls {
		c := &ls[i].lane
		if c.state != going {
			continue
		}
		b := &c.b
		end := b.heads + 8*(c.lo+c.n)
		if c.n == b.n {
			end = b.entries // there may be offsets
		}
		touched += uint64(b.data[0])
		for d := b.data[(b.heads+8*c.lo)&^(line-1) : end]; ; d = d[line:] {
			touched += uint64(d[0])
			if len(d) <= line {
				break
			}
		}
	}
	return touched
}

// countHeads makes the last step of block.lowerHead.
func countHeads(ls []Lookup) {
	for i := range ls {
		if c := &ls[i].lane; c.state == going {
			c.lo = c.b.countHeads(c.lo, c.n, c.head)
		}
	}
}

// touchEntries loads the first two lines of the entries.
func touchEntries(ls []Lookup) (touched uint64) {
	for i := range ls {
		c := &ls[i].lane
		if b := &c.b; c.state == going && c.lo < b.n {
			at := b.entries + b.offset(c.lo)
			touched += uint64(b.data[at]) + uint64(b.data[min(at+64, len(b.data)-1)])
		}
	}
	return touched
}

// finishLanes compares keys, and finishes the lookups that cannot go on side by side.
func finishLanes(ls []Lookup, st *Stats) {
	for i := range ls {
		l := &ls[i]
		if l.lane.state == done || l.lane.state == going && l.inBlock(st) {
			continue
		}
		before := st.Present
		l.Hit, l.OK, l.Err = l.Reader.search(l.lane.x, l.lane.at, l.Key, l.Seq, st)
		l.Present = st.Present > before
	}
}

// inBlock ends a lookup in the block it has come to, unless older versions may be in the next one: then it is false.
func (l *Lookup) inBlock(st *Stats) bool {
	c := &l.lane
	b := &c.b
	var e entry
	v := absent
	if bytes.HasPrefix(l.Key, b.data[blockHeader:blockHeader+b.prefix]) {
		e, v = b.getFrom(c.lo, c.head, l.Key[b.prefix:], l.Reader.place(l.Seq))
	}
	if v == further {
		return false
	}
	st.Blocks++
	st.CacheHits++
	if v != absent {
		st.Present++
		l.Present = true
	}
	if v == found {
		l.Hit, l.OK = l.Reader.hit(&e, l.Hit.block, l.Seq)
	} else {
		l.Hit = Hit{}
	}
	return true
}
