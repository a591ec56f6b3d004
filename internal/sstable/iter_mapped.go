package sstable

import (
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/prefetch"
)

// Copying a block that is in no cache of the processor takes a microsecond, as much as the rest of a seek. So where a
// cursor begins to read in a mapped block, it copies only what it is likely to need, and the whole block once it moves
// on.

// A part says which entries of a block a cursor needs at first: those from the given one on, or up to it.
type part struct {
	from where
	key  ikey.Key // for fromKey and beforeKey
}

type where uint8

const (
	all where = iota
	fromStart
	beforeEnd
	fromKey
	beforeKey
)

// partBytes is the number of bytes of entries that a part has, about, if the block has as many.
const partBytes = 3 << 9

// copied returns the entries [lo, hi) that are in part p of the block, at least one; p is not all. sought is the first
// entry at or after the part's key, if it has one.
func (b *block) copied(p part) (lo, hi, sought int) {
	switch p.from {
	case fromStart:
		return 0, b.endOf(0), 0
	case beforeEnd:
		return b.startOf(b.n), b.n, 0
	case fromKey:
		sought = b.seek(p.key.User, p.key.Trailer, 0, ahead)
		return min(sought, b.n-1), b.endOf(sought), sought
	default: // beforeKey
		sought = b.seek(p.key.User, p.key.Trailer, ahead, 1)
		return b.startOf(sought), max(sought, 1), sought
	}
}

// endOf returns the end of the entries from lo on that are partBytes long together, or as many as there are.
func (b *block) endOf(lo int) (hi int) {
	if b.stride != 0 {
		return min(b.n, lo+1+partBytes/b.stride)
	}
	for hi = lo; hi < b.n && b.offset(hi)-b.offset(lo) < partBytes; {
		hi++
	}
	return hi
}

// startOf returns the start of the entries before hi that are partBytes long together, or as many as there are.
func (b *block) startOf(hi int) (lo int) {
	if b.stride != 0 {
		return max(0, hi-1-partBytes/b.stride)
	}
	for lo = hi; lo > 0 && b.offset(hi)-b.offset(lo) < partBytes; {
		lo--
	}
	return lo
}

// fromMapped copies data block at, or part p of it, from the mapped file into the cursor's own memory. It returns nil
// if the block must be read. before is the block that the cursor comes from. The caller is inside a guard.
func (it *Iter) fromMapped(at, before int, p part) []byte {
	i := it.local(at)
	_, stored, decoded := it.x.extent(i)
	if stored != decoded {
		return nil
	}
	if cap(it.plain) < stored+trailerSize {
		it.plain = make([]byte, stored+trailerSize)
	}
	own := it.plain[:stored]
	if p.from != all {
		if !it.copyPart(own, at, p) {
			return nil
		}
	} else {
		var in *residence
		if before >= 0 && at == before+1 {
			in = &it.resident
		}
		if !it.r.copyMapped(it.x, i, in, own[:stored+trailerSize]) {
			return nil
		}
	}
	it.stats.Mapped++
	return own
}

// copyPart copies part p of data block at and what is in front of the entries into own, which has the block's length.
// It sets the entries that the cursor has, and returns false if the block must be read.
func (it *Iter) copyPart(own []byte, at int, p part) bool {
	return it.r.useMapped(it.x, it.local(at), func(data []byte) bool {
		b := parseBlock(data)
		lo, hi, sought := b.copied(p)
		copy(own, data[:b.entries])
		copied, err := checkHeader(own)
		if err != nil || copied.n != b.n || !copied.copyEntries(data, lo, hi, it.x.seqs) {
			return false
		}
		it.lo, it.hi, it.sought = lo, hi, sought
		if p.from == fromKey || p.from == fromStart {
			it.coming = prefetch.InSteps(data[b.entries+b.offset(hi):], hi-lo)
		}
		return true
	})
}

// copyEntries copies the entries [lo, hi) of data, the mapped block of which b is a copy, and checks them.
func (b *block) copyEntries(data []byte, lo, hi int, s seqSpan) bool {
	from, to := b.entries+b.offset(lo), b.entries+b.offset(hi)
	copy(b.data[from:to], data[from:to])
	return b.fits(lo, hi, s)
}

// whole reports whether the cursor has all entries of its block.
func (it *Iter) whole() bool { return it.hi-it.lo == it.b.n }

// extend makes the cursor, which has a part of a mapped block, have all entries behind it, or before it.
func (it *Iter) extend(back bool) bool {
	if it.copyRest(back) {
		return true
	}
	at, i := it.at, it.i
	it.leave()
	if !it.load(at, part{}) {
		return false
	}
	it.i = i
	return true
}

// copyRest implements extend. It returns false if the block must be read.
func (it *Iter) copyRest(back bool) bool {
	it.walks = true
	lo, hi, step := it.hi, it.b.n, 1
	if back {
		lo, hi, step = 0, it.lo, -1
	}
	g := it.r.domain.Enter()
	ok := it.r.useMapped(it.x, it.local(it.at), func(data []byte) bool {
		return it.b.copyEntries(data, lo, hi, it.x.seqs)
	})
	g.Leave()
	if !ok {
		return false
	}
	it.lo, it.hi = min(it.lo, lo), max(it.hi, hi)
	it.expect(it.at, step, it.hi-it.lo)
	return true
}
