package sstable

import (
	"bytes"
	"fmt"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/internal/prefetch"
	"github.com/bloomkv/bloomkv/internal/words"
)

// IterOptions choose how a cursor uses the cache.
type IterOptions struct {
	// Bypass does not use the cache. The cursor reads 256 KiB at once into its own memory and checks them. It
	// is for compaction and verification, which read every block once. It reads parts of the index that are not in
	// memory for itself, too.
	Bypass bool
}

// readAhead is the number of bytes that a cursor reads from the file at once, where it reads one block after the other.
const readAhead = 256 << 10

// keepCursor is the largest buffer, in bytes, that Trim leaves.
const keepCursor = readAhead

// An Iter is a cursor over the versions of a table and a merge.Source. It holds the block that it stands in, so it may
// be kept for long. The calls that move it report whether it stands at a version; after false, Err distinguishes the
// end from an error. Key and Value are valid until the next move or Close. An Iter is for one goroutine at a time. The
// order of calls is
//
//	(Reset move* Close)*
//
// A closed cursor keeps its buffers, so that Reset of a pooled cursor allocates nothing; Trim drops large ones. It must
// not be copied.
type Iter struct {
	r   *Reader
	o   IterOptions
	t   *top
	x   *index   // the part of the index that has the current block; nil before it was used
	own *index   // a part in the cursor's own memory, or nil
	seq ikey.Seq // of every version, if not 0
	err error

	at     int // data block of the table, or -1
	i      int // entry in it
	b      block
	lo, hi int          // entries [lo, hi) of b are in memory: all, or a part of a mapped block
	layout entryLayout  // of b, if it has no offsets and the cursor has stood in it; else zero
	held   *cache.Block // nil if the block is in the cursor's own memory
	key    []byte
	cur    entry
	lane   pairLane
	coming prefetch.Steps // what the cursor is likely to need next; each move takes a step
	soon   int            // the entry from which a cursor that has sought in the block expects the next one, or -1
	stats  Stats

	last        []byte // the key that the cursor stood at before it moved to another block
	lastTrailer ikey.Trailer

	ahead    []byte // bytes of the file
	aheadOff uint64
	plain    []byte // a block in the cursor's own memory
	spare    []byte // for the next one, while that one is shown

	// For mapped blocks.
	sought   int       // the entry that the last seek found, if the cursor has a part of the block
	walks    bool      // since the last seek, the cursor has moved beyond such a part
	resident residence // what the system had in memory
}

var _ merge.Source = (*Iter)(nil)

// Iter returns a cursor that stands at no version yet. The cursor must be closed before the table.
func (r *Reader) Iter(o IterOptions) *Iter {
	it := new(Iter)
	it.Reset(r, o)
	return it
}

// Reset makes it a new cursor over r that stands at no version, as Iter does. The zero value may be Reset.
func (it *Iter) Reset(r *Reader, o IterOptions) {
	_ = it.Close()
	it.r, it.o, it.seq, it.err, it.resident, it.stats = r, o, r.seq, nil, residence{}, Stats{}
}

// start begins a seek: it loads the index, or its top, if need be, and clears the error.
func (it *Iter) start() bool {
	it.err, it.walks = nil, false
	if it.t == nil {
		it.t, it.err = it.r.load(&it.stats)
	}
	return it.err == nil
}

// local returns the number of data block at in x.
func (it *Iter) local(at int) int { return at - it.x.base }

// enterPart makes part p of the index the current one.
func (it *Iter) enterPart(p int) bool {
	if it.x != nil && it.x.part == p && (it.x == it.own || it.x.kept.Load()) {
		it.x.use()
		return true
	}
	x := it.t.loaded[p].Load()
	switch {
	case x != nil:
		if !it.o.Bypass {
			x.use()
		}
	case it.o.Bypass || !it.r.admits(it.t, p):
		it.stats.IndexParts++
		if x, it.err = it.r.loadPart(it.t, p, it.own); it.err == nil {
			it.own = x
		}
	default:
		x, it.err = it.r.part(it.t, p, &it.stats)
	}
	if it.err != nil {
		it.x = nil // it may have been the cursor's own
		return false
	}
	it.x = x
	return true
}

// reach makes the part that has data block at the current one. The block is in the current part or next to it, or the
// first or the last of the table.
func (it *Iter) reach(at int) bool {
	switch x := it.x; {
	case x != nil && at >= x.base && at < x.base+len(x.slots):
		return true
	case at == 0:
		return it.enterPart(0)
	case at == it.t.blocks-1:
		return it.enterPart(len(it.t.parts) - 1)
	case at < x.base:
		return it.enterPart(x.part - 1)
	default:
		return it.enterPart(x.part + 1)
	}
}

// find returns the first data block whose separator is not before key, or their number, and makes its part the current
// one.
func (it *Iter) find(key []byte) (at int, ok bool) {
	p, h := it.t.search(key)
	if p == len(it.t.loaded) {
		return it.t.blocks, true
	}
	if !it.enterPart(p) {
		return 0, false
	}
	return it.x.base + it.x.findIn(h, key), true
}

// First moves to the first version.
func (it *Iter) First() bool {
	if !it.start() || it.t.blocks == 0 {
		return it.leave()
	}
	return it.load(0, part{from: fromStart}) && it.stand(0)
}

// Last moves to the last version.
func (it *Iter) Last() bool {
	if !it.start() || it.t.blocks == 0 {
		return it.leave()
	}
	return it.load(it.t.blocks-1, part{from: beforeEnd}) && it.stand(it.b.n-1)
}

// SeekGE moves to the first version at or after k.
func (it *Iter) SeekGE(k ikey.Key) bool {
	if it.seq != 0 {
		return it.seekOverridden(k)
	}
	return it.seekGE(k)
}

// SeekLT moves to the last version before k.
func (it *Iter) SeekLT(k ikey.Key) bool {
	if it.seq == 0 {
		return it.seekLT(k)
	}
	if it.seekOverridden(k) {
		return it.Prev()
	}
	return it.err == nil && it.Last()
}

// seekOverridden does the same as SeekGE for a table whose sequence numbers are replaced. It finds the key's first
// version and then compares the trailers that the caller sees.
func (it *Iter) seekOverridden(k ikey.Key) bool {
	ok := it.seekGE(ikey.Key{User: k.User, Trailer: ^ikey.Trailer(0)})
	for ok && ikey.Compare(it.Key(), k) < 0 {
		ok = it.Next()
	}
	return ok
}

// seekGE moves to the first version at or after k by the trailers in the file.
func (it *Iter) seekGE(k ikey.Key) bool {
	if !it.start() {
		return it.leave()
	}
	at, ok := it.find(k.User)
	if !ok {
		return it.leave()
	}
	for ; at < it.t.blocks; at++ {
		i, ok := it.seekIn(at, part{fromKey, k})
		if !ok {
			return false
		}
		if i < it.b.n {
			if it.held != nil {
				it.soon = max(i+1, it.hi-expecting)
			}
			return it.stand(i)
		}
	}
	return it.leave()
}

// seekLT moves to the last version before k by the trailers in the file.
func (it *Iter) seekLT(k ikey.Key) bool {
	if !it.start() || it.t.blocks == 0 {
		return it.leave()
	}
	at, ok := it.find(k.User)
	if !ok {
		return it.leave()
	}
	at = min(at, it.t.blocks-1)
	i, ok := it.seekIn(at, part{beforeKey, k})
	for ok && i == it.b.n && at+1 < it.t.blocks && it.lastIs(k.User) { // versions of one key may fill many blocks
		at++
		i, ok = it.seekIn(at, part{beforeKey, k})
	}
	switch {
	case !ok:
		return false
	case i > 0:
		return it.stand(i - 1)
	case at > 0:
		return it.load(at-1, part{from: beforeEnd}) && it.stand(it.b.n-1)
	}
	return it.leave()
}

// seekIn makes block number at the current one, or part p of it, and returns the first entry at or after the key of p,
// or the number of entries if they are all before it.
func (it *Iter) seekIn(at int, p part) (i int, ok bool) {
	if !it.load(at, p) {
		return 0, false
	}
	switch {
	case !it.whole():
		return it.sought, true
	case p.from == fromKey:
		return it.b.seek(p.key.User, p.key.Trailer, 0, ahead), true
	default:
		return it.b.seek(p.key.User, p.key.Trailer, ahead, 1), true
	}
}

// lastIs reports whether the block ends with a version of user.
func (it *Iter) lastIs(user []byte) bool {
	e := it.b.entry(it.b.n - 1)
	it.key = it.b.appendKey(it.key[:0], it.b.n-1, &e)
	return string(it.key) == string(user)
}

// leaveKey remembers the current version for follows.
func (it *Iter) leaveKey() { it.last, it.lastTrailer = append(it.last[:0], it.key...), it.cur.trailer }

// follows reports whether the current version is in order with that of leaveKey, in the block before or after (I34).
// checkBlock orders the versions within a block and checkBounds the keys from block to block; follows adds that the
// versions of one key descend if they continue in the next block. newer and older are the two trailers.
func (it *Iter) follows(newer, older ikey.Trailer) bool {
	if newer > older || !bytes.Equal(it.key, it.last) {
		return true
	}
	offset, user := it.x.handles[it.local(it.at)].offset, bytes.Clone(it.key)
	it.leave()
	it.err = it.r.damaged(offset, fmt.Errorf("%w: %s@%d and @%d in neighbouring blocks",
		ErrOrder, words.Quoted(user), newer.Seq(), older.Seq()))
	return false
}

// Next moves to the next version. It may follow only a call that returned true.
func (it *Iter) Next() bool {
	if it.i+1 < it.hi {
		if it.i == it.soon {
			it.expectNext()
		}
		it.coming.Next()
		return it.stand(it.i + 1)
	}
	if it.i+1 < it.b.n {
		return it.extend(false) && it.stand(it.i+1)
	}
	if it.at+1 < it.t.blocks {
		it.leaveKey()
		return it.load(it.at+1, it.next(fromStart)) && it.stand(0) && it.follows(it.lastTrailer, it.cur.trailer)
	}
	return it.leave()
}

// Prev moves to the version before. It may follow only a call that returned true.
func (it *Iter) Prev() bool {
	if it.i > it.lo {
		it.coming.Next()
		return it.stand(it.i - 1)
	}
	if it.i > 0 {
		return it.extend(true) && it.stand(it.i-1)
	}
	if it.at > 0 {
		it.leaveKey()
		return it.load(it.at-1, it.next(beforeEnd)) && it.stand(it.b.n-1) && it.follows(it.cur.trailer, it.lastTrailer)
	}
	return it.leave()
}

// Key returns the version that the cursor stands at.
func (it *Iter) Key() ikey.Key { return ikey.Key{User: it.key, Trailer: it.cur.trailer} }

// Value returns the value of the version.
func (it *Iter) Value() []byte { return it.cur.value }

// Err returns the error of the last move, or nil.
func (it *Iter) Err() error { return it.err }

// Close releases the table and returns Err. Only Reset may follow, Trim, or another Close.
func (it *Iter) Close() error {
	it.leave()
	it.r, it.t, it.x = nil, nil, nil
	if it.own != nil {
		it.own = it.own.emptied()
	}
	it.ahead, it.aheadOff = it.ahead[:0], 0
	it.lane.until = nil
	return it.err
}

// Trim drops large buffers of a closed cursor. Without it, they are there for the next table.
func (it *Iter) Trim() {
	it.ahead, it.plain, it.spare = kept(it.ahead), kept(it.plain), kept(it.spare)
	it.key, it.last, it.lane.keys = kept(it.key), kept(it.last), kept(it.lane.keys)
}

// kept returns b emptied for reuse, or nil if it is too large to be kept.
func kept(b []byte) []byte {
	if cap(b) > keepCursor {
		return nil
	}
	return b[:0]
}

// stand moves to entry i of the block.
func (it *Iter) stand(i int) bool {
	it.i = i
	if e, m := &it.cur, &it.layout; it.b.stride != 0 {
		if m.value == 0 {
			it.b.layout(m, i) // of this entry, as the first one may have to come from memory
		}
		at := it.b.entries + i*it.b.stride
		data := it.b.data[at : at+it.b.stride : at+it.b.stride]
		e.suffix, e.trailer = m.suffix, plainSet
		e.rest = data[m.rest:m.value]
		e.value = data[m.value:]
		if m.trailed {
			e.trailer = it.b.trailerWith(i, m)
		}
	} else {
		*e = it.b.entry(i)
	}
	if it.seq != 0 {
		it.cur.trailer = ikey.MakeTrailer(it.seq, it.cur.trailer.Kind())
	}
	it.key = it.b.appendSuffix(it.key[:it.b.prefix], i, &it.cur) // load put the prefix there
	return true
}

// entry returns entry i of the block. The cursor has stood in it.
func (it *Iter) entry(i int) entry {
	if it.b.stride != 0 {
		return it.b.entryWith(i, &it.layout)
	}
	return it.b.entry(i)
}

// leave makes the cursor stand at no version, and returns false.
func (it *Iter) leave() bool {
	it.release()
	it.at, it.b, it.cur = -1, block{}, entry{}
	return false
}

// release releases the block and what is known of it.
func (it *Iter) release() {
	if it.held != nil {
		it.held.Release()
		it.held = nil
	}
	it.lo, it.hi, it.soon, it.coming = 0, 0, -1, prefetch.Steps{}
}

// load makes block number at the current one, of which the cursor then has part p at least. If it cannot be read the
// cursor stops; it never skips a block.
func (it *Iter) load(at int, p part) bool {
	if at == it.at && it.whole() {
		return true
	}
	before := it.at
	it.release()
	if !it.reach(at) {
		return it.leave()
	}
	it.stats.Blocks++
	var c *cache.Block
	var own []byte
	if !it.o.Bypass {
		c, own, it.err = it.fromCache(at, before, p)
	}
	inMemory := c != nil || own != nil
	if !inMemory && it.err == nil {
		own, it.err = it.fromFile(at, it.o.Bypass || at == before+1 && before >= 0)
	}
	switch {
	case it.err != nil:
		return it.leave()
	case c != nil:
		it.held = c
		it.b.parse(c.Meta, c.Bytes())
	default:
		it.b = parseBlock(own)
	}
	it.begin(at, before, inMemory)
	return true
}

// begin completes a move to block number at, which is b already. before is the block that the cursor comes from.
func (it *Iter) begin(at, before int, inMemory bool) {
	if it.hi == 0 {
		it.hi = it.b.n
	}
	it.at, it.layout = at, entryLayout{}
	if step := at - before; inMemory && before >= 0 && it.whole() && (step == 1 || step == -1) {
		it.expect(at, step, it.hi-it.lo)
	}
	it.key = append(it.key[:0], it.b.data[blockHeader:blockHeader+it.b.prefix]...)
}

// next returns the part that a cursor needs of a neighbouring block: the whole if it has walked for a while.
func (it *Iter) next(from where) part {
	if it.walks {
		return part{}
	}
	it.walks = true
	return part{from: from}
}

// fromCache returns a block from the cache, which the caller releases. If the block is not cached it puts it there, or
// returns part p of it in the cursor's own memory, from the mapped file. before is the
// block that the cursor comes from.
func (it *Iter) fromCache(at, before int, p part) (c *cache.Block, own []byte, err error) {
	g := it.r.domain.Enter()
	defer g.Leave()
	i := it.local(at)
	switch c = it.r.cache.Get(&it.x.slots[i]); {
	case c != nil:
		it.stats.CacheHits++
		switch p.from {
		case fromKey:
			it.x.touch(i + 1)
		case beforeKey:
			it.x.touch(i - 1)
		default: // expect does it
		}
	default:
		o := it.r.origin(it.x, i)
		if o.mapped {
			own = it.fromMapped(at, before, p)
		}
		if own != nil || !o.cached {
			return nil, own, nil
		}
		if c, err = it.r.loadBlock(it.x, i, o, &it.stats); err != nil {
			return nil, nil, err
		}
	}
	c.Acquire()
	return c, nil, nil
}

// expecting is the number of entries before the end of a block from which on a cursor that has sought in the block
// prefetches the next one. Most seeks are followed by few moves.
const expecting = 14

// ahead is the number of bytes that are prefetched at a seek. The processor itself prefetches what follows.
const ahead = 1 << 10

// expectNext expects the next block from here on, after a seek in this one.
func (it *Iter) expectNext() {
	it.soon = -1
	it.expect(it.at, 1, it.hi-it.i)
}

// expect makes the next n moves in the current block, number at, prefetch the next one in the direction of step, if
// there is one and it is in memory.
func (it *Iter) expect(at, step, n int) {
	i := it.local(at) + step
	if i < 0 || i >= len(it.x.slots) {
		return
	}
	g := it.r.domain.Enter()
	defer g.Leave()
	var b []byte
	if c := it.x.slots[i].Load(); c != nil {
		b = c.Bytes()
		it.x.touch(i + step)
	} else if it.held == nil { // the current block is mapped
		offset, stored, _ := it.x.extent(i)
		b = it.r.mapped.Mapped(int64(offset), stored, false) //nolint:gosec // in a file
	}
	it.coming = prefetch.InSteps(b, n)
}

// fromFile reads a block into the cursor's memory, with read-ahead if ahead is true.
func (it *Iter) fromFile(at int, ahead bool) ([]byte, error) {
	s := it.x.spot(it.local(at))
	offset, stored, decoded := s.offset, s.stored, s.decoded
	need := uint64(stored + trailerSize) //nolint:gosec // a size
	if offset < it.aheadOff || offset+need > it.aheadOff+uint64(len(it.ahead)) {
		n := need
		if ahead {
			n = min(max(need, readAhead), it.t.end-offset) //nolint:gosec // a size
		}
		if uint64(cap(it.ahead)) < n {
			it.ahead = make([]byte, n)
		}
		it.ahead, it.aheadOff = it.ahead[:n], offset
		it.stats.FileReads++
		it.stats.FileBytes += n
		if err := it.r.readAt(it.ahead, offset); err != nil {
			it.ahead = it.ahead[:0]
			return nil, err
		}
	}
	start := offset - it.aheadOff
	sealed := it.ahead[start : start+need]
	if stored == decoded {
		return it.r.openBlock(&s, sealed)
	}
	p, err := it.r.unseal(&s, sealed)
	if err != nil {
		return nil, err
	}
	if cap(it.plain) < decoded {
		it.plain = make([]byte, decoded)
	}
	b := it.plain[:decoded]
	return b, it.r.unpack(&s, p, b)
}
