package salvage

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"sort"

	"github.com/bloomkv/bloomkv/internal/sstable"
)

// A blockSearch finds the blocks of one kind in a part of a file without an index. A block is found where its checksum
// is right, since checksums include table, kind and offset. A chance match is refused by the content of the block.
//
// If the start of a block is known, its end is the first position that is followed by the checksum of all bytes so far:
// one pass. If the start is unknown too, the linearity of the CRC saves trying each pair of positions. Let Z be the
// step of the CRC over a zero byte, P(i) the CRC's state over the first i bytes of the part, beginning with 0, and I(s)
// its state before a block at s. Its state after the block is then Z^(e-s)(I(s)^P(s)) ^ P(e), and the checksum C(e)
// that is stored at e fits if
//
//	Z^-s(I(s)^P(s)) = Z^-e(P(e) ^ ^C(e))
//
// so both sides are computed once for each position, and equal ones are looked up.
type blockSearch struct {
	src    *damagedFile
	seal   sstable.Seal
	kind   sstable.Kind
	end    uint64 // of the part that is searched
	accept accept
	buf    []byte

	// Limits of the work for a file that was forged to be slow.
	far   uint64 // bytes that may still be read to find blocks longer than nearBlock
	wrong int    // checksums that fitted by chance or were forged
}

// An accept function reports whether the content of a payload is that of a block.
type accept func(payload []byte, c sstable.Codec) bool

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	nearBlock    = 512 << 10 // longer blocks are found only after an intact block or at the start
	searchWindow = 512 << 10 // possible starts of a block that are examined together
	maxWrong     = 1 << 10   // checksums that may fit by chance before the search gives up
)

// newBlockSearch returns a search up to end.
func newBlockSearch(src *damagedFile, seal sstable.Seal, k sstable.Kind, end uint64, is accept) *blockSearch {
	return &blockSearch{src: src, seal: seal, kind: k, end: end, accept: is, far: 4 * end}
}

// next returns the offset of the first block at or after from, and the length of its payload. from is the start of the
// part, or the end of a block.
func (q *blockSearch) next(from uint64) (offset uint64, stored int, ok bool) {
	if n, ok := q.length(from, nearBlock); ok {
		return from, n, true
	}
	begin := from
	for ; from < q.end && q.wrong < maxWrong && q.src.ctx.Err() == nil; from += searchWindow {
		if at, n, ok := q.anywhere(from); ok {
			return at, n, true
		}
		if cost := min(q.end-begin, sstable.MaxBlock); from == begin && cost > nearBlock && cost <= q.far {
			q.far -= cost
			if n, ok := q.length(begin, cost); ok {
				return begin, n, true
			}
		}
	}
	return 0, 0, false
}

// length returns the length of the payload of the block at from, if that is at most limit.
func (q *blockSearch) length(from, limit uint64) (int, bool) {
	const chunk = 64 << 10
	sum := q.seal.Before(q.kind, from)
	b := q.buf[:0]
	for i := 0; ; i++ {
		if i+sstable.TrailerSize > len(b) {
			n := min(chunk, q.end-min(q.end, from+uint64(len(b))))
			if n == 0 || uint64(len(b)) > limit {
				return 0, false
			}
			b = slices.Grow(b, int(n))[:len(b)+int(n)]
			_ = q.src.read(b[len(b)-int(n):], from+uint64(len(b))-n)
			q.buf = b
			if i+sstable.TrailerSize > len(b) {
				return 0, false
			}
		}
		sum = castagnoli[byte(sum&0xff)^b[i]] ^ sum>>8
		if i > 0 && b[i] <= byte(sstable.LastCodec) && ^sum == binary.LittleEndian.Uint32(b[i+1:]) &&
			q.believes(b[:i], b[i]) {
			return i, true
		}
	}
}

// believes reports whether a payload with a right checksum is a block.
func (q *blockSearch) believes(payload []byte, c byte) bool {
	if q.wrong == maxWrong {
		return false
	}
	ok := q.accept(payload, sstable.Codec(c))
	if !ok {
		q.wrong++
	}
	return ok
}

// anywhere returns the first block that begins in the window at from and ends within two windows.
func (q *blockSearch) anywhere(from uint64) (offset uint64, stored int, ok bool) {
	n := min(2*searchWindow, q.end-from)
	b := slices.Grow(q.buf[:0], int(n))[:n]
	q.buf = b
	_ = q.src.read(b, from) // zeros fit no checksum
	type start struct {
		sum uint32 // the left side of the equation
		at  uint32
	}
	starts := make([]start, 0, min(searchWindow, len(b)))
	ends := make([]uint32, len(b)) // the right side, by the offset of the codec
	power, state := uint32(crcOne), uint32(0)
	for i := range b {
		if i < searchWindow {
			sum := crcTimes(power, q.seal.Before(q.kind, from+uint64(i))^state)
			starts = append(starts, start{sum, uint32(i)})
		}
		state = castagnoli[byte(state)^b[i]] ^ state>>8
		power = crcBack(power)
		if i+sstable.TrailerSize <= len(b) && b[i] <= byte(sstable.LastCodec) {
			ends[i] = crcTimes(power, state^^binary.LittleEndian.Uint32(b[i+1:]))
		}
	}
	slices.SortFunc(starts, func(a, b start) int { return cmp.Compare(a.sum, b.sum) })
	for e := 1; e+sstable.TrailerSize <= len(b); e++ {
		if b[e] > byte(sstable.LastCodec) {
			continue
		}
		sum := ends[e]
		i := sort.Search(len(starts), func(i int) bool { return starts[i].sum >= sum })
		for ; i < len(starts) && starts[i].sum == sum; i++ {
			if s := int(starts[i].at); s < e && q.believes(b[s:e], b[e]) {
				return from + uint64(s), e - s, true //nolint:gosec // s is not negative
			}
		}
	}
	return 0, 0, false
}

// A state of the CRC is a polynomial over GF(2) modulo that of Castagnoli. Its highest bit is the coefficient of 1. The
// step over a zero byte multiplies it by x^8.
const (
	crcOne  = 1 << 31
	crcPoly = 0x82f63b78
)

// crcTimes returns the product of two states.
func crcTimes(a, b uint32) (p uint32) {
	for m := uint32(crcOne); a != 0; m >>= 1 {
		if a&m != 0 {
			p ^= b
			a &^= m
		}
		b = b>>1 ^ crcPoly&-(b&1)
	}
	return p
}

// crcBack divides a state by x^8.
func crcBack(c uint32) uint32 {
	for range 8 {
		if c&crcOne != 0 {
			c = (c^crcPoly)<<1 | 1
		} else {
			c <<= 1
		}
	}
	return c
}
