package compaction

import (
	"bytes"
	"slices"

	"github.com/bloomkv/bloomkv/internal/manifest"
)

// maxAsked is about how many bytes one plan of a Manual takes from a level, and of the level below, so that what the tree
// needs gets its turn in between.
const maxAsked = 256 << 20

// A Manual merges all that the tree holds of a range of keys into the last level, plan by plan. It goes down level by level,
// and through each level from the first key to the last once, so that it ends, also while snapshots keep tombstones where
// they are or new data comes in above. It is for one goroutine at a time.
type Manual struct {
	Lo, Hi []byte // inclusive; a nil Hi is infinite
	UpTo   uint64 // runs of level 0 with this number or a larger one stay out of it

	// Rewrite rewrites all tables that come to the last level or stay there, except those whose number is UpTo or larger.
	Rewrite bool

	level int
	from  []byte // within level, where to go on; nil is Lo
}

// Next is the next plan, or nil when all is done. It counts on the plans before having been carried out.
func (m *Manual) Next(v *manifest.Version, o Options) *Plan {
	for ; m.level <= last; m.level, m.from = m.level+1, nil {
		b := manifest.Bounds{Lo: m.Lo, Hi: m.Hi}
		if m.from != nil {
			b.Lo = m.from
		}
		var p *Plan
		switch m.level {
		case 0:
			p = m.newest(v, o, b)
		case last:
			p = pickLeftovers(v, b, func(t *manifest.Table) bool {
				return leftover(t) || o.outdated(last, t) || m.Rewrite && t.Number < m.UpTo
			})
		default:
			if p = o.chunk(v, m.level, b); p != nil && m.Rewrite && p.To == last {
				p.Move = false
			}
		}
		if p != nil {
			m.pass(p)
			return p
		}
	}
	return nil
}

// newest merges level 0, as long as it holds something old enough.
func (m *Manual) newest(v *manifest.Version, o Options, b manifest.Bounds) *Plan {
	base, _ := Targets(v, o)
	for _, r := range v.Levels[0] {
		if r.ID < m.UpTo && len(r.Touching(b)) > 0 {
			return o.pickNewest(v, base)
		}
	}
	return nil
}

// chunk merges what a level has within b into the next one, as much as one plan should, or is nil.
func (o *Options) chunk(v *manifest.Version, level int, b manifest.Bounds) *Plan {
	in := closed(v, level, b)
	if len(in) == 0 {
		return nil
	}
	if len(v.Levels[level]) == 1 {
		tables, size, n := in[0].Tables, uint64(0), 0
		for ; n < len(tables) && size < maxAsked; n++ {
			size += tables[n].Size + bytesOf(overlapping(v, level+1, tables[n].Bounds()))
		}
		in[0].Tables = tables[:n:n]
		if len(overlapping(v, level+1, bounds(in[0].Tables))) == 0 { // nothing is merged: tables that can be moved are
			in[0].Tables = o.alike(in[0].Tables, level+1)
		}
	}
	return o.down(v, level+1, in...)
}

// alike is the tables up to the first that can be moved to the level while the one before can't, or the other way round.
func (o *Options) alike(tables []*manifest.Table, to int) []*manifest.Table {
	moves := o.movable(tables[:1], to)
	n := slices.IndexFunc(tables, func(t *manifest.Table) bool { return o.movable([]*manifest.Table{t}, to) != moves })
	if n < 0 {
		return tables
	}
	return tables[:n:n]
}

// pass goes on behind the tables that a plan takes from its level. Level 0 is done when nothing old is left in it.
func (m *Manual) pass(p *Plan) {
	if m.level == 0 {
		return
	}
	var in []Input
	for _, i := range p.Inputs {
		if i.Level == m.level {
			in = append(in, i)
		}
	}
	switch b := boundsOf(in); {
	case b.Hi == nil:
		m.level, m.from = m.level+1, nil
	case b.Exclusive:
		m.from = bytes.Clone(b.Hi)
	default:
		m.from = append(bytes.Clone(b.Hi), 0)
	}
}
