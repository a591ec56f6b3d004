package debug

import (
	"bytes"
	_ "embed" // the style and the script of the live section
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/picture"
)

//go:embed live.js
var liveScript string

// A rowView is a row with what is shown of it.
type rowView struct {
	row
	Now, LastMinute string
	Values          string // drawn, oldest first
	Promises        string // drawn next to them; "" for most rows
	Line, Promise   string // points of lines in a box of width × height
}

const (
	width, height = 240, 32 // of a line over time
	mostLogged    = 20
)

//go:embed live.css
var liveStyle string

// live returns the live section of the page.
func (h *handler) live() []byte {
	m := h.store.sample(h.options.Interval)
	samples := h.store.history()
	var b bytes.Buffer
	put := func(format string, args ...any) { b.WriteString(string(picture.Format(format, args...))) }
	list := func(lines ...string) {
		for _, line := range lines {
			put("<li>%s</li>", line)
		}
	}
	at, memory, closed := "", "", picture.HTML("")
	if n := len(samples); n > 0 {
		at, memory = samples[n-1].Time.Format(time.RFC3339Nano), shortage(&samples[n-1])
	}
	if isClosed(&m) {
		closed = " data-closed"
	}
	put(`<style>
%s</style>
<div id="live" data-time="%s"%s>
<p id="live-state" role="status">%s</p>
<p id="live-memory">%s</p>
<noscript><p>Without script the figures are those of the moment at which the page was loaded.</p></noscript>
<ul id="live-work">`, picture.HTML(liveStyle), at, closed, stateOf(&m), memory)
	if closed == "" && len(samples) > 0 {
		list(inProgress(&m.Work)...)
	}
	put(`</ul>
<div class="scroll" role="region" aria-label="Live figures" tabindex="0">
<table>
<caption>Now, and in the last minute. Lines are of the last samples, newest at the right;
the dashed one is the promise.</caption>
<thead><tr><th scope="col">figure</th><th scope="col">now</th><th scope="col">last minute</th>
<th scope="col">over time</th></tr></thead>
<tbody>
`)
	for i := range rows {
		v := viewOf(i, samples)
		put(`<tr data-path="%s" data-minute="%s" data-kind="%s" data-values="%s" data-promises="%s">`+
			`<th scope="row">%s</th><td>%s</td><td>%s</td><td>`, v.Path, v.Minute, v.Kind, v.Values, v.Promises, v.Name, v.Now, v.LastMinute)
		if v.Drawn {
			put(`<svg viewBox="0 0 240 32" preserveAspectRatio="none" aria-hidden="true">`+
				`<polyline points="%s"/>`, v.Line)
			if v.Promise != "" {
				put(`<polyline class="promise" points="%s"/>`, v.Promise)
			}
			put("</svg>")
		}
		put("</td></tr>\n")
	}
	put("</tbody>\n</table>\n</div>\n<p>What happened, newest first (times are UTC):</p>\n<ol id=\"live-log\">")
	if log := logOf(samples); len(log) > 0 {
		list(log...)
	} else {
		list("nothing yet")
	}
	put("</ol>\n</div>")
	return b.Bytes()
}

// logOf returns the log of samples, newest first.
func logOf(samples []Sample) (all []string) {
	for i := len(samples) - 1; i >= 0 && len(all) < mostLogged; i-- {
		for _, what := range samples[i].events() {
			all = append(all, samples[i].Time.Format("15:04:05 ")+what)
		}
	}
	return all[:min(len(all), mostLogged)]
}

// stateOf describes the state of the store, as the script does.
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

// shortage says that memory is too short for what was asked, as the script does, or nothing.
func shortage(s *Sample) string {
	if s.BudgetNeeded <= s.Memory.Budget || s.FPRPromised <= s.FPRAsked && s.Reads <= 2*s.FPRAsked {
		return ""
	}
	return fmt.Sprintf("Memory is too short for the filters that %s wasted reads per absent key take: up to %s are "+
		"promised, and %s reads outside of memory in all. All filters need a MemoryBudget of %s MiB.",
		format(number, s.FPRAsked), format(number, s.FPRPromised), format(number, s.Reads),
		words.Count((s.BudgetNeeded+1<<20-1)>>20))
}

// viewOf returns a row with what is to be shown of the samples.
func viewOf(at int, samples []Sample) rowView {
	v := rowView{row: rows[at], Now: "–", LastMinute: "–"}
	drawn := v.value
	if v.minute != nil {
		drawn = v.minute
	}
	if n := len(samples); n > 0 {
		latest := &samples[n-1]
		v.Now = format(v.Kind, v.value(latest))
		if v.minute != nil {
			v.LastMinute = format(v.Kind, v.minute(latest))
		}
	}
	if !v.Drawn {
		return v
	}
	values := make([]float64, len(samples))
	var promised []float64
	for i := range samples {
		values[i] = drawn(&samples[i])
		if at == promiseRow {
			promised = append(promised, samples[i].FPRPromised)
		}
	}
	top := 0.0
	for _, y := range append(promised, values...) {
		top = max(top, y)
	}
	v.Line, v.Promise = points(values, top), points(promised, top)
	v.Values, v.Promises = numbers(values), numbers(promised)
	return v
}

// numbers returns numbers for the script.
func numbers(values []float64) string {
	text := make([]string, len(values))
	for i, y := range values {
		text[i] = strconv.FormatFloat(y, 'g', 4, 64)
	}
	return strings.Join(text, " ")
}

// points returns the points of a polyline through values, which has its highest at top and its newest at the right.
func points(values []float64, top float64) string {
	var b strings.Builder
	for i, y := range values {
		x := width - float64(len(values)-1-i)*width/(mostSamples-1)
		if top > 0 {
			y /= top
		}
		fmt.Fprintf(&b, "%.0f,%.0f ", math.Round(x), math.Round(height-1-y*(height-2)))
	}
	return strings.TrimSuffix(b.String(), " ")
}

// inProgress describes flushes and compactions in progress, as the script does.
func inProgress(w *bloomkv.WorkMetrics) (all []string) {
	share := func(part, of uint64) string { return format(percent, float64(part)/float64(max(of, 1))) }
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

// events describes what happened in a sample, as the script does.
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
