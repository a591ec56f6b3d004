package inspect

import (
	"fmt"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

// planOf is the plan that the manifest has the options of: those that the store was last written with. Nil is no options there, as
// in a manifest of an earlier version, or options that this version does not take; or FilterMemory, whose plan follows from what
// the running store has loaded.
func planOf(s *manifest.State) *Plan {
	f := s.Filters
	if f == nil || f.Memory > 0 {
		return nil
	}
	p := &Plan{FPR: f.FPR, Kind: kindName(f.Kind), Ratio: int(f.Ratio)}
	o := &bloomkv.Options{FilterFPR: f.FPR, FilterKind: bloomkv.FilterKind(f.Kind), LevelRatio: int(f.Ratio)}
	_, levels, err := bloomkv.PlanTree(nil, o)
	switch {
	case err != nil:
		return nil
	case f.FPR == 1:
		p.Kind = "none"
	}
	for _, l := range levels {
		p.Levels = append(p.Levels, PlanLevel{l.Level, l.FPR, l.Predicted, l.BitsPerKey})
	}
	for level, t := range s.Version.Tables() {
		if t.Entries > 0 && p.has(level, t.FilterRate) {
			p.Tables++
		} else if t.Entries > 0 {
			p.Others++
		}
	}
	return p
}

// kindName is Options.FilterKind in a word.
func kindName(kind uint8) string {
	switch bloomkv.FilterKind(kind) {
	case bloomkv.BloomFilter:
		return "bloom"
	case bloomkv.RibbonFilter:
		return "ribbon"
	}
	return fmt.Sprintf("kind %d", kind) // of a later version
}

// has says whether a table on a level whose filter promises a rate is of the plan: it was written there, or above, as tables move down
// and never up.
func (p *Plan) has(level int, rate float64) bool {
	for _, l := range p.Levels[:level+1] {
		if l.Predicted == rate {
			return true
		}
	}
	return false
}
