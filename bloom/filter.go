package bloom

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// Options describe a set. Filters that New returns for equal Options have the same shape and can be united and
// compared, provided that Seed is not 0.
type Options struct {
	// Keys is the number of keys the set is made for. With more it stays correct, and its false positive rate rises.
	Keys int
	// Rate is the false positive rate with that number of keys; the default is 0.01. New states the range.
	Rate float64
	// Seed determines, with the hash of a key, the positions of its bits. The default is a random seed, so that nobody
	// can choose keys that crowd into a few blocks. Sets that are to be united or compared need one seed: that of
	// another set's Options, or of bloomblock.NewSeed.
	Seed bloomblock.Seed
	// Layout is LayoutBlocked unless another is chosen.
	Layout Layout
}

// A Layout is an arrangement of the bits of a Filter.
type Layout uint8

const (
	// LayoutBlocked puts all bits of a key into one cache line of 64 bytes, or into one each of two or three lines for
	// rates below about 0.0005. It is the fastest and needs 4 to 11 % more memory than LayoutClassic at the usual
	// rates, 0.1, 0.01 and so on.
	LayoutBlocked Layout = iota
	// LayoutClassic puts the bits of a key anywhere in one array (Bloom 1970). It needs the least memory. Use it if
	// memory counts more than time, or to compare with other libraries.
	LayoutClassic
	// LayoutPartitioned has an array for each bit of a key. It needs as much memory as LayoutClassic and takes as long;
	// its rate has an exact formula for every number of keys. Use it to check theory.
	LayoutPartitioned
)

// String returns the name of the layout.
func (l Layout) String() string {
	names := [...]string{LayoutBlocked: "blocked", LayoutClassic: "classic", LayoutPartitioned: "partitioned"}
	if int(l) < len(names) {
		return names[l]
	}
	return fmt.Sprintf("layout %d", uint8(l))
}

const (
	defaultRate = 0.01
	maxWords    = min(1<<37, math.MaxInt/64) // of all units: 1 TiB, or 256 MiB with 32-bit words
	maxKeys     = min(1<<40, math.MaxInt)
	maxHashes   = 30 // probes of Classic, arrays of Partitioned: enough for bloomblock.BestRate
)

// A Filter is a set of a known size. One goroutine may add; any number may ask while none adds. For more goroutines
// see Atomic.
//
// Filters of each layout have the same methods. The time of Add and MayContain at a million keys and a rate of 1 % is
// in docs/sets.md.
type Filter struct {
	options Options // complete: no field has its default
	added   uint64  // keys that set at least one bit, so at most the number of set bits
	units   []unit
	mul     uint64 // of the probes of Classic and Partitioned: mulProbe, or mulProgression
}

// A unit is an array of bits. A filter denies a key if one of its units does. A Blocked filter has the units of a
// filter block of bloomblock, a Classic one has one unit, and a Partitioned one has a unit for each bit of a key.
type unit struct {
	words  []uint64
	blocks uint64 // Blocked: of 8 words
	probes int
}

// New returns an empty filter. It has the size that bloomblock computes for the layout, the keys and the rate: for
// Blocked that is the table of bloomblock.ParamsFor, since the usual formula promises a rate that blocks cannot give.
//
// The error matches bloomblock.ErrRate if the rate is below bloomblock.BestRate, not below 1 or not a number, or if
// equal 64-bit hashes alone give more than a tenth of the rate, as they do with 1.8 billion keys at 1e-9. It matches
// bloomblock.ErrParams if the number of keys or the layout is out of range.
func New(o Options) (*Filter, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	return newFilterOf(o)
}

// newFilterOf returns an empty filter with complete options.
func newFilterOf(o Options) (*Filter, error) {
	f := &Filter{options: o}
	var sizes []unitSize
	switch o.Layout {
	case LayoutClassic:
		sizes, f.mul = classicSizes(o), mulProbe
	case LayoutPartitioned:
		sizes, f.mul = partitionedSizes(o), mulProbe
	default:
		p, err := bloomblock.ParamsFor(o.Rate)
		if err != nil {
			return nil, err
		}
		sizes = blockedSizes(o, p)
	}
	blocks, words := make([]int, len(sizes)), 0
	for i, s := range sizes { // before any is made: the first ones may have most of the words that all may have
		var err error
		if blocks[i], err = o.blocksOf(s, words); err != nil {
			return nil, err
		}
		words += blocks[i] * s.words
	}
	for i, s := range sizes {
		f.units = append(f.units, newUnit(make([]uint64, blocks[i]*s.words), s.probes))
	}
	return f, nil
}

// A unitSize is the size of a unit: at least the given number of bits, rounded up to blocks of the given number of
// words.
type unitSize struct {
	bits          float64
	words, probes int
}

// complete returns the options with defaults filled in, after checking them.
func (o Options) complete() (Options, error) {
	if o.Rate == 0 {
		o.Rate = defaultRate
	}
	if o.Seed == 0 {
		o.Seed = bloomblock.NewSeed()
	}
	if err := o.check(); err != nil {
		return o, err
	}
	if same := float64(o.Keys) / (1 << 64); same > o.Rate/10 {
		return o, fmt.Errorf("%w: %v, want at least %.2g for %d keys: absent ones have one of their hashes at %.2g",
			bloomblock.ErrRate, o.Rate, 10*same, o.Keys, same)
	}
	return o, nil
}

// check checks the range of each option. It is for new sets and for encoded ones.
func (o Options) check() error {
	if !(o.Rate >= bloomblock.BestRate && o.Rate < 1) { // also refuses NaN
		return fmt.Errorf("%w: %v, want at least %v and below 1", bloomblock.ErrRate, o.Rate, bloomblock.BestRate)
	}
	if o.Keys < 0 || o.Keys > maxKeys {
		return fmt.Errorf("%w: %d keys, want 0..%d", bloomblock.ErrParams, o.Keys, uint64(maxKeys))
	}
	if o.Layout > LayoutPartitioned {
		return fmt.Errorf("%w: %v", bloomblock.ErrParams, o.Layout)
	}
	return nil
}

// blocksOf returns the number of blocks of a unit, where those before it have the given number of words. The error
// matches bloomblock.ErrParams if it is too large.
func (o Options) blocksOf(s unitSize, words int) (int, error) {
	blocks := max(1, math.Ceil(s.bits/float64(s.words*wordBits)))
	if size := blocks * float64(s.words); size > maxWords-float64(words) {
		return 0, fmt.Errorf("%w: a unit of %.3g bytes for %d keys at a rate of %v, want at most %d bytes",
			bloomblock.ErrParams, 8*size, o.Keys, o.Rate, uint64(maxWords)*8)
	}
	return int(blocks), nil
}

func newUnit(words []uint64, probes int) unit {
	return unit{words: words, blocks: uint64(len(words) / blockWords), probes: probes}
}

// words returns the number of words of all units.
func (f *Filter) words() (sum int) {
	for i := range f.units {
		sum += len(f.units[i].words)
	}
	return sum
}

// Options returns the options of the filter, with the seed and rate that were chosen. New returns an empty filter of
// the same shape for them, unless the filter is the Snapshot of an Atomic, or was encoded by an earlier version: see
// ErrShape. Clone and Clear do so for every filter.
func (f *Filter) Options() Options { return f.options }

// Add adds a key. It reports whether the key was certainly not in the set before; false may be a false positive. It
// does not retain key.
func (f *Filter) Add(key []byte) (added bool) { return f.AddHash(bloomblock.HashKey(key)) }

// AddHash adds a key by its hash: see Add.
func (f *Filter) AddHash(h bloomblock.Hash) (added bool) {
	h = f.options.Seed.Mix(h)
	switch f.options.Layout {
	case LayoutClassic:
		added = f.addClassic(h)
	case LayoutPartitioned:
		added = f.addPartitioned(h)
	default:
		for i := range f.units {
			if f.units[i].add(h) {
				added = true
			}
			h = h.Next()
		}
	}
	if added {
		f.added++
	}
	return added
}

// AddMany adds keys by their hashes: see Add. In a Blocked filter the cache misses of 64 hashes at a time overlap: it
// takes about half the time of AddHash if the filter is larger than the processor's caches, and as long if it is not.
func (f *Filter) AddMany(hashes []bloomblock.Hash) {
	if f.options.Layout != LayoutBlocked {
		for _, h := range hashes {
			f.AddHash(h)
		}
		return
	}
	for some := range slices.Chunk(hashes, 64) {
		added := uint64(0)
		var mixed [64]bloomblock.Hash
		for i, h := range some {
			mixed[i&63] = f.options.Seed.Mix(h)
		}
		for i := range f.units {
			added |= f.units[i].addMany(mixed[:len(some)])
			for j := range some {
				mixed[j&63] = mixed[j&63].Next()
			}
		}
		f.added += uint64(bits.OnesCount64(added)) //nolint:gosec // ≥ 0
	}
}

// MayContain reports whether a key may be in the set. False is certain; true is wrong for Rate of the absent keys.
func (f *Filter) MayContain(key []byte) bool { return f.MayContainHash(bloomblock.HashKey(key)) }

// MayContainHash asks for a key by its hash: see MayContain.
func (f *Filter) MayContainHash(h bloomblock.Hash) bool {
	h = f.options.Seed.Mix(h)
	switch f.options.Layout {
	case LayoutClassic:
		return f.askClassic(h)
	case LayoutPartitioned:
		return f.askPartitioned(h)
	case LayoutBlocked:
	}
	for i := range f.units {
		if !f.units[i].ask(h) {
			return false
		}
		h = h.Next()
	}
	return true
}

// MayContainMany asks for up to 64 hashes: bit i of the result is MayContainHash(hashes[i]). Further hashes are not
// asked for. In a Blocked filter the cache misses of all hashes overlap.
func (f *Filter) MayContainMany(hashes []bloomblock.Hash) (maybe uint64) {
	hashes = hashes[:min(len(hashes), 64)]
	for i, h := range hashes {
		first := uint64(1)
		if f.options.Layout == LayoutBlocked && len(f.units) > 0 { // one probe of each before any answer is looked at
			first = f.units[0].first(f.options.Seed.Mix(h))
		}
		maybe |= first & 1 << (i & 63)
	}
	for look := maybe; look != 0; look &= look - 1 {
		i := bits.TrailingZeros64(look)
		if !f.MayContainHash(hashes[i]) {
			maybe &^= 1 << i
		}
	}
	return maybe
}

// Clear removes all keys.
func (f *Filter) Clear() {
	for i := range f.units {
		clear(f.units[i].words)
	}
	f.added = 0
}

// Bytes returns the size of the bits in memory.
func (f *Filter) Bytes() int { return f.words() * wordBits / 8 }

// Saturated reports whether more keys were added than the filter was made for, so that Rate exceeds the promised rate.
// It counts keys that set a bit. It takes no time.
func (f *Filter) Saturated() bool { return f.added > uint64(f.options.Keys) } //nolint:gosec // ≥ 0

// Fill returns the share of the bits that are set, and 1 for a zero value. It counts the bits, at about the speed of
// memory.
func (f *Filter) Fill() float64 {
	if len(f.units) == 0 {
		return 1
	}
	return float64(f.setBits()) / float64(f.words()*wordBits)
}

func (f *Filter) setBits() (set uint64) {
	for i := range f.units {
		set += uint64(setBits(f.units[i].words)) //nolint:gosec // ≥ 0
	}
	return set
}

// Rate returns the false positive rate now: the probability that an absent key, with a hash independent of those in
// the set, finds all its bits set. It counts the bits.
//
// It is the product over the units of the mean over the cells of (set bits / bits)^probes, where a cell is a block of
// a Blocked filter and a whole unit of the others. The probes of a Classic or Partitioned filter that was encoded in
// format version 1 depend on each other. What this adds is included, and is right within a factor of two. An absent key
// whose 64-bit hash is that of a key, one in 2⁶⁴ for each key, is not counted.
func (f *Filter) Rate() float64 {
	rate := 1.0
	for i := range f.units {
		u := &f.units[i]
		sum, size := 0.0, f.cellWords(u)
		for at := 0; at < len(u.words); at += size {
			sum += power(float64(setBits(u.words[at:at+size]))/float64(size*wordBits), u.probes)
		}
		rate *= sum * float64(size) / float64(len(u.words))
	}
	if f.mul == mulProgression {
		rate += f.progressionFloor(float64(f.added), f.Fill())
	}
	return min(1, rate)
}

// RateAt returns the expected rate of the filter with the given number of keys, by the exact formula of its layout;
// Rate varies around it by chance. For Blocked it is an upper bound if the filter has few blocks. It takes up to some
// milliseconds.
//
//	Blocked      Σ Poisson(j; keys/blocks) · E[(X_j/512)^k], for each unit   Putze, Sanders, Singler 2007
//	Classic      E[(X/m)^k], about (1 - (1-1/m)^(k·keys))^k                  Bloom 1970; Broder, Mitzenmacher 2004
//	Partitioned  (1 - (1-k/m)^keys)^k
//
// X is the number of set bits, X_j that of a block with j keys, m the number of bits and k the number of bits of a key.
func (f *Filter) RateAt(keys int) float64 {
	if len(f.units) > 0 && keys <= 0 {
		return 0
	}
	rate, fill := 1.0, 0.0
	for i := range f.units {
		u := &f.units[i]
		size := float64(len(u.words) * wordBits)
		if f.options.Layout == LayoutBlocked {
			rate *= bloomblock.Unit{BitsPerKey: size / float64(keys), Probes: u.probes}.Rate()
			continue
		}
		fill = classicRate(keys*u.probes, size, 1)
		rate *= classicRate(keys, size, u.probes)
	}
	return min(1, rate+f.progressionFloor(float64(keys), fill))
}

// cellWords returns the number of words among which a key's bits of one unit are distributed.
func (f *Filter) cellWords(u *unit) int {
	if f.options.Layout == LayoutBlocked {
		return blockWords
	}
	return len(u.words)
}

func setBits(words []uint64) (set int) {
	for _, w := range words {
		set += bits.OnesCount64(w)
	}
	return set
}
