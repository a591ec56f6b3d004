package inspect

import (
	"math"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

const (
	mostTables = 64      // in an Overlap; above that, runs are compared
	mostPairs  = 1 << 13 // of tables that are compared, about 20 µs each
)

// A common is the number of keys that two tables or two runs have in common.
type common struct {
	keys, variance float64
	known          bool // for everything in the sum
}

// A pair consists of two tables in different runs whose ranges overlap. a is the newer one.
type pair struct{ a, b *member }

// compare estimates the number of keys in common. It asks the sample of each table in the filter of the other, and
// returns the answer with the smaller error.
func (p pair) compare() (best common) {
	for _, of := range [...]pair{p, {p.b, p.a}} {
		if of.a.sample == nil || of.b.filter == nil {
			continue
		}
		o := of.a.sample.Overlap(of.b.filter)
		n := float64(of.a.keys())
		if c := (common{n * o.Share, n * o.Err * n * o.Err, o.Known}); c.known &&
			(!best.known || c.variance < best.variance) {
			best = c
		}
	}
	best.keys = min(best.keys, float64(p.a.keys()), float64(p.b.keys()))
	return best
}

// pairs returns all pairs.
func (t *tree) pairs() (all []pair) {
	for i, r := range t.runs {
		for _, a := range r.members {
			for _, older := range t.runs[i+1:] {
				for _, b := range a.touching(older) {
					all = append(all, pair{a, b})
				}
			}
		}
	}
	return all
}

// overlap compares the tables and determines where the keys of each lie that no older run has. If there are many
// pairs, it compares an evenly spaced selection and scales the results.
func (t *tree) overlap() *Overlap {
	o := &Overlap{Of: "tables", Members: []OverlapMember{}, Pairs: []OverlapPair{}}
	index := map[*member]int{} // of o.Members
	if len(t.members) > mostTables {
		o.Of = "runs"
	}
	for _, r := range t.runs {
		for i, m := range r.members {
			if o.Of == "tables" {
				o.Members = append(o.Members, OverlapMember{Level: r.level, Run: r.id, File: m.facts.File})
			} else if i == 0 {
				o.Members = append(o.Members, OverlapMember{Level: r.level, Run: r.id})
			}
			index[m] = len(o.Members) - 1
			o.Members[index[m]].Keys += m.keys()
		}
	}
	all := t.pairs()
	step := (len(all) + mostPairs - 1) / mostPairs
	type ofRun struct {
		m *member
		r *memberRun
	}
	inOlder := map[ofRun]float64{} // keys
	sums := map[[2]int]common{}    // of members of o, the newer one first
	for i := 0; i < len(all); i += max(step, 1) {
		p := all[i]
		c, times, at := p.compare(), float64(step), [2]int{index[p.a], index[p.b]}
		inOlder[ofRun{p.a, p.b.run}] += times * c.keys
		sum, more := sums[at]
		sums[at] = common{sum.keys + times*c.keys, sum.variance + times*c.variance, c.known && (sum.known || !more)}
	}
	for i, r := range t.runs {
		for _, m := range r.members {
			m.spread(t.runs[i+1:], func(r *memberRun) float64 { return inOlder[ofRun{m, r}] })
		}
	}
	if len(t.runs) < 2 {
		return nil
	}
	for a := range o.Members {
		for b := a + 1; b < len(o.Members); b++ {
			c := sums[[2]int{a, b}]
			if !c.known {
				continue
			}
			for _, d := range [...][2]int{{a, b}, {b, a}} {
				n := float64(max(o.Members[d[0]].Keys, 1))
				o.Pairs = append(o.Pairs, OverlapPair{d[0], d[1], min(c.keys/n, 1), math.Sqrt(c.variance) / n})
			}
		}
	}
	t.predict(o)
	return o
}

// tableMembers has the members of a tree by their tables, for compaction.Predict.
type tableMembers map[*manifest.Table]*member

// Sample returns the sample of a table's keys, or nil.
func (m tableMembers) Sample(t *manifest.Table) *bloomblock.Sample { return m[t].sample }

// Filter returns the filter of a table, or nil.
func (m tableMembers) Filter(t *manifest.Table) *bloomblock.Filter { return m[t].filter }

// predict adds what a compaction of everything would write.
func (t *tree) predict(o *Overlap) {
	of, entries := tableMembers{}, 0.0
	for _, m := range t.members {
		of[m.meta] = m
		entries += float64(m.meta.Entries)
	}
	p := compaction.Predict(t.version, of)
	if p.Known {
		o.Known, o.Written, o.Err, o.Garbage = true, p.Keys, p.Err, max(entries-p.Keys, 0)
	}
}
