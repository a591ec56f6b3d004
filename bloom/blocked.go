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

func (f *Filter) addBlocked(h bloomblock.Hash) bool {
	clearBits := uint64(0)
	for i := range f.units {
		u := &f.units[i]
		line := u.line(h)
		x, y := h.Fields()
		for range u.low {
			w, bit := &line[x/wordBits%blockWords], uint64(1)<<(x%wordBits)
			clearBits |= bit &^ *w
			*w |= bit
			x >>= fieldBits
		}
		for range u.probes - wordFields {
			w, bit := &line[y/wordBits%blockWords], uint64(1)<<(y%wordBits)
			clearBits |= bit &^ *w
			*w |= bit
			y >>= fieldBits
		}
		h = h.Next()
	}
	return clearBits != 0
}

// askBlocked makes the first three probes of a unit, branches once, and makes the others. A branch for each probe is
// mispredicted about once for an absent key, which costs more than the probes it saves.
func (f *Filter) askBlocked(h bloomblock.Hash) bool {
	for i := range f.units {
		u := &f.units[i]
		line := u.line(h)
		x, y := h.Fields()
		all, more := uint64(1), u.low
		if more >= 3 {
			all = probe(line, x) & probe(line, x>>fieldBits) & probe(line, x>>(2*fieldBits))
			if all&1 == 0 {
				return false
			}
			x >>= 3 * fieldBits
			more -= 3
		}
		for range more {
			all &= probe(line, x)
			x >>= fieldBits
		}
		for range u.probes - wordFields {
			all &= probe(line, y)
			y >>= fieldBits
		}
		if all&1 == 0 {
			return false
		}
		h = h.Next()
	}
	return true
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
