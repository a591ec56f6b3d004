package inspect

import (
	"fmt"
	"math"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/words"
)

// planOf returns the plan by the options that the store was last written with. It returns nil if the manifest has no
// options, as in an earlier version, or options that this version does not accept, or FilterMemory, whose plan
// depends on what the running store has loaded.
func planOf(s *manifest.State) *Plan {
	f := s.Filters
	if f == nil || f.Memory > 0 {
		return nil
	}
	p := &Plan{
		FPR: f.FPR, Kind: kindName(f.Kind), Ratio: int(f.Ratio),
		Prefix: words.Escaped([]byte(f.Prefix), words.KeyLimit),
	}
	kind := bloomkv.FilterKind(f.Kind)
	o := filterplan.Options{FPR: f.FPR, Ribbon: kind == bloomkv.FilterRibbon, Ratio: int(f.Ratio)}
	_, levels, err := o.PlanTree(nil)
	switch {
	case err != nil || kind > bloomkv.FilterRibbon:
		return nil
	case f.FPR == 1:
		p.Kind, p.Prefix = "none", ""
	}
	for _, l := range levels {
		p.Levels = append(p.Levels, PlanLevel{l.Level, l.FPR, l.Predicted, l.BitsPerKey})
	}
	return p
}

// count counts a table that was read, by the same rules as the store: a table without versions has no filter that is
// used.
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

// kindName returns Options.FilterKind in a word.
func kindName(kind uint8) string {
	switch bloomkv.FilterKind(kind) {
	case bloomkv.FilterBloom:
		return "bloom"
	case bloomkv.FilterRibbon:
		return "ribbon"
	}
	return fmt.Sprintf("kind %d", kind) // from a later version
}

// has reports whether a table on a level whose filter promises a rate follows the plan. The table was written on that
// level or above, since tables only move down.
func (p *Plan) has(level int, rate float64) bool {
	for _, l := range p.Levels[:level+1] {
		if math.Abs(rate/l.Predicted-1) < 1e-9 { // processors round differently
			return true
		}
	}
	return false
}
