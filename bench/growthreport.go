package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/bloomkv/bloomkv/internal/forecast"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/machine"
	"github.com/bloomkv/bloomkv/tools/picture"
)

// A growthReport is the result of growth. The names of its fields in JSON are part of the output.
type growthReport struct {
	Machine machine.Machine `json:"machine"`
	Command string          `json:"command"`
	Stopped string          `json:"stopped,omitempty"` // why measurements are missing
	Skipped string          `json:"skipped,omitempty"` // from which size of a store on quarter is left out, and why

	ValueBytes    int     `json:"value_bytes"`
	Seed          uint64  `json:"seed"`
	FilterFPR     float64 `json:"fpr_asked"`
	Lookups       int     `json:"lookups"`
	PutsPerSecond int     `json:"puts_per_second"`

	Rows []grown `json:"rows"`

	table cli.Table
}

func newGrowthReport(w *growth, command string) *growthReport {
	r := &growthReport{
		Machine: machine.Here(), Command: command, ValueBytes: w.value, Seed: w.seed, FilterFPR: promisedFPR,
		Lookups: w.lookups, PutsPerSecond: w.puts,
	}
	r.table = cli.Table{
		Intro: fmt.Sprintf("%s\nrandom keys, values of %d bytes, default options but for budget and kind of filter, "+
			"%g asked for; %d lookups of each kind after Open, a fifth in the state quarter; writing: "+
			"%d puts a second\n\n%s\n\n", r.Machine.Header(command, "bench"),
			r.ValueBytes, r.FilterFPR, r.Lookups, r.PutsPerSecond, aboutGrowth),
		Head: []string{
			"store", "keys", "state", "ns/absent", "reads", "promised", "wasted", "promised", "predicted", "theory",
			"ns/present", "reads", "anonymous", "mapped", "open", "wrong",
		},
		Least: cellWidth,
	}
	return r
}

// grown is a measurement of a store at one size, in one state.
type grown struct {
	Kind      string `json:"kind"`
	Budget    int64  `json:"memory_budget"`
	Keys      int    `json:"keys"`
	FileBytes int64  `json:"file_bytes"` // of tables
	State     string `json:"state"`

	measured
}

// theory returns the lowest rate at which one filter of all keys in the memory of the row would be wrong, but at least
// the rate asked for. Beside a writer half of the memory is that of memtables.
func (g *grown) theory() float64 {
	memory := g.Budget
	if g.State == writingState {
		memory /= 2
	}
	return max(promisedFPR, forecast.LadderOf(g.Kind != "bloom").Rate(8*float64(memory)/float64(g.Keys)))
}

func (r *growthReport) phases() (all []*phase) {
	for i := range r.Rows {
		all = append(all, &r.Rows[i].Absent, &r.Rows[i].Present)
	}
	return all
}

// aboutGrowth explains the columns of the table.
const aboutGrowth = `Per lookup: reads are parts of files that were not in the memory of the store, in mapped
files too: data blocks, parts of indexes and pages of filters, beside what is promised meanwhile.
Wasted are searches of tables without the key, beside what is promised and predicted meanwhile;
theory is the lowest rate of one filter in all memory that memtables leave, but at least the rate asked
for. Anonymous is the most memory of the process that is of no file, mapped are the bytes of tables in
its address space, both in MB.`

// add adds a measurement.
func (r *growthReport) add(s grown) {
	r.Rows = append(r.Rows, s)
	rate := func(x float64) string { return fmt.Sprintf("%.4f", x) }
	size := func(bytes float64) string { return fmt.Sprintf("%.1f", bytes/1e6) }
	r.table.Add(fmt.Sprintf("%s, %d MiB", s.Kind, s.Budget>>20), countName(s.Keys), s.State, s.Absent.took(),
		rate(s.Absent.cost().fileReads()), rate(s.Reads), rate(s.Absent.cost().WastedReads), rate(s.Promised),
		rate(s.Predicted), rate(s.theory()), s.Present.took(), rate(s.Present.cost().fileReads()),
		size(float64(s.PeakAnonymous)), size(float64(s.Memory.Mapped)),
		s.Open.Round(10*time.Microsecond).String(), strconv.Itoa(s.Absent.Wrong+s.Present.Wrong))
}

// print prints the report as text, except for rows that were printed before.
func (r *growthReport) print(w io.Writer) error {
	err := r.table.Print(w)
	if end := paragraphs(r.Stopped, r.Skipped); end != "" {
		_, err = fmt.Fprintf(w, "\n%s\n", end)
	}
	return err
}

// charts returns a chart for each store: reads and time of a lookup of an absent key, over the number of keys.
func (r *growthReport) charts() (all []picture.Chart) {
	for i := 0; i < len(r.Rows); {
		first := r.Rows[i]
		c := picture.Chart{
			Name: fmt.Sprintf("growth-%s-%d", first.Kind, first.Budget>>20),
			Title: fmt.Sprintf("A lookup of an absent key, with %s filters and %d MiB of memory",
				strings.ToUpper(first.Kind[:1])+first.Kind[1:], first.Budget>>20),
			Caption: fmt.Sprintf("%d lookups after Open, default options; a count of 0 is not drawn", r.Lookups),
			X:       "keys", Y: "reads, or µs", LogX: true, LogY: true,
		}
		for ; i < len(r.Rows) && r.Rows[i].Kind == first.Kind && r.Rows[i].Budget == first.Budget; i++ {
			s := &r.Rows[i]
			addPoint(&c, "µs, "+s.State, float64(s.Keys), s.Absent.nsPerOp()/1000, false)
			if s.State != quarterState { // as idle
				addPoint(&c, "reads, "+s.State, float64(s.Keys), s.Absent.cost().fileReads(), false)
				addPoint(&c, "promised, "+s.State, float64(s.Keys), s.Reads, true)
				addPoint(&c, "theory, "+s.State, float64(s.Keys), s.theory(), true)
			}
		}
		all = append(all, c)
	}
	return all
}
