package debug

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/bloomkv/bloomkv"
)

// A report is what GET json answers. Its names do not change. Bounds of tables are in base 64, since keys are bytes.
type report struct {
	Open    bool                   `json:"open"` // in this process, and not closed
	Time    time.Time              `json:"time"` // UTC
	Metrics *bloomkv.Metrics       `json:"metrics,omitempty"`
	Tables  []bloomkv.TableMetrics `json:"tables"` // newest data first; empty unless the store is open
	// LastMinute are the rates of the last minute, or since the last request if that was longer ago.
	LastMinute Rates    `json:"last_minute"`
	Samples    []Sample `json:"samples"` // oldest first, those with something new
	// Files describes a store that is not open in this process by its files, as bloomkv inspect --json prints it.
	Files facts  `json:"files,omitempty"`
	Error string `json:"error,omitempty"` // why the files could not be read
}

// serveJSON writes the report, which is made anew once in Options.Interval.
func (h *handler) serveJSON(w http.ResponseWriter, r *http.Request) {
	var f files
	if h.store == nil {
		var err error
		if f, err = h.readFiles(r.Context()); err != nil {
			return // the viewer has left
		}
	}
	b, err := h.reports.get(r.Context(), func() ([]byte, time.Duration) { return h.report(f), h.options.Interval })
	if err == nil {
		writeAll(w, b)
	}
}

// report makes the report.
func (h *handler) report(f files) []byte {
	r := report{Time: time.Now().UTC(), Tables: []bloomkv.TableMetrics{}, Samples: []Sample{}, Files: f.facts}
	if f.err != nil {
		r.Error = f.err.Error()
	}
	if h.store != nil {
		m := h.store.sample(h.options.Interval)
		r.Metrics, r.Open = &m, !isClosed(&m)
		r.Tables = append(r.Tables, h.store.db.Tables()...)
		r.Samples = append(r.Samples, h.store.history()...)
		if n := len(r.Samples); n > 0 {
			r.LastMinute = r.Samples[n-1].LastMinute
		}
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		b, _ = json.Marshal(report{Time: r.Time, Error: err.Error()}) // strings and a time are always valid
	}
	return append(b, '\n')
}
