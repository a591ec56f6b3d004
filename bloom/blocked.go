package bloom

import (
	"runtime"

	"github.com/bloomkv/bloomkv/bloomblock"
)

const (
	wordBits   = 64
	blockWords = 8 // 64 bytes, one cache line
	blockBits  = blockWords * wordBits
	fieldBits  = 9 // log2(blockBits)
	wordFields = 7 // whole fields in 64 bits
)

// blockedSizes returns the sizes of the units of p. Their bits are at the positions of a filter block of bloomblock.
func blockedSizes(o Options, p bloomblock.Params) (sizes []unitSize) {
	for _, u := range p.Units() {
		sizes = append(sizes, unitSize{float64(o.Keys) * u.BitsPerKey, blockWords, u.Probes})
	}
	return sizes
}

// line returns the block of a mixed hash.
func (u *unit) line(h bloomblock.Hash) *[blockWords]uint64 {
	at := h.Block(u.blocks) * blockWords
	return (*[blockWords]uint64)(u.words[at : at+blockWords : at+blockWords])
}

// probe returns the word of line that contains the bit at the low field of x, shifted so that this bit is the lowest.
func probe(line *[blockWords]uint64, x uint64) uint64 {
	return line[x/wordBits%blockWords] >> (x % wordBits)
}

// setBit sets the bit at the low field of x.
func setBit(line *[blockWords]uint64, x uint64) { line[x/wordBits%blockWords] |= 1 << (x % wordBits) }

// add sets the bits of a mixed hash and reports whether one was clear. It reads all bits before it writes one: to read
// what was just written takes longer, and most bits share a word with another of the key. The first six are written
// out, and nothing branches on what is read, so that the cache misses of successive keys overlap.
func (u *unit) add(h bloomblock.Hash) bool {
	line := u.line(h)
	x, y := h.Fields()
	if u.probes < 6 {
		return addFew(line, x, u.probes)
	}
	a, b, c, d, e, f := x, x>>9, x>>18, x>>27, x>>36, x>>45
	all := probe(line, a) & probe(line, b) & probe(line, c) & probe(line, d) & probe(line, e) & probe(line, f)
	setBit(line, a)
	setBit(line, b)
	setBit(line, c)
	setBit(line, d)
	setBit(line, e)
	setBit(line, f)
	if u.probes >= wordFields {
		all &= probe(line, x>>54)
		setBit(line, x>>54)
		for range u.probes - wordFields {
			all &= probe(line, y)
			setBit(line, y)
			y >>= fieldBits
		}
	}
	return all&1 == 0
}

// addFew sets the given number of bits, at most 7.
func addFew(line *[blockWords]uint64, x uint64, probes int) bool {
	all := uint64(1)
	for range probes {
		all &= probe(line, x)
		setBit(line, x)
		x >>= fieldBits
	}
	return all == 0
}

// addMany adds up to 64 mixed hashes: bit i of the result is the result of add for hash i. It reads a word of each
// block first, so that their cache misses overlap.
func (u *unit) addMany(hashes []bloomblock.Hash) (added uint64) {
	words := uint64(0)
	for _, h := range hashes {
		words |= u.first(h)
	}
	runtime.KeepAlive(words) // so that the compiler does not leave out the reads
	for i, h := range hashes {
		if u.add(h) {
			added |= 1 << (i & 63)
		}
	}
	return added
}

// ask reports whether the bits of a mixed hash are set. It makes up to four probes, branches once, and makes the
// others: a branch for each probe is mispredicted about once for an absent key, which costs more than the probes it
// saves. The probes are written out because a loop over them is slower.
func (u *unit) ask(h bloomblock.Hash) bool {
	line := u.line(h)
	x, _ := h.Fields()
	all := probe(line, x)
	if u.probes > 1 {
		all &= probe(line, x>>9)
	}
	if u.probes > 2 {
		all &= probe(line, x>>18)
	}
	if u.probes > 3 {
		all &= probe(line, x>>27)
	}
	if all&1 == 0 {
		return false
	}
	switch u.probes {
	case 1, 2, 3, 4:
		return true
	default:
		_, y := h.Fields()
		for range u.probes - wordFields {
			all &= probe(line, y)
			y >>= fieldBits
		}
		fallthrough
	case 7:
		all &= probe(line, x>>54)
		fallthrough
	case 6:
		all &= probe(line, x>>45)
		fallthrough
	case 5:
		all &= probe(line, x>>36)
	}
	return all&1 != 0
}

// first returns a word whose lowest bit is the first bit of a mixed hash.
func (u *unit) first(h bloomblock.Hash) uint64 {
	x, _ := h.Fields()
	return probe(u.line(h), x)
}
