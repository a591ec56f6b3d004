package inspect

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/words"
)

// A grid is a table of words. Text and page are made of the same ones, so that they agree on every digit.
type grid struct {
	head []string
	rows [][]string
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// write aligns the columns, so many blanks apart, each line after indent.
func (g *grid) write(w io.Writer, indent string, apart int, flags uint) {
	t := tabwriter.NewWriter(w, 0, 0, apart, ' ', flags)
	for _, row := range append([][]string{g.head}, g.rows...) {
		fmt.Fprint(t, indent)
		for i, cell := range row {
			fmt.Fprint(t, cell)
			if i < len(row)-1 || flags&tabwriter.AlignRight != 0 {
				fmt.Fprint(t, "\t")
			}
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}

// figure prints a number in some five digits, and a large one whole.
func figure(v float64) string {
	switch size := math.Abs(v); {
	case size >= 1000:
		return fmt.Sprintf("%.0f", v)
	case size < 0.001 && v != 0:
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.5g", v)
}

// errorFigure prints a standard error in some two digits.
func errorFigure(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

// deviations prints a number of standard errors.
func deviations(z float64) string {
	if math.Abs(z) < 0.05 {
		z = 0 // without a sign
	}
	return fmt.Sprintf("%.1f", z)
}

// rate prints a false positive rate.
func rate(v float64) string { return fmt.Sprintf("%.3g", v) }

// percent prints a share.
func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// headerRows are the fields of the header, as they are in the file.
func (r *Filter) headerRows() *grid {
	g := &grid{head: []string{"offset", "bytes", "field", "value"}}
	for _, f := range r.Header {
		g.add(strconv.FormatUint(r.Offset+uint64(f.Offset), 10), strconv.Itoa(f.Bytes), f.Name, words.Cut(f.Value, 40)) //nolint:gosec // an index
	}
	return g
}

// rateRows are the rates of each unit, and of all.
func (r *Filter) rateRows() *grid {
	g := &grid{head: []string{"", "promised", "by table", "from bits", "measured", "± error", "z", "maybe", "of probes"}}
	row := func(name string, promised, table, bits float64, m *bloomblock.Measured) {
		g.add(name, rate(promised), rate(table), rate(bits), rate(m.Rate), fmt.Sprintf("%.2g", m.Err), deviations(m.Z), strconv.FormatUint(m.Maybe, 10), strconv.FormatUint(m.Probes, 10))
	}
	for i, u := range r.Units {
		row(unitName(i), u.Promised, u.ByTable, u.FromBits, u.Measured)
	}
	if len(r.Units) > 1 {
		row("all", r.Promised, r.ByTable, r.FromBits, r.Measured)
	}
	return g
}

func unitName(i int) string { return fmt.Sprintf("unit %d", i) }

// A namedStat is a figure of a unit with its name, and a short one for pictures.
type namedStat struct {
	name, short string
	*bloomblock.Stat
}

// statsOf are the figures that a unit has.
func statsOf(u *bloomblock.UnitExam) (all []namedStat) {
	for _, s := range []namedStat{
		{"set bits of a block, of 512", "fill", u.SetBits},
		{"their standard deviation", "spread", u.Spread},
		{"keys by the bits", "keys", u.NumKeys},
		{"chi-square over positions", "positions", u.Positions},
		{"chi-square over regions", "regions", u.Evenness},
		{"share of bits set", "density", u.Density},
	} {
		if s.Stat != nil {
			all = append(all, s)
		}
	}
	return all
}

// statRows are a unit's figures beside what they should be.
func statRows(u *bloomblock.UnitExam) *grid {
	g := &grid{head: []string{"", "is", "should be", "± error", "z"}}
	for _, s := range statsOf(u) {
		g.add(s.name, figure(s.Got), figure(s.Want), errorFigure(s.Err), deviations(s.Z))
	}
	return g
}

// binRows are the blocks of a unit by their set bits.
func binRows(bins []bloomblock.Bin) *grid {
	g := &grid{head: []string{"set bits", "blocks", "want"}}
	for _, b := range bins {
		g.add(fmt.Sprintf("%d–%d", b.From, b.To), strconv.FormatUint(b.Blocks, 10), fmt.Sprintf("%.1f", b.Want))
	}
	return g
}
