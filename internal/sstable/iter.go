package sstable

import (
	"bytes"
	"fmt"

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
	blockSource
	seq ikey.Seq // of every version, if not 0
	err error

	window
	at     int         // the number of the block in the table, or -1
	i      int         // the current entry in it
	layout entryLayout // of the block, if it has no offsets and the cursor has stood in it; else zero
	key    []byte
	cur    entry
	series pairSeries

	prefetchFrom int      // after a seek: the entry from which on Next prefetches the next block; -1 if none
	sequential   bool     // since the last seek, the cursor has moved beyond a part of a block
	last         ikey.Key // the version that the cursor stood at before it moved to another block
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
	it.r, it.bypass, it.seq, it.err, it.resident, it.stats = r, o.Bypass, r.seq, nil, residence{}, Stats{}
}

// start begins a seek: it loads the top of the index, if need be, and clears the error.
func (it *Iter) start() bool {
	it.sequential, it.err = false, nil
	if it.t == nil {
		it.t, it.err = it.r.load(&it.stats)
	}
	return it.err == nil
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
	at, err := it.find(k.User)
	if it.err = err; err != nil {
		return it.leave()
	}
	for ; at < it.t.blocks; at++ {
		i, ok := it.seekIn(at, part{fromKey, k})
		if !ok {
			return false
		}
		if i < it.b.n {
			if it.held != nil {
				it.prefetchFrom = max(i+1, it.hi-expecting)
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
	at, err := it.find(k.User)
	if it.err = err; err != nil {
		return it.leave()
	}
	at = min(at, it.t.blocks-1)
	i, ok := it.seekIn(at, part{beforeKey, k})
	for ok && i == it.b.n && at+1 < it.t.blocks && it.b.endsWith(k.User) { // versions of one key may fill many blocks
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
		return it.found, true
	case p.from == fromKey:
		return it.b.seek(p.key.User, p.key.Trailer, 0, prefetched), true
	default:
		return it.b.seek(p.key.User, p.key.Trailer, prefetched, 1), true
	}
}

// Next moves to the next version. It may follow only a call that returned true.
func (it *Iter) Next() bool {
	if it.i+1 < it.hi {
		if it.i == it.prefetchFrom {
			it.expect(1, it.hi-it.i)
		}
		it.prefetch.Next()
		return it.stand(it.i + 1)
	}
	if it.i+1 < it.b.n {
		return it.extend(false) && it.stand(it.i+1)
	}
	return it.cross(1)
}

// Prev moves to the version before. It may follow only a call that returned true.
func (it *Iter) Prev() bool {
	if it.i > it.lo {
		it.prefetch.Next()
		return it.stand(it.i - 1)
	}
	if it.i > 0 {
		return it.extend(true) && it.stand(it.i-1)
	}
	return it.cross(-1)
}

// cross moves to the next block in the direction of step. It first needs a part of it, and the whole once the cursor
// has moved on for a while. The versions on both sides must be in order (I34): checkBlock orders the versions within a
// block and checkBounds the keys from block to block; cross adds that the versions of one key descend if they continue
// in the next block.
func (it *Iter) cross(step int) bool {
	at := it.at + step
	if at < 0 || at == it.t.blocks {
		return it.leave()
	}
	it.last = ikey.Key{User: append(it.last.User[:0], it.key...), Trailer: it.cur.trailer}
	var p part
	if !it.sequential {
		if p.from = fromStart; step < 0 {
			p.from = beforeEnd
		}
	}
	it.sequential = true
	if !it.load(at, p) {
		return false
	}
	if step > 0 {
		it.stand(0)
	} else {
		it.stand(it.b.n - 1)
	}
	newer, older := it.last.Trailer, it.cur.trailer
	if step < 0 {
		newer, older = older, newer
	}
	if newer > older || !bytes.Equal(it.key, it.last.User) {
		return true
	}
	offset := it.x.handles[it.local(at)].offset
	it.leave()
	it.err = it.r.damaged(offset, fmt.Errorf("%w: %s@%d and @%d in neighbouring blocks",
		ErrOrder, words.Quoted(it.last.User), newer.Seq(), older.Seq()))
	return false
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
	it.blockSource.close()
	it.series.until = nil
	return it.err
}

// Trim drops large buffers of a closed cursor. Without it, they are there for the next table.
func (it *Iter) Trim() {
	for _, b := range [...]*[]byte{&it.buf, &it.plain, &it.spare, &it.key, &it.last.User, &it.series.keys} {
		if *b = (*b)[:0]; cap(*b) > keepCursor {
			*b = nil
		}
	}
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
	}
	it.held, it.lo, it.hi, it.prefetch, it.prefetchFrom = nil, 0, 0, prefetch.Steps{}, -1
}

// load makes block number at the current one, of which the cursor then has part p at least. If it cannot be read the
// cursor stops; it never skips a block.
func (it *Iter) load(at int, p part) bool {
	if at == it.at && it.whole() {
		return true
	}
	before := it.at
	it.release()
	if it.err = it.block(&it.window, at, before, p); it.err != nil {
		return it.leave()
	}
	it.begin(at, before)
	return true
}

// begin completes a move to block number at, which is in the window already, from block number before.
func (it *Iter) begin(at, before int) {
	it.at, it.layout = at, entryLayout{}
	if step := at - before; before >= 0 && it.whole() && (step == 1 || step == -1) {
		it.expect(step, it.hi-it.lo)
	}
	it.key = append(it.key[:0], it.b.data[blockHeader:blockHeader+it.b.prefix]...)
}

// extend makes the cursor, which has a part of a mapped block, have all entries behind it, or before it.
func (it *Iter) extend(back bool) bool {
	if it.copyRest(back) {
		return true
	}
	at := it.at
	it.leave()
	return it.load(at, part{}) // it.i stays
}

// copyRest implements extend. It returns false if the block must be read.
func (it *Iter) copyRest(back bool) bool {
	it.sequential = true
	if !it.widen(&it.window, it.at, back) {
		return false
	}
	step := 1
	if back {
		step = -1
	}
	it.expect(step, it.hi-it.lo)
	return true
}

// expecting is the number of entries before the end of a block from which on a cursor that has sought in the block
// prefetches the next one. Most seeks are followed by few moves.
const expecting = 14

// expect makes the next n moves in the current block prefetch the next one in the direction of step, if there is one
// and it is in memory.
func (it *Iter) expect(step, n int) {
	it.prefetchFrom = -1
	i := it.local(it.at) + step
	if it.bypass || i < 0 || i >= len(it.x.slots) {
		return
	}
	g := it.r.domain.Enter()
	defer g.Leave()
	var b []byte
	if c := it.x.slots[i].Load(); c != nil {
		b = c.Bytes()
		it.x.touch(i + step)
	} else if it.held == nil && it.r.mapped != nil {
		offset, stored, _ := it.x.extent(i)
		b = it.r.mapped.Mapped(int64(offset), stored, false) //nolint:gosec // in a file
	}
	it.prefetch = prefetch.InSteps(b, n)
}
