package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
	"github.com/bloomkv/bloomkv/tools/picture"
)

// mapColumns is the number of cells in a row of a map: mapCells regions or positions make 16 rows, which also fit a
// phone.
const mapColumns, mapCells = 32, 512

// theoryChart shows by how many standard errors the figures of all units differ from theory, between the limits at
// which they are flagged.
func (r *Filter) theoryChart(prefix string) *picture.Chart {
	c := &picture.Chart{
		Name: prefix + "theory", Title: "Deviation of the figures from theory", X: "figure",
		Y: "standard errors above or below theory",
		Caption: fmt.Sprintf("Chance alone moves a figure by one or two standard errors, and beyond the dashed "+
			"lines, at %g, only once in millions of times. Figures beyond them are flagged.", filterexam.FarOff),
	}
	at := make(map[string]float64)
	for i := range r.Units {
		u := &r.Units[i]
		l := picture.Line{Name: unitName(i), Kind: picture.Points}
		for _, s := range append(statsOf(u),
			namedStat{short: "measured rate", Stat: &filterexam.Stat{Z: u.Measured.Z}}) {
			x, known := at[s.short]
			if !known {
				x = float64(len(at))
				at[s.short], c.Categories = x, append(c.Categories, s.short)
			}
			l.X, l.Y = append(l.X, x), append(l.Y, s.Z)
		}
		c.Lines = append(c.Lines, l)
	}
	ends := []float64{0, float64(len(at) - 1)}
	for _, limit := range []struct {
		name string
		y    float64
	}{{"flagged above", filterexam.FarOff}, {"flagged below", -filterexam.FarOff}} {
		c.Lines = append(c.Lines,
			picture.Line{Name: limit.name, X: ends, Y: []float64{limit.y, limit.y}, Kind: picture.Curve, Dashed: true})
	}
	return c
}

// unitCharts returns the histogram of a unit's blocks and the maps of its regions and positions, as far as it has
// them. There is nothing to draw for a single block.
func unitCharts(u *filterexam.UnitExam, prefix string, i int) (all []picture.Chart) {
	if u.Blocks < 2 {
		return nil
	}
	if len(u.Histogram) > 0 {
		all = append(all, occupancyChart(fmt.Sprintf("%soccupancy-%d", prefix, i), u.Histogram))
	}
	if len(u.Regions) > 0 {
		all = append(all, picture.Chart{
			Name: fmt.Sprintf("%sregions-%d", prefix, i), Title: "How full the blocks are, from the first to the last",
			X:       "blocks, from left to right and then down; on the left the first of each row",
			Y:       "share of the bits that are set",
			FormatY: percent,
			Caption: "Random hashes leave noise without stripes or patches. A patch is a part of the filter that is " +
				"fuller than others. " + capital(mapScale(u, "stronger its color")) + ".",
			Grid: mapOf(u.Regions, "block", u.RegionBlocks),
		})
	}
	if len(u.Shares) > 0 {
		all = append(all, picture.Chart{
			Name: fmt.Sprintf("%spositions-%d", prefix, i), Title: "How often each of the 512 bit positions is set",
			X: "positions in a block; on the left the first of each row", Y: "share of the blocks in which it is set",
			FormatY: percent,
			Caption: "All positions should be alike except for noise. A row, a column or a half that stands out " +
				"shows bits of the hash that are not random.",
			Grid: mapOf(u.Shares, "position", 1),
		})
	}
	return all
}

// leastBlocks is the smallest number of blocks that theory draws. Smaller ones cannot be told from none, and the
// smallest are no numbers of a chart.
const leastBlocks = 1e-9

// occupancyChart draws a histogram with the curve of theory, if that is known.
func occupancyChart(name string, bins []filterexam.Bin) picture.Chart {
	c := picture.Chart{
		Name: name, Title: "Blocks by how many of their 512 bits are set", X: "set bits of a block, of 512",
		Y: "blocks",
		Caption: "If the bars follow the dashed line, the keys are distributed over the blocks at random. A bar far " +
			"to the right is a block that lets too many keys through.",
		Lines: []picture.Line{{Name: "blocks", Kind: picture.Bars}, {Name: "by theory", Dashed: true}},
	}
	half := float64(bins[0].To-bins[0].From) / 2 // the last may be narrower, but is drawn as wide as the others
	for _, b := range bins {
		for i, y := range []float64{float64(b.Blocks), b.Want} {
			if y < leastBlocks {
				y = 0
			}
			l := &c.Lines[i]
			l.X, l.Y = append(l.X, float64(b.From)+half), append(l.Y, y)
		}
	}
	if slices.Max(c.Lines[1].Y) == 0 {
		c.Lines, c.Caption = c.Lines[:1], "A bar far to the right is a block that is fuller than others."
	}
	return c
}

// mapOf returns a map of values, each of which stands for a number of blocks or positions. A row is named by the first
// of them.
func mapOf(values []float64, of string, each uint64) *picture.Grid {
	g := &picture.Grid{Of: of, Each: each}
	for i := 0; i < len(values); i += mapColumns {
		g.Values = append(g.Values, values[i:min(i+mapColumns, len(values))])
		g.Rows = append(g.Rows, count(uint64(i)*each))
	}
	return g
}

// charts returns the charts of a filter on a page with others: all except the maps of positions, which are large.
func (r *Filter) charts(prefix string) (all []picture.Chart) {
	if r == nil || r.Measured == nil {
		return nil
	}
	for i := range r.Units {
		for _, c := range unitCharts(&r.Units[i], prefix, i) {
			if !strings.HasPrefix(c.Name, prefix+"positions") {
				c.Title = capital(unitName(i)) + ": " + c.Title
				all = append(all, c)
			}
		}
	}
	return append(all, *r.theoryChart(prefix))
}
