package debug

import (
	"bytes"
	_ "embed" // the style and the script of the live part
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
	"github.com/bloomkv/bloomkv/tools/picture"
)

//go:embed live.js
var liveScript string

//go:embed live.css
var liveStyle string

const (
	width, height = 240, 32 // of a line over time
	mostPoints    = 100     // of a line
	mostLogged    = 20
)

// A drawnTree is the picture of a tree, and what it was drawn of.
type drawnTree struct {
	html  picture.HTML
	trees uint64
	shown *map[string]bool
}

// tree returns the picture of the tree as it is now, or as it was when the store was closed. It is drawn once for all
// viewers.
func (h *handler) tree() drawnTree {
	h.drawing.Lock()
	defer h.drawing.Unlock()
	latest, _ := h.store.state()
	now := drawnTree{trees: latest.trees, shown: h.shown.Load()}
	if h.drawn.html != "" && (h.drawn.trees == now.trees && h.drawn.shown == now.shown || latest.closed) {
		return h.drawn
	}
	var shown map[string]bool
	if now.shown != nil {
		shown = *now.shown
	}
	chart := inspect.TreeOf(h.store.db.Tables(), shown)
	if chart == nil {
		now.html = "<p>There are no tables.</p>\n"
	} else if drawn, err := chart.HTML(); err != nil {
		now.html = picture.Format("<p>%s</p>\n", err.Error())
	} else {
		now.html = drawn
	}
	h.drawn = now
	return now
}

// Parts of the page that change, as HTML: the contents of the elements with these IDs.
type parts struct {
	Figures picture.HTML `json:"figures,omitempty"` // of a closed store the last ones stay

	Tiles  picture.HTML `json:"live-tiles"`
	State  picture.HTML `json:"live-state"`
	Memory picture.HTML `json:"live-memory"`
	Work   picture.HTML `json:"live-work"`
	Log    picture.HTML `json:"live-log"`
	Rows   picture.HTML `json:"live-rows"`
	Trees  uint64       `json:"trees"` // how often the tree has changed: GET tree has it
}

// partsOf returns the parts of the page by the metrics of a store and its samples, of which the last is the newest.
func partsOf(m *bloomkv.Metrics, samples []Sample) (p parts) {
	p.State = picture.Format("%s", stateOf(m))
	p.Figures = picture.Figures(figuresOf(m))
	p.Log = list(logOf(samples))
	if len(samples) == 0 {
		return p
	}
	latest := &samples[len(samples)-1]
	p.Memory = picture.Format("%s", shortage(latest))
	if !isClosed(m) {
		p.Work = list(inProgress(&m.Work))
	}
	if m.Lookups.Gets+m.Writes.Operations > 0 || isClosed(m) && latest.Lookups.Gets > 0 {
		p.Tiles = tilesOf(samples)
	}
	for _, r := range appendRows(nil, latest) {
		minute := "–"
		if !math.IsNaN(r.minute) {
			minute = r.format(r.minute)
		}
		p.Rows += picture.Format("<tr><th scope=\"row\">%s</th><td>%s</td><td>%s</td></tr>", r.name,
			r.format(r.value), minute)
	}
	return p
}

// figuresOf returns the figures beside the title of the page; none of a closed store.
func figuresOf(m *bloomkv.Metrics) []picture.Figure {
	var all bloomkv.LevelMetrics
	for i := range m.Levels {
		l := &m.Levels[i]
		all.Bytes, all.Tables, all.Runs = all.Bytes+l.Bytes, all.Tables+l.Tables, all.Runs+l.Runs
		all.Entries, all.FilterBytesInMemory = all.Entries+l.Entries, all.FilterBytesInMemory+l.FilterBytesInMemory
	}
	if isClosed(m) {
		return nil
	}
	promise := picture.Number(m.FPRPromised) + " promised"
	if m.Lookups.Absent() > 0 {
		promise += ", " + picture.Number(m.FPRMeasured) + " measured"
	}
	filters := picture.Bytes(float64(all.FilterBytesInMemory)) + " of filters"
	return []picture.Figure{
		{
			Name: "Data", Value: picture.Bytes(float64(all.Bytes)),
			Remark: words.Plural(all.Tables, "table") + " in " + words.Plural(all.Runs, "run"),
		},
		{Name: "Entries in tables", Value: words.Count(all.Entries), Remark: filters},
		{
			Name: "Wasted reads of an absent key", Value: picture.Number(m.FPRPredicted), Remark: promise,
			Taken: m.FPRPredicted, Limit: m.FPRAsked,
		},
	}
}

// tilesOf returns a tile for each row that has a short name: its figure, with a line behind it.
func tilesOf(samples []Sample) (tiles picture.HTML) {
	var rows []row
	var promised []float64
	var lines [][]float64 // of each row
	for k := range samples {
		promised = append(promised, samples[k].FPRPromised)
		rows = appendRows(rows[:0], &samples[k])
		rows[promiseRow].value = rows[promiseRow].minute // a second has too few absent keys
		if lines == nil {
			lines = make([][]float64, len(rows))
		}
		for i, r := range rows {
			if r.tile != "" {
				lines[i] = append(lines[i], r.value)
			}
		}
	}
	for i, r := range rows { // of the newest sample
		if r.tile == "" {
			continue
		}
		values, promise := lines[i], picture.HTML("")
		top := slices.Max(values)
		if i == promiseRow {
			top = max(top, slices.Max(promised))
			promise = picture.Format(`<polyline class="promise" points="%s"/>`, points(promised, top))
		}
		tiles += picture.Format(`<div><dt>%s</dt><dd class="value">%s</dd><dd><svg viewBox="0 0 %d %d" `+
			`preserveAspectRatio="none" aria-hidden="true"><polyline points="%s"/>%s</svg></dd></div>`, r.tile,
			r.format(r.value), width, height, points(values, top), promise)
	}
	return tiles
}

// points returns the points of a polyline through values, from the left end to the right, which has its highest at top.
func points(values []float64, top float64) string {
	var b strings.Builder
	if len(values) == 1 {
		values = slices.Repeat(values, 2) // a line needs two
	}
	last := len(values) - 1
	each := last/mostPoints + 1
	for i := last % each; i <= last; i += each { // the newest is one of them
		fmt.Fprintf(&b, "%.0f,%.0f ", math.Round(width*float64(i)/float64(last)), y(values[i], top))
	}
	return strings.TrimSuffix(b.String(), " ")
}

// y returns the place of a value in a line whose highest is at top.
func y(value, top float64) float64 {
	if top > 0 {
		value /= top
	}
	return math.Round(height - 1 - value*(height-2))
}

func list(lines []string) (items picture.HTML) {
	for _, line := range lines {
		items += picture.Format("<li>%s</li>", line)
	}
	return items
}

// live returns the live parts of the page: the tiles with the tree, and the section.
func (h *handler) live() (lead, section []byte) {
	m := h.store.sample(h.options.Interval)
	p := partsOf(&m, h.store.history())
	tree := h.tree()
	closed := picture.HTML("")
	if isClosed(&m) {
		closed = " data-closed"
	}
	return []byte(picture.Format("<style>\n%s</style>\n<dl id=\"live-tiles\" class=\"tiles\">%s</dl>\n"+
			"<div class=\"charts\" id=\"live-tree\" data-trees=\"%d\">\n%s</div>\n", picture.HTML(liveStyle), p.Tiles,
			tree.trees, tree.html)), []byte(picture.Format(`<div id="live-now"%s>
<p id="live-state" role="status">%s</p>
<p id="live-memory">%s</p>
<noscript><p>Without script the figures are those of the moment at which the page was loaded.</p></noscript>
<ul id="live-work">%s</ul>
<p>What happened, newest first (times are UTC):</p>
<ol id="live-log">%s</ol>
<details>
<summary><h3>All live figures</h3></summary>
<div class="scroll" role="region" aria-label="Live figures" tabindex="0">
<table>
<thead><tr><th scope="col">figure</th><th scope="col">now</th><th scope="col">last minute</th></tr></thead>
<tbody id="live-rows">%s</tbody>
</table>
</div>
</details>
</div>`, closed, p.State, p.Memory, p.Work, p.Log, p.Rows))
}

// json returns the parts for the script of the page.
func (p parts) json() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // no page has it in a script
	_ = e.Encode(p)        // strings are always valid
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// logOf returns the log of samples, newest first.
func logOf(samples []Sample) (all []string) {
	for i := len(samples) - 1; i >= 0 && len(all) < mostLogged; i-- {
		for _, what := range samples[i].events() {
			all = append(all, samples[i].Time.Format("15:04:05 ")+what)
		}
	}
	if len(all) == 0 {
		return []string{"nothing yet"}
	}
	return all[:min(len(all), mostLogged)]
}

// stateOf describes the state of the store.
func stateOf(m *bloomkv.Metrics) string {
	switch {
	case isClosed(m):
		return "The store is closed. The figures are the last ones."
	case !m.Warm:
		return "The store is open; its indexes and filters are being loaded."
	case m.Settled:
		return "The store is open and settled: nothing waits for a flush or a compaction."
	default:
		return "The store is open, with work in the background."
	}
}

// shortage says that memory is too short for what was asked, or nothing.
func shortage(s *Sample) string {
	if s.BudgetNeeded <= s.Memory.Budget || s.FPRPromised <= s.FPRAsked && s.Reads <= 2*s.FPRAsked {
		return ""
	}
	return fmt.Sprintf("Memory is too short for the filters that %s wasted reads per absent key take: up to %s are "+
		"promised, and %s reads outside of memory in all. All filters need a MemoryBudget of %s MiB.",
		picture.Number(s.FPRAsked), picture.Number(s.FPRPromised), picture.Number(s.Reads),
		words.Count((s.BudgetNeeded+1<<20-1)>>20))
}

// inProgress describes flushes and compactions in progress.
func inProgress(w *bloomkv.WorkMetrics) (all []string) {
	share := func(part, of uint64) string { return percent(float64(part) / float64(max(of, 1))) }
	if w.Memtables > 0 {
		all = append(all, fmt.Sprintf("flushing %s, %s done", words.Plural(w.Memtables, "memtable"),
			share(w.VersionsFlushed, w.Versions)))
	}
	for _, c := range w.Compactions {
		all = append(all, fmt.Sprintf("compacting level %d into %d: %s, %s, %s done", c.From, c.To,
			words.Plural(c.Tables, "table"), picture.Bytes(float64(c.Bytes)), share(c.VersionsRead, c.Versions)))
	}
	return all
}

// events describes what happened in a sample.
func (s *Sample) events() (all []string) {
	w := &s.Writes
	if w.Flushes > 0 {
		all = append(all, fmt.Sprintf("%s, %s written", words.Plural(w.Flushes, "flush"),
			picture.Bytes(float64(w.FlushBytes))))
	}
	if w.Ingests > 0 {
		all = append(all, fmt.Sprintf("%s, %s", words.Plural(w.Ingests, "ingest"),
			picture.Bytes(float64(w.IngestBytes))))
	}
	if w.Compactions > 0 {
		all = append(all, fmt.Sprintf("%s, %s read, %s written", words.Plural(w.Compactions, "compaction"),
			picture.Bytes(float64(w.CompactedBytesRead)), picture.Bytes(float64(w.CompactedBytes))))
	}
	if w.Moves > 0 {
		all = append(all, words.Plural(w.Moves, "table")+" moved to another level")
	}
	if n := s.stalls(); n > 0 {
		all = append(all, words.Plural(n, "stall")+" of writes")
	}
	return all
}
