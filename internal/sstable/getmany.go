package sstable

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A Lookup is one of many lookups. It may be used again, for another table or key. Until it is used again or cleared,
// it keeps its result from the garbage collector.
type Lookup struct {
	// Set by the caller; GetMany does not change them. The key must not change before GetMany returns.
	Reader *Reader // of the table to search
	Key    []byte
	Seq    ikey.Seq

	// Set by GetMany to the results of Get.
	Hit Hit
	OK  bool
	Err error

	// Present is set by GetMany too: the table holds any version of the key, visible or not.
	Present bool

	// Dropped is set by GetMany if the values before this one took more than MostTogether: then Hit has no value. Get
	// returns it.
	Dropped bool

	lane lane
}

// A lane is the state of one of several lookups that are made side by side.
type lane struct {
	state   laneState
	t       *top
	x       *index      // nil if its part is not in memory
	s       *separators // that are searched: those of t, later those of x
	head    uint64      // eight bytes of the key, after the index's prefix and later after the block's: the search key
	lo, n   int         // the range that is searched: n separators from lo on, later n entries
	at      int         // the block
	b       block
	touched uint64 // keeps the results of the touch functions, so that the compiler keeps their loads
}

type laneState uint8

const (
	going laneState = iota
	done            // the result is known
	alone           // Reader.search does the rest
)

// MostTogether is the number of bytes of values beyond which GetMany drops further ones: the usual values of 64 keys
// take less, and 64 of the largest would take 4 GiB.
const MostTogether = 16 << 20

// manyAtOnce is the number of lookups made side by side. A processor has about sixteen loads under way; beyond that the
// gain becomes small, and the state of all lanes must fit the first-level cache.
const manyAtOnce = 64

// GetMany makes each lookup of ls as Get would, in less time than one after the other. The tables may differ. The
// caller is inside a guard of their domain. GetMany adds to st. It allocates only where Get does.
//
// The time of a cached lookup is spent waiting for memory: the block's slot has the address of the block's frame, the
// frame that of its heads, and the heads the position of the entry. So all lookups take one of these steps before any
// takes the next, in loops whose rounds are independent and have no unpredictable branch. Then the processor has the
// loads of many lookups under way at a time (group prefetching: Chen, Ailamaki, Gibbons, Mowry, "Improving Hash Join
// Performance through Prefetching", ICDE 2004). A lookup whose block is not cached, or that must continue in the next
// block, is finished by Reader.search.
func GetMany(ls []Lookup, st *Stats) {
	for len(ls) > manyAtOnce {
		getMany(ls[:manyAtOnce], st)
		ls = ls[manyAtOnce:]
	}
	if len(ls) == 1 {
		l := &ls[0]
		before := st.Present
		l.Hit, l.OK, l.Err = l.Reader.Get(l.Key, l.Seq, st)
		l.Present, l.Dropped = st.Present > before, false
		return
	}
	if len(ls) > 0 {
		getMany(ls, st)
	}
}

func getMany(ls []Lookup, st *Stats) {
	searchIndexes(ls, beginLanes(ls, st))
	searchIndexes(ls, takeParts(ls))
	takeBlocks(ls)
	searchHeads(ls, openBlocks(ls))
	touched := touchHeads(ls)
	countHeads(ls)
	touched += touchEntries(ls)
	ls[0].lane.touched = touched
	finishLanes(ls, st)
}

// beginLanes finds the range of the top of the index that each lookup has to search, and returns the largest
// number of separators.
func beginLanes(ls []Lookup, st *Stats) (most int) {
	for i := range ls {
		l := &ls[i]
		l.Hit, l.OK, l.Present, l.Dropped, l.Err = Hit{}, false, false, false, nil
		c := &l.lane
		c.state = going
		c.x, c.t = nil, l.Reader.top.Load()
		if c.t == nil {
			if c.t, l.Err = l.Reader.load(st); l.Err != nil {
				c.state, c.n = done, 0
				continue
			}
		}
		c.s = &c.t.separators
		if c.lo, c.n = c.s.span(l.Key); c.n > 0 {
			c.head = ikey.HeadFrom(l.Key, len(c.s.prefix))
		}
		most = max(most, c.n)
	}
	return most
}

// searchIndexes makes the steps of separators.find. most is the largest number of separators, which needs the most
// steps.
func searchIndexes(ls []Lookup, most int) {
	for ; most > 1; most -= most >> 1 {
		for i := range ls {
			if c := &ls[i].lane; c.n > 1 {
				half := c.n >> 1
				c.lo += half & -ikey.Less(c.s.heads[c.lo+half-1], c.head)
				c.n -= half
			}
		}
	}
}

// takeParts takes the parts that the searches in the tops have found, and returns the largest number of separators in
// one.
func takeParts(ls []Lookup) (most int) {
	for i := range ls {
		l := &ls[i]
		c := &l.lane
		if c.state != going {
			continue
		}
		p, found := c.lo, c.n > 0
		if found {
			p = c.t.finish(c.lo, c.head, l.Key)
		}
		if p == len(c.t.loaded) {
			c.state, c.n = done, 0
			continue
		}
		if c.x = c.t.loaded[p].Load(); c.x == nil {
			c.state, c.n = alone, 0
			continue
		}
		c.x.use()
		c.s, c.lo, c.n = &c.x.separators, 0, 0
		if found {
			c.n = len(c.s.heads)
		}
		most = max(most, c.n)
	}
	return most
}

// takeBlocks looks into the slots that the searches have found.
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
// block's prefix is checked at the end: until then the search assumes that it has.
func openBlocks(ls []Lookup) (most int) {
	for i := range ls {
		l := &ls[i]
		c := &l.lane
		if c.state != going {
			continue
		}
		b := &c.b
		b.parse(l.Hit.block.Meta, l.Hit.block.Bytes())
		c.head = ikey.HeadFrom(l.Key, min(len(l.Key), b.prefix))
		c.lo, c.n = 0, b.n
		most = max(most, c.n)
	}
	return most
}

// searchHeads makes the steps of block.lowerHead until countable heads are left. most is the largest number of entries.
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

// touchHeads loads each cache line that countHeads and the check of the prefix will read. Go has no prefetch
// instruction; a load whose value is not needed soon does as well.
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

// finishLanes compares keys, and finishes the lookups that cannot be made side by side.
func finishLanes(ls []Lookup, st *Stats) {
	sum := 0 // bytes of values
	for i := range ls {
		l := &ls[i]
		if l.lane.state != done && (l.lane.state != going || !l.inBlock(st)) {
			l.alone(st)
		}
		if sum > MostTogether && l.OK {
			l.Hit, l.Dropped = Hit{Trailer: l.Hit.Trailer}, true
		}
		sum += len(l.Hit.value)
	}
}

// alone finishes a lookup as Get does.
func (l *Lookup) alone(st *Stats) {
	before := st.Present
	if x := l.lane.x; x != nil {
		l.Hit, l.OK, l.Err = l.Reader.search(x, l.lane.at, l.Key, l.Seq, st)
	} else {
		l.Hit, l.OK, l.Err = l.Reader.Get(l.Key, l.Seq, st)
	}
	l.Present = st.Present > before
}

// inBlock finishes a lookup in its block. It returns false if the next block may have older versions of the key.
func (l *Lookup) inBlock(st *Stats) bool {
	c := &l.lane
	b := &c.b
	var e entry
	v := absent
	if bytes.HasPrefix(l.Key, b.data[blockHeader:blockHeader+b.prefix]) {
		e, v = b.getFrom(c.lo, c.head, l.Key[b.prefix:], l.Reader.firstVisible(l.Seq))
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
