package bloomblock

import (
	"fmt"
	"math"
)

// A FlagName is what a filter may have against it. The names do not change.
type FlagName string

const (
	Damaged         FlagName = "damaged"          // a field or a checksum is wrong
	AbovePromise    FlagName = "above-promise"    // the rate from the bits is above the promised one by more than chance
	Saturated       FlagName = "saturated"        // and far more than half of the bits are set
	KeysDiffer      FlagName = "keys-differ"      // the bits are of another number of keys than the header says
	FillOff         FlagName = "fill-off"         // another share of the bits is set than so many keys would set
	SpreadOff       FlagName = "spread-off"       // blocks are more alike, or less, than chance makes them
	PositionsUneven FlagName = "positions-uneven" // some of the 512 positions in a block are set more often than others
	RegionsUneven   FlagName = "regions-uneven"   // some stretch of blocks is fuller than others
	WorstBlockOff   FlagName = "worst-block"      // a block is fuller than any should be
	DensityOff      FlagName = "density-off"      // a Ribbon unit's bits are not half set
	ProbesDependent FlagName = "probes-dependent" // the measured rate is a tenth or more above that from the bits
	MeasuredOff     FlagName = "measured-off"     // the measured rate is not that from the bits
)

// A Flag says what is off by more than it should be.
type Flag struct {
	Name    FlagName `json:"name"`
	Meaning string   `json:"meaning"` // a sentence or two, with the figures
}

func flagged(name FlagName, format string, args ...any) Flag {
	return Flag{name, fmt.Sprintf(format, args...)}
}

// FarOff is how many standard errors a figure may be off without a flag; chance goes as far once in 3,500,000 times, and in what has
// a longer tail still rarely.
const FarOff = 5.0

const (
	// judgedBlocks is how many blocks a unit needs for its figures to be near enough to normal that FarOff means that.
	judgedBlocks = 32

	farChance    = 3e-7 // of as many hits by chance: what FarOff is where they are many
	dependentBy  = 1.1  // times the rate from the bits
	dependentOff = 3e-5 // and a chance of so much at most: that of four standard errors
	saturatedAt  = 0.6  // of the bits set; at a filter's best half of them are
	aboveBy      = 1.02 // times the promised rate
)

// judge flags what is off in a unit. Units of few blocks are judged by what they answer and by their promise alone.
func (u *UnitExam) judge(keys uint64) {
	say := func(name FlagName, format string, args ...any) {
		u.Flags = append(u.Flags, flagged(name, format, args...))
	}
	off := func(s *Stat) bool { return s != nil && math.Abs(s.Z) > FarOff && u.Blocks >= judgedBlocks }
	if fill := u.fill(); u.FromBits > aboveBy*u.Promised && u.FromBits-u.Promised > FarOff*u.chance(keys) {
		if fill > saturatedAt {
			say(Saturated, "%.1f %% of the bits are set, and lookups pass %.3g times as often as promised: the unit holds more keys than it was sized for",
				100*fill, u.FromBits/u.Promised)
		} else {
			say(AbovePromise, "lookups pass %.3g times as often as promised, by the bits", u.FromBits/u.Promised)
		}
	}
	if s := u.NumKeys; off(s) {
		if s.Z < 0 {
			say(KeysDiffer, "the bits are those of %.0f keys, the header says %d: keys are missing, and would be denied", s.Got, keys)
		} else {
			say(KeysDiffer, "the bits are those of %.0f keys, the header says %d: there are more than were counted", s.Got, keys)
		}
	}
	if s := u.SetBits; off(s) {
		say(FillOff, "a block has %.2f bits set on average, want %.2f: another number of keys or of probes", s.Got, s.Want)
	}
	if s := u.Spread; off(s) {
		say(SpreadOff, "the set bits of blocks vary by %.2f, want %.2f: the hash spreads keys over blocks otherwise than by chance", s.Got, s.Want)
	}
	if s := u.Positions; off(s) {
		say(PositionsUneven, "chi-square %.0f over the positions in a block, want %.0f: the low bits of the hash are not random", s.Got, s.Want)
	}
	if s := u.Evenness; off(s) {
		say(RegionsUneven, "chi-square %.0f over %d stretches of blocks, want %.0f: the high bits of the hash are not random", s.Got, len(u.Regions), s.Want)
	}
	if w := u.Worst; w != nil && w.Chance < 1e-6 {
		say(WorstBlockOff, "block %d has %d bits set, which chance gives to one of so many once in %.3g filters", w.Index, w.Set, 1/max(w.Chance, 1e-300))
	}
	if s := u.Density; off(s) {
		say(DensityOff, "%.2f %% of the bits are set, want 50: they are not what the equations of random keys leave", 100*s.Got)
	}
	u.Flags = append(u.Flags, u.Measured.judge(u.FromBits)...)
}

// fill is the share of bits that are set.
func (u *UnitExam) fill() float64 {
	if u.SetBits != nil {
		return u.SetBits.Got / blockBits
	}
	return u.Density.Got
}

// chance is the standard deviation of the rate from the bits of a Bloom unit. A Ribbon unit has been measured when it was built.
func (u *UnitExam) chance(keys uint64) float64 {
	if u.Columns > 0 {
		return 0
	}
	return math.Sqrt(theoryOf(keys, u.Blocks, u.Probes).rateVar())
}

// judge flags answers that are not those of the bits.
func (m *Measured) judge(bits float64) []Flag {
	switch {
	case m.Rate >= dependentBy*bits && m.chance(bits) < dependentOff:
		return []Flag{flagged(ProbesDependent, "%d of %d random hashes pass, %.3g times as many as the bits let expect: the probes of a key depend on each other",
			m.Maybe, m.Probes, m.Rate/bits)}
	case m.chance(bits) < farChance:
		return []Flag{flagged(MeasuredOff, "%d of %d random hashes pass, %.3g of what the bits let expect", m.Maybe, m.Probes, m.Rate/bits)}
	}
	return nil
}

// judge flags what is off in the whole filter and in no unit by itself, and gathers what its units have.
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
