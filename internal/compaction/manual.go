package compaction

import (
	"bytes"
	"slices"

	"github.com/bloomkv/bloomkv/internal/manifest"
)

// A Manual merges all that the tree holds of a range of keys into the last level, plan by plan. It works down level
// by level, and through each level once from the first key to the last. So it ends even while snapshots keep
// tombstones in place or new data comes in above. It is for one goroutine at a time.
type Manual struct {
	Lo, Hi []byte // inclusive; a nil Hi is infinite
	UpTo   uint64 // runs of level 0 with this number or a larger one are left alone

	// Rewrite rewrites all tables that come to the last level or stay there, except those whose number is UpTo or
	// larger.
	Rewrite bool

	level int
	from  []byte // within level, where to continue; nil means Lo
}

// Next returns the next plan, or nil when all is done. After a plan was carried out, Done must be called with it.
func (m *Manual) Next(v Shape, policy Policy) *Plan {
	for ; m.level <= last; m.level, m.from = m.level+1, nil {
		b := manifest.Bounds{Lo: m.Lo, Hi: m.Hi}
		if m.from != nil {
			b.Lo = m.from
		}
		var p *Plan
		switch m.level {
		case 0:
			old := func(r manifest.Run) bool { return r.ID < m.UpTo && len(r.Touching(b)) > 0 }
			if slices.ContainsFunc(v.Levels[0], old) {
				p = v.mergeLevel0(policy.Backlog(v.Version).Base)
			}
		case last:
			p = v.rewriteLast(b, func(t *manifest.Table) bool {
				return leftover(t) || v.outdated(last, t) || m.Rewrite && t.Number < m.UpTo
			})
		default:
			if p = v.chunk(m.level, b); p != nil && m.Rewrite && p.To == last {
				p.Move = false
			}
		}
		if p != nil {
			return p
		}
	}
	return nil
}

// Done continues behind the tables that a plan has taken from its level. Level 0 is done when nothing old is left.
func (m *Manual) Done(p *Plan) {
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

// chunk merges the tables of a level within b into the next one, as many as one plan should take, or returns nil.
func (v *Shape) chunk(level int, b manifest.Bounds) *Plan {
	in := v.overlapping(level, b)
	if len(in) == 0 {
		return nil
	}
	tables, size, n := in[0].Tables, uint64(0), 0
	for ; n < len(tables) && size < maxStep; n++ {
		size += tables[n].Size + bytesOf(v.overlapping(level+1, tables[n].Bounds()))
	}
	in[0].Tables = tables[:n:n]
	if len(v.overlapping(level+1, boundsOfTables(in[0].Tables))) == 0 { // nothing is merged: tables may move
		in[0].Tables = v.alike(in[0].Tables, level+1)
	}
	return v.down(level+1, in...)
}

// alike returns the leading tables that are all movable to the level, or all not.
func (v *Shape) alike(tables []*manifest.Table, to int) []*manifest.Table {
	moves := v.movable(tables[:1], to)
	n := slices.IndexFunc(tables, func(t *manifest.Table) bool { return v.movable([]*manifest.Table{t}, to) != moves })
	if n < 0 {
		return tables
	}
	return tables[:n:n]
}
