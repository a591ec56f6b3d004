package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bloomkv/bloomkv/internal/picture"
)

// name is a member in words.
func (m *OverlapMember) name() string {
	if m.File != "" {
		return strings.TrimSuffix(m.File, ".sst")
	}
	return fmt.Sprintf("level %d, run %d", m.Level, m.Run)
}

// section draws what parts of the tree have in common.
func (o *Overlap) section() picture.Section {
	n := len(o.Members)
	g := &picture.Grid{Labels: true, Scale: picture.Scale{High: 1, Unknown: "nothing to compare"}}
	for i := range o.Members {
		row := make([]float64, n)
		for j := range row {
			row[j] = picture.NoValue
		}
		g.Values = append(g.Values, row)
		g.Rows = append(g.Rows, o.Members[i].name())
	}
	g.Columns = g.Rows
	pairs := &grid{head: []string{"of", "keys", "are in", "share", "± error"}}
	for _, p := range o.Pairs {
		g.Values[p.A][p.B] = p.Share
	}
	largest := slices.Clone(o.Pairs)
	slices.SortStableFunc(largest, func(a, b OverlapPair) int { return cmp.Compare(b.Share, a.Share) })
	for _, p := range largest[:min(pagePairs, len(largest))] {
		a := &o.Members[p.A]
		pairs.add(a.name(), strconv.FormatUint(a.Keys, 10), o.Members[p.B].name(), percent(p.Share), percent(p.Err))
	}
	s := picture.Section{ID: "overlap", Heading: "What " + o.Of + " have in common", Text: capital(o.line()) + "."}
	if n > 0 && len(o.Pairs) > 0 {
		s.Charts = []picture.Chart{{
			Name: "overlap", Title: "Share of the keys of a row that are in a column too", X: "are in", Y: "share of the keys", FormatY: percent, Grid: g,
			Caption: "Where there is much in common a compaction leaves much less than it reads: old versions go. Estimated from samples of keys and filters.",
		}}
		s.Folded = []picture.Section{{ID: "overlap-pairs", Heading: "The overlaps in numbers", Table: pairs.table(fmt.Sprintf("The largest %d of %d", len(pairs.rows), len(o.Pairs)), "of")}}
	}
	return s
}
