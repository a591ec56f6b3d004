package inspect

import (
	"fmt"
	"math"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/words"
)

// planOf is the plan that the manifest has the options of: those that the store was last written with. Nil is no options there, as
// in a manifest of an earlier version, or options that this version does not take; or FilterMemory, whose plan follows from what
// the running store has loaded.
func planOf(s *manifest.State) *Plan {
	f := s.Filters
	if f == nil || f.Memory > 0 {
		return nil
	}
	p := &Plan{FPR: f.FPR, Kind: kindName(f.Kind), Ratio: int(f.Ratio), Prefix: words.Escaped([]byte(f.Prefix), words.KeyLimit)}
	o := &bloomkv.Options{FilterFPR: f.FPR, FilterKind: bloomkv.FilterKind(f.Kind), LevelRatio: int(f.Ratio)}
	_, levels, err := bloomkv.PlanTree(nil, o)
	switch {
	case err != nil:
		return nil
	case f.FPR == 1:
		p.Kind, p.Prefix = "none", ""
	}
	for _, l := range levels {
		p.Levels = append(p.Levels, PlanLevel{l.Level, l.FPR, l.Predicted, l.BitsPerKey})
	}
	return p
}

// count counts a table that was read, as the store itself does: one without versions has no filter that anybody asks.
func (p *Plan) count(m *member) {
	rule := ""
	if x := m.facts.Prefix; x != nil {
		rule = x.Rule
	}
	switch {
	case m.meta.Entries == 0:
	case p.has(m.level, m.meta.FilterRate) && (rule == p.Prefix || m.facts.unread):
		p.Tables++
	default:
		p.TablesOffPlan++
		p.BytesOffPlan += m.meta.Size
	}
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
		if math.Abs(rate/l.Predicted-1) < 1e-9 { // processors round differently
			return true
		}
	}
	return false
}
