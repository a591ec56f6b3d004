package bloomblock

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

//go:generate go run fpr_gen.go

// BestRate is the lowest rate that ParamsFor promises. Three units could go lower, but an absent key shares its 64-bit
// hash with one of a billion keys with probability 5·10⁻¹¹, and no filter could keep a promise near that.
const BestRate = 1e-9

const (
	minUnitBits = 0.5 // bits per key of the first row of the table
	maxUnitBits = 32  // bits per key of the last rows
	rowBits     = 0.5 // bits per key from one row to the next
	rowSteps    = 16  // steps between them, in which units are fitted to a rate

	// unitCost is the number of bits per key that a further unit must save to be worth it: every present key, and
	// every absent one that passes the units before, touches one more cache line. Measured at one million keys a
	// second unit costs a present key 1 to 12 ns; to save less than one bit (a tenth of the usual filter) is not worth
	// that.
	unitCost = 1
)

// A Unit describes how one unit is built. Its size follows from the number of keys when the block is built, rounded up
// to a whole block of 64 bytes. If rounding gives few keys at least half a bit each more than requested, the unit gets
// the number of probes that these bits are worth.
type Unit struct {
	BitsPerKey float64 `json:"bits_per_key"` // 0.5..32
	Probes     int     `json:"probes"`       // 1..MaxProbes
}

// Rate returns the exact false positive rate of a unit with many keys; with fewer keys it is never higher. It takes up
// to some milliseconds.
func (u Unit) Rate() float64 { return poissonRate(blockBits/u.BitsPerKey, u.Probes) }

// A tableRow is a unit worth building: no unit with fewer bits, or with as many bits and fewer probes, has as
// low a rate.
type tableRow struct {
	Unit
	Rate     float64 // exact, as Unit.Rate computes it
	Measured float64 // false positives found by fpr_gen.go in a filter of 10⁶ keys
}

// Params describe how a filter is built: its units and the rate they promise. The zero value means no filter. Params
// are values and may be compared with ==.
type Params struct {
	units [MaxUnits]Unit
	rates [MaxUnits]float64 // of each unit alone
	n     int

	ribbon     bool // the first unit is a Ribbon if that is smaller, else units[0]
	sideBySide bool // see SideBySide
}

// NewParams returns the parameters of a filter with exactly these units, none to MaxUnits of them. It computes their
// rates, which takes up to some milliseconds. The error matches ErrParams.
func NewParams(units ...Unit) (Params, error) {
	var p Params
	if len(units) > MaxUnits {
		return Params{}, fmt.Errorf("%w: %d units, want 0..%d", ErrParams, len(units), MaxUnits)
	}
	for _, u := range units {
		if !(u.BitsPerKey >= minUnitBits && u.BitsPerKey <= maxUnitBits) { // also refuses NaN
			return Params{}, fmt.Errorf("%w: %v bits per key, want %v..%v",
				ErrParams, u.BitsPerKey, minUnitBits, maxUnitBits)
		}
		if u.Probes < 1 || u.Probes > MaxProbes {
			return Params{}, fmt.Errorf("%w: %d probes, want 1..%d", ErrParams, u.Probes, MaxProbes)
		}
		p.add(u, u.Rate())
	}
	return p, nil
}

func (p *Params) add(u Unit, rate float64) {
	p.units[p.n], p.rates[p.n] = u, rate
	p.n++
}

// Units returns a copy of the units, in the order in which they are built and loaded. If the first may be a Ribbon
// unit, Units has the Bloom unit that is built where a Ribbon would be larger.
func (p Params) Units() []Unit { return slices.Clone(p.units[:p.n]) }

// Ribbon reports whether the first unit is a Ribbon unit, except in tables of few keys.
func (p Params) Ribbon() bool { return p.ribbon }

// SideBySide returns the parameters of the same filter with its Bloom units side by side in the block, so that one read
// answers for a key, of one page of 4 KiB or, in some filters of few pages, of two: see Header.Steps. It is for filters
// that are asked in their files: no unit can be read alone. Rounding to parts takes about a hundredth more blocks, in a
// filter of few pages up to some hundredths. A block of parts shares these otherwise among the units: the rate of the
// filter is that of Rate, and those of its units are in the header. Filters of one unit, of one page, with a Ribbon
// unit, or of so low a rate that the uneven number of keys in parts would show in it, are built as without it.
func (p Params) SideBySide() Params {
	p.sideBySide = p.n > 1 && !p.ribbon
	return p
}

// Rate returns the promised false positive rate, the product over the units: an upper bound, with many keys at most 1 %
// above the exact rate of each unit. It is 1 without units.
func (p Params) Rate() float64 {
	rate := 1.0 // multiplied in the order in which units are added, so that a rate found low enough is found so again
	for _, r := range p.rates[:p.n] {
		rate *= r
	}
	return rate
}

// Leading returns the filter of the first n units alone, 0 to all of them.
func (p Params) Leading(n int) Params {
	q := Params{n: n, ribbon: p.ribbon && n > 0, sideBySide: p.sideBySide && n > 1}
	copy(q.units[:], p.units[:n])
	copy(q.rates[:], p.rates[:n])
	return q
}

// BitsPerKey returns the size of a filter of many keys. Few keys take more, since each unit is a whole number of
// 64-byte blocks; the HeaderSize bytes of the header are not included.
func (p Params) BitsPerKey() float64 {
	sum := 0.0
	for i, u := range p.units[:p.n] {
		if i == 0 && p.ribbon {
			sum += ribbonBits(p.rates[0])
		} else {
			sum += u.BitsPerKey
		}
	}
	return sum
}

func checkRate(rate float64) error {
	if !(rate >= BestRate) { // also refuses NaN
		return fmt.Errorf("%w: %v, the best a filter can promise is %v", ErrRate, rate, BestRate)
	}
	return nil
}

// ParamsFor returns the cheapest filter whose rate is at most rate. A rate of 1 or more means no filter. A rate below
// BestRate, or one that is not a number, is an error that names BestRate and matches ErrRate.
//
// Bits per key are multiples of 1/32, a further unit must save a whole bit per key, and among filters of equal size
// the one with the fewest probes is chosen. Probes are listed for each unit.
//
//	rate   bits/key  units  probes    promised
//	0.5        1.47      1  1         4.95e-01
//	0.25       2.91      1  2         2.49e-01
//	0.1        4.84      1  3         9.98e-02
//	0.05       6.34      1  4         4.95e-02
//	0.025      7.84      1  5         2.49e-02
//	0.01       9.94      1  6         9.92e-03
//	0.005     11.56      1  7         4.95e-03
//	0.0025    13.22      1  8         2.50e-03
//	0.001     15.56      1  9         9.94e-04
//	0.0005    16.19      2  5 5       5.00e-04
//	0.0001    19.84      2  6 6       9.98e-05
//	1e-05     25.28      2  8 8       9.98e-06
//	1e-06     29.78      3  6 6 6     9.90e-07
//	1e-07     35.19      3  7 7 7     9.89e-08
//	1e-08     40.78      3  8 8 8     9.97e-09
//	1e-09     46.66      3  9 9 9     9.93e-10
func ParamsFor(rate float64) (Params, error) {
	if err := checkRate(rate); err != nil {
		return Params{}, err
	}
	var best Params
	if rate >= 1 {
		return best, nil
	}
	for n := 1; n <= MaxUnits; n++ {
		p, ok := Params{}.withUnits(n, rate)
		if ok && (best.n == 0 || p.cheaper(best)) {
			best = p
		}
	}
	return best, nil
}

// cheaper compares by size, where each unit adds unitCost, and then by probes.
func (p Params) cheaper(q Params) bool {
	cost := func(p Params) float64 { return p.BitsPerKey() + float64(p.n)*unitCost }
	if cp, cq := cost(p), cost(q); cp != cq {
		return cp < cq
	}
	return p.probes() < q.probes()
}

func (p Params) probes() int {
	sum := 0
	for _, u := range p.units[:p.n] {
		sum += u.Probes
	}
	return sum
}

// withUnits adds n units to p so that its rate is at most rate. All have about the same size, since the logarithm of a
// unit's rate is convex in its bits; the last makes up for the rounding of the others.
func (p Params) withUnits(n int, rate float64) (Params, bool) {
	for ; n > 0; n-- {
		each := math.Pow(rate/p.Rate(), 1/float64(n)) * (1 - 1e-15) // so that rounded products do not exceed the rate
		first := sort.Search(len(table), func(i int) bool { return table[i].Rate <= each })
		if first == len(table) {
			return Params{}, false
		}
		p.add(fitted(first, each))
	}
	return p, true
}

// fitted returns the unit with the fewest bits whose rate is at most rate, and its rate. The first row of the table
// that keeps the rate has the given index. From one row to the next with equal probes the logarithm of the rate is
// convex in the bits, so a straight line is an upper bound: it is at most 0.8 % too high, with ten bits a key 0.1 %.
func fitted(first int, rate float64) (Unit, float64) {
	const rounding = 1e-6 // more than a float32 adds
	least, promised := table[first].Unit, table[first].Rate
	most := least.BitsPerKey
	for _, high := range table[first:] {
		if high.BitsPerKey > most {
			break
		}
		for i := first - 1; i >= 0 && table[i].BitsPerKey >= most-rowBits; i-- {
			low := table[i]
			if low.Probes != high.Probes || low.BitsPerKey == most {
				continue
			}
			fall := math.Log(low.Rate / high.Rate)
			steps := math.Ceil((math.Log(low.Rate/rate) + rounding) / fall * rowSteps)
			if bits := low.BitsPerKey + rowBits*steps/rowSteps; bits < least.BitsPerKey {
				least = Unit{BitsPerKey: bits, Probes: low.Probes}
				promised = rounded(low.Rate * math.Exp(-fall*steps/rowSteps))
			}
		}
	}
	return least, promised
}

// rounded returns a rate rounded up: processors differ in the last bits of an exponential, and a block has the same
// bytes on all of them.
func rounded(rate float64) float64 { return float64(math.Nextafter32(float32(rate), 1)) }

// ParamsSplit returns the cheapest filter with the given number of units, 1 to MaxUnits, whose rate is at most rate.
// The units have nearly the same size, so that two thirds or one third of the filter can be loaded. A rate of 1 or
// more means no filter. Errors are ErrRate for a rate out of range and ErrParams for another number of units.
func ParamsSplit(units int, rate float64) (Params, error) {
	if units < 1 || units > MaxUnits {
		return Params{}, fmt.Errorf("%w: %d units, want 1..%d", ErrParams, units, MaxUnits)
	}
	if err := checkRate(rate); err != nil {
		return Params{}, err
	}
	if rate >= 1 {
		return Params{}, nil
	}
	p, ok := Params{}.withUnits(units, rate)
	if !ok {
		return Params{}, fmt.Errorf("%w: %v, the best of %d units of at most %d bits per key is %.2g",
			ErrRate, rate, units, maxUnitBits, math.Pow(table[len(table)-1].Rate, float64(units)))
	}
	return p, nil
}

// ParamsNested returns a filter for a table that may move to levels where a higher rate is enough. The rates descend,
// one to MaxUnits of them. For each i the first Header.UnitsFor(rates[i]) units have a rate of at most rates[i], so
// that a table which moves drops whole units and keeps the rest. A rate of 1 or more needs no unit.
//
// Each step is one unit, so neighbouring rates may be at most a factor of 10⁵ apart. Errors are ErrRate for a rate out
// of range and ErrParams for rates that are too many, too few or ascending.
func ParamsNested(rates ...float64) (Params, error) { return nested(Params{}, rates) }

// ParamsRibbon returns a filter like ParamsNested whose first unit takes the least memory: a Ribbon unit of exactly
// that rate, or a Bloom unit in a table of fewer than about a thousand keys, where that is smaller. A Ribbon takes
// about 50 ns a key to build, where a Bloom unit takes 10, and about 10 ns more to probe; other units are probed
// before it. For a first rate of 0.5 or more, where a Bloom unit is smaller, the result is that of ParamsNested. A
// rate below BestRibbonRate is ErrRate.
func ParamsRibbon(rates ...float64) (Params, error) {
	if len(rates) == 0 || !(rates[0] < leastRibbonRate) {
		return ParamsNested(rates...)
	}
	if !(rates[0] >= BestRibbonRate) {
		return Params{}, fmt.Errorf("%w: %v, the best of a Ribbon unit is %v", ErrRate, rates[0], BestRibbonRate)
	}
	p, _ := Params{}.withUnits(1, rates[0])
	p.rates[0], p.ribbon = rates[0], true
	return nested(p, rates)
}

// nested adds units to p until each rate is met.
func nested(p Params, rates []float64) (Params, error) {
	if len(rates) == 0 || len(rates) > MaxUnits {
		return Params{}, fmt.Errorf("%w: %d nested rates, want 1..%d", ErrParams, len(rates), MaxUnits)
	}
	for i, rate := range rates {
		if err := checkRate(rate); err != nil {
			return Params{}, err
		}
		if i > 0 && rate > rates[i-1] {
			return Params{}, fmt.Errorf("%w: nested rate %v after %v, want descending ones",
				ErrParams, rate, rates[i-1])
		}
		if p.Rate() <= rate {
			continue
		}
		q, ok := p.withUnits(1, rate)
		if !ok {
			return Params{}, fmt.Errorf("%w: %v in one unit after %v, the best is %v", ErrRate, rate, p.Rate(),
				p.Rate()*table[len(table)-1].Rate)
		}
		p = q
	}
	return p, nil
}
