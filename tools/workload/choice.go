package workload

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
)

// golden is 2⁶⁴ divided by the golden ratio, the step of SplitMix64.
const golden = 0x9e3779b97f4a7c15

const (
	mixA = 0xbf58476d1ce4e5b9
	mixB = 0x94d049bb133111eb
)

// mix maps words to words that look random, each to a different one: the finalizer of SplitMix64 (Steele, Lea, Flood,
// "Fast splittable pseudorandom number generators", OOPSLA 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * mixA
	x = (x ^ x>>27) * mixB
	return x ^ x>>31
}

// word returns the number of a key, which is never negative, as a word.
func word(i int) uint64 { return uint64(i) } //nolint:gosec // see above

var unmixA, unmixB = inverse(mixA), inverse(mixB)

// unmix reverses mix.
func unmix(x uint64) uint64 {
	x = (x ^ x>>31 ^ x>>62) * unmixB
	x = (x ^ x>>27 ^ x>>54) * unmixA
	return x ^ x>>30 ^ x>>60
}

// inverse returns the number that gives 1 when multiplied by x, which must be odd, by Newton's iteration.
func inverse(x uint64) uint64 {
	y := x // correct in 3 bits, and in twice as many after each step
	for range 5 {
		y *= 2 - x*y
	}
	return y
}

// Permutation is a shuffle of the numbers below n that takes no memory: a bijection of the next power of two, walked
// until it comes out below n (Black, Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
type Permutation struct {
	n, mask uint64
	shift   int
	rounds  [3]struct{ mul, add uint64 }
}

// NewPermutation returns a shuffle of the numbers 0 to n-1 that is determined by seed.
func NewPermutation(n int, seed uint64) Permutation {
	p := Permutation{n: uint64(max(n, 1))}
	width := bits.Len64(p.n - 1)
	p.mask = 1<<width - 1
	p.shift = max(1, (width+1)/2)
	for i := range p.rounds {
		seed += golden
		p.rounds[i].mul = mix(seed) | 1
		seed += golden
		p.rounds[i].add = mix(seed)
	}
	return p
}

// At returns the number at index i, 0 ≤ i < n. Each number occurs at one index.
func (p Permutation) At(i int) int {
	x := word(i)
	for {
		for _, r := range p.rounds {
			x = (x*r.mul + r.add) & p.mask
			x ^= x >> p.shift
		}
		if x < p.n {
			return int(x) //nolint:gosec // below n, which is an int
		}
	}
}

// Zipf draws ranks 0 to n-1 with probabilities proportional to (rank+1)^-skew. It is safe for concurrent use.
//
// The method is rejection-inversion: Hörmann, Derflinger, "Rejection-inversion to generate variates from monotone
// discrete distributions", ACM TOMACS 1996. Any skew above 0 is allowed, while math/rand/v2 requires more than 1.
type Zipf struct {
	n, skew         float64
	low, high, sure float64
}

// NewZipf returns the distribution over n ≥ 1 ranks with a skew above 0. YCSB uses a skew of 0.99.
func NewZipf(n int, skew float64) (Zipf, error) {
	if n < 1 || !(skew > 0) || math.IsInf(skew, 0) {
		return Zipf{}, fmt.Errorf("zipf over %d ranks with skew %v: want at least 1 rank and a skew above 0", n, skew)
	}
	z := Zipf{n: float64(n), skew: skew}
	z.low = z.area(1.5) - 1
	z.high = z.area(z.n + 0.5)
	z.sure = 2 - z.at(z.area(2.5)-math.Pow(2, -skew))
	return z, nil
}

// area returns the integral of x^-skew from 1 to x, and at inverts it.
func (z Zipf) area(x float64) float64 {
	if s := 1 - z.skew; math.Abs(s) > 1e-9 {
		return math.Expm1(s*math.Log(x)) / s
	}
	return math.Log(x)
}

func (z Zipf) at(area float64) float64 {
	if s := 1 - z.skew; math.Abs(s) > 1e-9 {
		return math.Exp(math.Log1p(max(-1, s*area)) / s)
	}
	return math.Exp(area)
}

// Next draws a rank.
func (z Zipf) Next(r *rand.Rand) int {
	for {
		u := z.high + r.Float64()*(z.low-z.high)
		x := z.at(u)
		k := min(max(math.Round(x), 1), z.n)
		if k-x <= z.sure || u >= z.area(k+0.5)-math.Pow(k, -z.skew) {
			return int(k) - 1
		}
	}
}

// Choice determines how a phase picks the keys of its operations.
type Choice uint8

const (
	Shuffled Choice = iota // each key once, in an order that looks random, then again from the start
	InOrder                // in the order of their numbers, then again from the start
	Uniform                // any key each time
	Zipfian                // some keys far more often than others, scattered over the set
	Latest                 // recent keys, those with high numbers, far more often than others
)

// String returns the name of the choice.
func (c Choice) String() string {
	return nameOf(c, "choice", "shuffled", "in order", "uniform", "zipfian", "latest")
}

// skew is that of Zipfian and Latest, as in YCSB.
const skew = 0.99

// chooser picks numbers below n. The picks for a chunk depend on the seed and on the first operation of the chunk, not
// on the worker.
type chooser struct {
	choice Choice
	n      int
	seed   uint64
	perm   Permutation
	zipf   Zipf
}

func newChooser(c Choice, n int, seed uint64) (chooser, error) {
	ch := chooser{choice: c, n: n, seed: seed, perm: NewPermutation(n, seed)}
	if n < 1 {
		return ch, errors.New("no keys to choose from")
	}
	if c > Latest {
		return ch, fmt.Errorf("unknown %v", c)
	}
	var err error
	if c == Zipfian || c == Latest {
		ch.zipf, err = NewZipf(n, skew)
	}
	return ch, err
}

// fill picks keys for the operations of a phase from number first on. It reseeds the random numbers.
func (c *chooser) fill(picks []int, first int, d *dice) {
	r := d.seeded(c.seed, first)
	for i := range picks {
		picks[i] = c.pick(r, first+i, c.n, &c.zipf)
	}
}

// pick picks the key of an operation by its number, or at random below records, for which Latest draws from recent.
func (c *chooser) pick(r *rand.Rand, number, records int, recent *Zipf) int {
	switch c.choice {
	case Shuffled:
		return c.perm.At(number % c.n)
	case InOrder:
		return number % c.n
	case Uniform:
		return r.IntN(records)
	case Latest:
		return records - 1 - recent.Next(r)
	default: // Zipfian
		for {
			if i := c.perm.At(c.zipf.Next(r)); i < records {
				return i
			}
		}
	}
}

// dice is a source of random numbers that can be reseeded without allocating.
type dice struct {
	source rand.PCG
	rand   *rand.Rand
}

func newDice() *dice {
	d := new(dice)
	d.rand = rand.New(&d.source) // math/rand is right here: a benchmark must be repeatable
	return d
}

// seeded returns random numbers for the operations from number first on.
func (d *dice) seeded(seed uint64, first int) *rand.Rand {
	d.source.Seed(seed, word(first))
	return d.rand
}

// position returns the position of operation k in its group of 100, after a shuffle. In each group p operations have a
// position below p.
func position(seed uint64, k int) int {
	return NewPermutation(100, mix(seed^mix(word(k/100)))).At(k % 100)
}
