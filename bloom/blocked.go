package bloom

import (
	"math/bits"

	"github.com/bloomkv/bloomkv/bloomblock"
)

const (
	wordBits   = 64
	blockWords = 8 // 64 bytes, one cache line
	blockBits  = blockWords * wordBits
	fieldBits  = 9 // log2(blockBits)
	wordFields = 7 // whole fields in 64 bits
)

// makeBlocked makes the units of p. Their bits are at the positions of a filter block of bloomblock.
func (f *Filter) makeBlocked(p bloomblock.Params) error {
	for _, u := range p.Units() {
		if err := f.addUnit(float64(f.options.Keys)*u.BitsPerKey, blockWords, u.Probes); err != nil {
			return err
		}
	}
	return nil
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

// add sets the bits of a mixed hash and reports whether one was clear. It reads all bits before it writes them: to read
// in the same loop what was just written takes twice as long, since most bits share a word with another of the key.
func (u *unit) add(h bloomblock.Hash) bool {
	line := u.line(h)
	x, y := h.Fields()
	all, z := uint64(1), x
	for range u.low {
		all &= probe(line, z)
		z >>= fieldBits
	}
	if u.probes > wordFields {
		all &= u.high(line, y)
	}
	if all != 0 {
		return false
	}
	for range u.low {
		line[x/wordBits%blockWords] |= 1 << (x % wordBits)
		x >>= fieldBits
	}
	for range u.probes - wordFields {
		line[y/wordBits%blockWords] |= 1 << (y % wordBits)
		y >>= fieldBits
	}
	return true
}

// high returns 1 if the bits of y, the second word of fields, are set, and otherwise 0.
func (u *unit) high(line *[blockWords]uint64, y uint64) uint64 {
	all := uint64(1)
	for range u.probes - wordFields {
		all &= probe(line, y)
		y >>= fieldBits
	}
	return all
}

// ask reports whether the bits of a mixed hash are set. It makes three probes, branches once, and makes the others: a
// branch for each probe is mispredicted about once for an absent key, which costs more than the probes it saves.
func (u *unit) ask(h bloomblock.Hash) bool {
	line := u.line(h)
	x, y := h.Fields()
	more := u.low
	if more >= 3 {
		if probe(line, x)&probe(line, x>>fieldBits)&probe(line, x>>(2*fieldBits))&1 == 0 {
			return false
		}
		x >>= 3 * fieldBits
		more -= 3
	}
	all := uint64(1)
	for range more {
		all &= probe(line, x)
		x >>= fieldBits
	}
	if u.probes > wordFields {
		all &= u.high(line, y)
	}
	return all != 0
}

// askManyBlocked makes the first probe of each hash before it looks at any answer.
func (f *Filter) askManyBlocked(hashes []bloomblock.Hash) (maybe uint64) {
	u := &f.units[0]
	for i, h := range hashes {
		h = f.options.Seed.Mix(h)
		x, _ := h.Fields()
		maybe |= probe(u.line(h), x) & 1 << (i & 63)
	}
	for look := maybe; look != 0; look &= look - 1 {
		i := bits.TrailingZeros64(look)
		if !f.MayContainHash(hashes[i]) {
			maybe &^= 1 << i
		}
	}
	return maybe
}
