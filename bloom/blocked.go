package bloom

import "github.com/bloomkv/bloomkv/bloomblock"

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

// add sets the bits of a mixed hash and reports whether one was clear. It reads before it writes: to read what was just
// written takes twice as long, since most bits share a word with another of the key. Like ask, it is written out.
func (u *unit) add(h bloomblock.Hash) bool {
	if u.ask(h) {
		return false
	}
	line := u.line(h)
	x, _ := h.Fields()
	switch u.probes {
	default:
		_, y := h.Fields()
		for range u.probes - wordFields {
			setBit(line, y)
			y >>= fieldBits
		}
		fallthrough
	case 7:
		setBit(line, x>>54)
		fallthrough
	case 6:
		setBit(line, x>>45)
		fallthrough
	case 5:
		setBit(line, x>>36)
		fallthrough
	case 4:
		setBit(line, x>>27)
		fallthrough
	case 3:
		setBit(line, x>>18)
		fallthrough
	case 2:
		setBit(line, x>>9)
		fallthrough
	case 1:
		setBit(line, x)
	}
	return true
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
