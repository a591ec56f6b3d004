package sstable

import "github.com/bloomkv/bloomkv/internal/ikey"

// EnterLane prepares for NextInLane, which then ends before the key end, or with the block if end is nil, and returns
// what a reader at seq may see. The cursor stands at a version that such a reader sees. EnterLane reports whether there
// is more ahead.
func (it *Iter) EnterLane(end []byte, seq ikey.Seq) bool {
	it.newest = it.r.firstVisible(seq)
	switch {
	case end == nil:
		it.lane = it.hi
	case it.whole():
		it.lane = it.b.seek(end, ^ikey.Trailer(0), 0, 0)
	default: // entries beyond the part cannot be compared with end
		it.lane = min(it.hi, it.b.seekHead(end, 0))
	}
	if it.soon >= it.i {
		it.lane = min(it.lane, it.soon+1) // for a call of Next there
	}
	return it.i+1 < it.lane
}

// NextInLane moves to the first version of the next key that the reader may see, if it is in the block and before the
// end of the lane, and if it is a Set. The key is written over dst, which must be the key that the cursor stands at.
// Key and Value may not be called before LeaveLane.
func (it *Iter) NextInLane(dst []byte) (key, value []byte, ok bool) {
	it.coming.Next()
	i := it.i + 1
	if i < it.lane && it.b.stride != 0 && (!it.layout.trailed || it.sure(i)) {
		it.i = i
		key, value = it.b.pairWith(dst, i, &it.layout)
		return key, value, true
	}
	for ; i < it.lane; i++ {
		e := it.entry(i)
		if e.trailer > it.newest || it.b.head(i) == it.b.head(it.i) && e.compareUser(dst[it.b.prefix:]) == 0 {
			continue // too new, or an older version of the same key
		}
		if e.trailer.Kind() != ikey.Set {
			break
		}
		it.i = i
		return it.b.appendSuffix(dst[:it.b.prefix], i, &e), e.value, true
	}
	return dst, nil, false
}

// EnterLaneBack prepares for PrevInLane, which returns the versions that the cursor stands at and moves back. It ends
// behind the key end, or with the block if end is nil. EnterLaneBack reports whether there is one at least that a
// reader at seq may see. If so, it returns dst with the bytes that all keys of the block share, for the first call of
// PrevInLane, and otherwise dst.
func (it *Iter) EnterLaneBack(end, dst []byte, seq ikey.Seq) ([]byte, bool) {
	it.newest = it.r.firstVisible(seq)
	switch {
	case end == nil:
		it.lane = it.lo
	case it.whole():
		it.lane = it.b.seek(end, 0, 0, 0)
	default:
		it.lane = max(it.lo, it.b.seekHead(end, 1))
	}
	if it.seq > seq || it.i <= it.lane {
		return dst, false
	}
	if _, ok := it.first(it.i); !ok {
		return dst, false
	}
	return append(dst[:0], it.key[:it.b.prefix]...), true
}

// PrevInLane returns the version that the cursor stands at, and moves to the one before, if that is in the block and in
// the lane and has another key, so that the version is the newest of its key. It must be one that the reader may see,
// and a Set. The key is written over dst, which must be the last one or what EnterLaneBack returned. Key and Value may
// not be called before LeaveLane.
func (it *Iter) PrevInLane(dst []byte) (key, value []byte, ok bool) {
	i := it.i
	if i <= it.lane {
		return dst, nil, false
	}
	it.coming.Next()
	if it.b.stride != 0 && (!it.layout.trailed || it.sure(i)) {
		it.i = i - 1
		key, value = it.b.pairWith(dst, i, &it.layout)
		return key, value, true
	}
	e, ok := it.first(i)
	if !ok {
		return dst, nil, false
	}
	it.i = i - 1
	return it.b.appendSuffix(dst[:it.b.prefix], i, &e), e.value, true
}

// sure does the same as first for a block without offsets, whose entries have trailers. It looks only at the heads of
// keys, and returns false if they are equal.
func (it *Iter) sure(i int) bool {
	t := it.b.trailerWith(i, &it.layout)
	return t <= it.newest && t.Kind() == ikey.Set && it.b.head(i-1) != it.b.head(i)
}

// first returns entry i > 0 of a lane, and reports whether the reader may see it, it is a Set, and no newer version of
// its key is before it.
func (it *Iter) first(i int) (e entry, ok bool) {
	e = it.entry(i)
	if e.trailer > it.newest || e.trailer.Kind() != ikey.Set {
		return e, false
	}
	if it.b.head(i-1) != it.b.head(i) {
		return e, true
	}
	before := it.entry(i - 1)
	return e, !before.sameKey(&e)
}

// LeaveLane ends the calls of NextInLane or PrevInLane.
func (it *Iter) LeaveLane() { it.stand(it.i) }
