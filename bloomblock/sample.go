package bloomblock

import (
	"encoding/binary"
	"hash/crc32"
	"iter"
	"math"
	"slices"
)

// maxSample is the largest number of hashes in a sample. A share estimated from a sample of this size has a standard
// error of at most 1.6 hundredths, and a number of distinct hashes one of three hundredths.
const maxSample = 1024

// A Sample holds the hashes of a set that come first in a random order, which is the same for all sets. It is
// therefore a uniform sample of the set without repetition: what is true of a share of the sample is true of about
// that share of the set.
//
// The order is independent of where a filter places hashes: the smallest hashes would all be in its first blocks and
// represent no others. A Sample is immutable and safe for concurrent use; the zero value is that of the empty set.
type Sample struct {
	keys  uint64
	mixed []uint64 // strictly ascending
}

// A sample block, little-endian:
//
//	 0  magic      8 bytes "bloomsmp"
//	 8  version    u8      1
//	 9  hash       u8      1 = XXH64, seed 0
//	10  count      u16     0..1024, at most the number of keys
//	12  checksum   u32     CRC-32C of all other bytes
//	16  keys       u64     of the set, as the header of its filter has them
//	24  count × mixed hash, u64, strictly ascending
//
// The mixed hashes are those of Hash.mix; the sample has the smallest. Magic, version and checksum keep their offsets
// in all versions.
const (
	sampleMagic   = "bloomsmp"
	sampleVersion = 1
	sampleHeader  = 24
	minSample     = 64
	sampleShare   = 16
)

// A multiplier whose products are well distributed (Steele, Vigna, "Computationally Easy, Spectrally Good Multipliers
// for Congruential Pseudorandom Number Generators", 2021), and its inverse modulo 2⁶⁴.
const (
	mulMix = 0xd1342543de82ef95
	invMix = 0x572b5ee77a54e3bd
)

// mix returns the rank of h in the order in which samples are taken. The high bits of a product depend on all bits of
// h, so the smallest ranks fall into all blocks equally, with all fields. mix is invertible, so distinct hashes have
// distinct ranks.
func (h Hash) mix() uint64 { return uint64(h) * mulMix }

// unmix inverts mix.
func unmix(x uint64) Hash { return Hash(x * invMix) }

// sampleSize returns the number of hashes in the sample of n: all up to 64, else a sixteenth but at least 64 and at
// most maxSample. A small table thus pays half a byte for each key, and not 8 KiB. A share estimated from 64 hashes
// has an error of six hundredths, from 250 one of three; these are tables with few keys, and over many small tables
// the errors average out.
func sampleSize(n int) int { return min(n, max(minSample, min(n/sampleShare, maxSample))) }

// AppendSample appends the sample block of all added hashes to dst and returns the extended slice. It takes a pass
// over the hashes, at about the speed of memory, and the sorting of a thousand.
func (b *Builder) AppendSample(dst []byte) []byte {
	start := len(dst)
	mixed := b.smallest(sampleSize(b.n))
	dst = append(dst, sampleMagic...)
	dst = append(dst, sampleVersion, hashXXH64)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(mixed))) //nolint:gosec // ≤ maxSample
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(b.n)) //nolint:gosec // a length
	for _, x := range mixed {
		dst = binary.LittleEndian.AppendUint64(dst, x)
	}
	binary.LittleEndian.PutUint32(dst[start+12:], sampleSum(dst[start:]))
	return dst
}

// smallest returns the k smallest mixed hashes, ascending, or fewer if fewer are distinct. Since they are uniform, the
// k-th can be estimated: hashes above a limit somewhat beyond it are dropped and need not be sorted.
func (b *Builder) smallest(k int) []uint64 {
	limit := uint64(math.MaxUint64)
	if most := float64(k) + 4*math.Sqrt(float64(k)); most < float64(b.n) {
		limit = uint64(most / float64(b.n) * (1 << 63) * 2)
	}
	for low := make([]uint64, 0, k); ; limit = 2*min(limit, math.MaxUint64/2) + 1 {
		low = low[:0]
		for _, hashes := range b.chunks {
			for _, h := range hashes {
				if x := h.mix(); x <= limit {
					low = append(low, x)
				}
			}
		}
		slices.Sort(low)
		low = slices.Compact(low)
		if len(low) >= k || limit == math.MaxUint64 {
			return low[:min(k, len(low))]
		}
	}
}

func sampleSum(b []byte) uint32 { return crc32.Update(checksum(b[:12]), castagnoli, b[16:]) }

// ParseSample reads a sample block and checks every field. It does not retain block. The error matches ErrDamaged, or
// ErrUnknownKind if the block is intact but has an unknown version or hash.
func ParseSample(block []byte) (Sample, error) {
	if len(block) < sampleHeader {
		return Sample{}, damaged("sample of %d bytes, want at least %d", len(block), sampleHeader)
	}
	if got := string(block[:len(sampleMagic)]); got != sampleMagic {
		return Sample{}, damaged("magic of a sample %q, want %q", got, sampleMagic)
	}
	if got, want := sampleSum(block), binary.LittleEndian.Uint32(block[12:]); got != want {
		return Sample{}, damaged("checksum of a sample %08x, want %08x", got, want)
	}
	switch {
	case block[8] != sampleVersion:
		return Sample{}, unknown("version of a sample", block[8], sampleVersion)
	case block[9] != hashXXH64:
		return Sample{}, unknown("hash of a sample", block[9], hashXXH64)
	}
	s := Sample{keys: binary.LittleEndian.Uint64(block[16:])}
	count, rest := int(binary.LittleEndian.Uint16(block[10:])), block[sampleHeader:]
	switch {
	case count > maxSample || uint64(count) > s.keys || count == 0 && s.keys > 0:
		return Sample{}, damaged("sample of %d hashes of %d keys, want at most %d", count, s.keys, maxSample)
	case len(rest) != 8*count:
		return Sample{}, damaged("sample of %d hashes in %d bytes, want %d", count, len(block), sampleHeader+8*count)
	}
	s.mixed = make([]uint64, count)
	for i := range s.mixed {
		s.mixed[i] = binary.LittleEndian.Uint64(rest[8*i:])
		if i > 0 && s.mixed[i-1] >= s.mixed[i] {
			return Sample{}, damaged("hash %d of a sample is not behind the one before it", i)
		}
	}
	return s, nil
}

// Keys returns the number of hashes that were added to the set, consecutive equal ones once, like Filter.Keys.
func (s *Sample) Keys() uint64 { return s.keys }

// Len returns the number of hashes in the sample.
func (s *Sample) Len() int { return len(s.mixed) }

// Hashes returns the hashes in the sample, in its order.
func (s *Sample) Hashes() iter.Seq[Hash] {
	return func(yield func(Hash) bool) {
		for _, x := range s.mixed {
			if !yield(unmix(x)) {
				return
			}
		}
	}
}

// Find returns the index of h in the sample. If it is not there, taken reports whether it would be if the set
// contained h.
func (s *Sample) Find(h Hash) (index int, found, taken bool) {
	x := h.mix()
	index, found = slices.BinarySearch(s.mixed, x)
	return index, found, index < len(s.mixed) || s.whole()
}

// whole reports whether the sample has every hash of the set. Then there is one for each key, or there are fewer than
// AppendSample takes of so many keys, because many keys have equal hashes.
func (s *Sample) whole() bool {
	n := len(s.mixed)
	return uint64(n) == s.keys || n < sampleSize(int(min(s.keys, math.MaxInt)))
}

// Distinct returns the number of distinct hashes of the set, estimated from the sample alone, whereas Keys was
// counted. It is exact if the sample is the whole set, and otherwise has a relative standard error of 1/√Len (Beyer,
// Haas, Reinwald, Sismanis, Gemulla, "On Synopses for Distinct-Value Estimation Under Multiset Operations", SIGMOD
// 2007).
func (s *Sample) Distinct() float64 {
	n := len(s.mixed)
	if s.whole() {
		return float64(n)
	}
	return float64(n-1) / (float64(s.mixed[n-1]) / (1 << 63) / 2)
}

// An Overlap is an estimate of how much of one set is in others, from a sample of the one and the filters of the
// others.
type Overlap struct {
	Share float64 // of the set's hashes that are in at least one of the others, 0..1
	Err   float64 // standard error of Share
	Known bool    // false if a filter answered maybe to everything: then Share is 0 and means nothing
}

// Overlap estimates the share of the sampled set's hashes that are in the set of at least one of the filters. It asks
// all filters for the sample and corrects for false positives: if hashes in none of the sets pass at rate P, where 1-P
// = Π (1 - rate), and a share q of the sample passes, the estimate is (q-P)/(1-P). It takes the time of Len lookups of
// absent keys.
//
// Filters may have fewer of their units than were written, which raises their rate and the error. The overlap is
// unknown if one has no units or is nil, or if together they would let nearly all hashes pass. The sizes of the other
// sets make no difference: for two sets of unequal size the smaller one's sample shows as much as for equal ones,
// where sketches of both would show next to nothing.
func (s *Sample) Overlap(filters ...*Filter) Overlap {
	denied := 1.0 // share of the hashes in none of the sets that all filters deny
	for _, f := range filters {
		if f == nil || f.Units() == 0 {
			return Overlap{Err: 1}
		}
		denied *= 1 - f.expectedRate()
	}
	if denied < minDenied {
		return Overlap{Err: 1}
	}
	n := len(s.mixed)
	if n == 0 {
		return Overlap{Known: true}
	}
	misses := 0
hashes:
	for h := range s.Hashes() {
		for _, f := range filters {
			if f.MayContain(h) {
				continue hashes
			}
		}
		misses++
	}
	absent := min(float64(misses)/float64(n)/denied, 1)
	// There are two errors: of drawing n of keys without replacement, and of false positives. The estimate of a share
	// of 0 or 1 has an error too, for which half a hash is assumed.
	p := min(max(absent, 0.5/float64(n)), 1-0.5/float64(n))
	drawn := p * (1 - p) * (1 - float64(n)/float64(max(s.keys, 1)))
	maybes := p * (1 - denied) / denied
	return Overlap{Share: 1 - absent, Err: math.Sqrt((max(drawn, 0) + maybes) / float64(n)), Known: true}
}

// minDenied is the smallest share of absent hashes that filters must deny together for the estimate to be useful.
const minDenied = 0.05
