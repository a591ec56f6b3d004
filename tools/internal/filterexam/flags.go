package filterexam

import (
	"fmt"
	"math"
)

// A FlagName names a fault of a filter. The names do not change.
type FlagName string

const (
	Damaged         FlagName = "damaged"          // a field or a checksum is wrong
	AbovePromise    FlagName = "above-promise"    // the rate from the bits exceeds the promised one by more than chance
	Saturated       FlagName = "saturated"        // as above, and far more than half of the bits are set
	KeysDiffer      FlagName = "keys-differ"      // the bits are those of another number of keys than in the header
	FillOff         FlagName = "fill-off"         // the share of set bits is not that of the number of keys
	SpreadOff       FlagName = "spread-off"       // blocks differ less, or more, than by chance
	PositionsUneven FlagName = "positions-uneven" // some of the 512 positions in a block are set more often than others
	RegionsUneven   FlagName = "regions-uneven"   // some range of blocks is fuller than others
	WorstBlockOff   FlagName = "worst-block"      // a block is fuller than any should be
	DensityOff      FlagName = "density-off"      // a Ribbon unit's bits are not half set
	ProbesDependent FlagName = "probes-dependent" // the measured rate exceeds that from the bits by a tenth or more
	MeasuredOff     FlagName = "measured-off"     // the measured rate is not that from the bits
)

// A Flag reports a figure that is off.
type Flag struct {
	Name    FlagName `json:"name"`
	Meaning string   `json:"meaning"` // a sentence or two, with the figures
}

func flagged(name FlagName, format string, args ...any) Flag {
	return Flag{name, fmt.Sprintf(format, args...)}
}

// FarOff is the number of standard errors from which a figure is flagged. Chance exceeds it once in 3,500,000 times,
// and rarely in figures with a longer tail.
const FarOff = 5.0

const (
	// judgedBlocks is the least number of blocks for which a unit's figures are close enough to normal for FarOff.
	judgedBlocks = 32

	farChance    = 3e-7 // probability of as many hits by chance: that of FarOff for many hits
	dependentBy  = 1.1  // times the rate from the bits
	dependentOff = 3e-5 // and at most this probability: that of four standard errors
	saturatedAt  = 0.6  // of the bits set; the best filter has half of them set
	aboveBy      = 1.02 // times the promised rate
)

// judge flags the figures of a unit that are off. Units of few blocks are judged only by their answers and their
// promise.
func (u *UnitExam) judge(keys uint64) {
	flag := func(name FlagName, format string, args ...any) {
		u.Flags = append(u.Flags, flagged(name, format, args...))
	}
	off := func(s *Stat) bool { return s != nil && math.Abs(s.Z) > FarOff && u.Blocks >= judgedBlocks }
	if fill := u.fill(); u.FromBits > aboveBy*u.Promised && u.FromBits-u.Promised > FarOff*u.chance {
		if fill > saturatedAt {
			flag(Saturated, "%.1f %% of the bits are set, and absent keys pass %.3g times as often as promised: "+
				"the unit holds more keys than it was sized for", 100*fill, u.FromBits/u.Promised)
		} else {
			flag(AbovePromise, "by the bits, absent keys pass %.3g times as often as promised", u.FromBits/u.Promised)
		}
	}
	if s := u.NumKeys; off(s) {
		what := "there are more keys than were counted"
		if s.Z < 0 {
			what = "keys are missing and would be denied"
		}
		flag(KeysDiffer, "the bits are those of %.0f keys, the header has %d: %s", s.Got, keys, what)
	}
	if s := u.SetBits; off(s) {
		flag(FillOff, "a block has %.2f bits set on average, want %.2f: another number of keys or of probes",
			s.Got, s.Want)
	}
	if s := u.Spread; off(s) {
		flag(SpreadOff, "the set bits of blocks vary by %.2f, want %.2f: "+
			"the hash does not spread keys over blocks at random", s.Got, s.Want)
	}
	if s := u.Positions; off(s) {
		flag(PositionsUneven, "chi-square %.0f over the positions in a block, want %.0f: "+
			"the low bits of the hash are not random", s.Got, s.Want)
	}
	if s := u.Evenness; off(s) {
		flag(RegionsUneven, "chi-square %.0f over %d ranges of blocks, want %.0f: "+
			"the high bits of the hash are not random", s.Got, len(u.Regions), s.Want)
	}
	if w := u.Worst; w != nil && w.Chance < 1e-6 {
		flag(WorstBlockOff, "block %d has %d bits set, which by chance happens in one of %.3g filters",
			w.Index, w.Set, 1/max(w.Chance, 1e-300))
	}
	if s := u.Density; off(s) {
		flag(DensityOff, "%.2f %% of the bits are set, want 50: they do not solve the equations of random keys",
			100*s.Got)
	}
	u.Flags = append(u.Flags, u.Measured.judge(u.FromBits)...)
}

// fill returns the share of bits that are set.
func (u *UnitExam) fill() float64 {
	if u.SetBits != nil {
		return u.SetBits.Got / blockBits
	}
	return u.Density.Got
}

// judge flags a measured rate that differs from that of the bits.
func (m *Measured) judge(bits float64) []Flag {
	switch {
	case m.Rate >= dependentBy*bits && m.chance(bits) < dependentOff:
		return []Flag{flagged(ProbesDependent, "%d of %d random hashes pass, "+
			"%.3g times the number expected from the bits: the probes of a key depend on each other",
			m.Maybe, m.Probes, m.Rate/bits)}
	case m.chance(bits) < farChance:
		return []Flag{flagged(MeasuredOff, "%d of %d random hashes pass, %.3g times the number expected from the bits",
			m.Maybe, m.Probes, m.Rate/bits)}
	}
	return nil
}

// judge flags what is off in the whole filter but in no single unit, and collects the flags of its units.
func (e *Exam) judge() {
	if len(e.Units) > 1 {
		e.Flags = append(e.Flags, e.Measured.judge(e.FromBits)...)
	}
	for i := range e.Units {
		for _, f := range e.Units[i].Flags {
			e.Flags = append(e.Flags, flagged(f.Name, "unit %d: %s", i, f.Meaning))
		}
	}
}
