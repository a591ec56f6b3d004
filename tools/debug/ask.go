package debug

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"

	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// mostKey is the number of bytes of a key that a request may ask for, as inspect prints it.
const mostKey = 8 << 10

// An answer is that of GET ask. The names of an inspect.Key do not change.
type answer struct {
	*inspect.Key

	Has   *bool  `json:"has,omitempty"` // the open store has a value, be it in a table or in a memtable
	Error string `json:"error,omitempty"`
}

// serveAsk follows a key through the filters and tables that the store has now.
func (h *handler) serveAsk(w http.ResponseWriter, r *http.Request) {
	h.serveOne(w, r, func(ctx context.Context) (any, int) {
		text := r.URL.Query().Get("key")
		if len(text) > mostKey {
			return answer{Error: "the key is too long"}, http.StatusBadRequest
		}
		key, err := inspect.ParseKey(text)
		if err != nil {
			return answer{Error: err.Error()}, http.StatusBadRequest
		}
		var a answer
		if a.Key, err = inspect.Ask(ctx, h.dir, key); err != nil {
			a.Error = err.Error()
		}
		if h.store != nil {
			if has, err := h.store.db.Has(key); err == nil {
				a.Has = &has
			}
		}
		return a, http.StatusOK
	})
}

// serveRain lets absent keys fall on the filters of the tables that the page shows.
func (h *handler) serveRain(w http.ResponseWriter, r *http.Request) {
	h.serveOne(w, r, func(ctx context.Context) (any, int) {
		f, err := h.readFiles(ctx)
		if err == nil && f.rain == nil {
			return answer{Error: "the files show no table"}, http.StatusNotFound
		}
		if err != nil {
			return answer{Error: err.Error()}, http.StatusServiceUnavailable
		}
		fallen, err := f.rain.Fall(ctx, rand.Uint64())
		if err != nil {
			return answer{Error: err.Error()}, http.StatusServiceUnavailable
		}
		return fallen, http.StatusOK
	})
}

// serveFilm writes the page of the manifest that the store uses.
func (h *handler) serveFilm(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if r.Method == http.MethodHead {
		return
	}
	if h.dir == "" || h.foreign {
		http.Error(w, "the manifest of the store cannot be seen", http.StatusNotFound)
		return
	}
	release := h.turn(r.Context())
	if release == nil {
		return
	}
	defer release()
	m, err := inspect.ReadCurrent(r.Context(), h.dir)
	var b bytes.Buffer
	if len(m.Edits) > 0 { // else it was not read
		p := m.Page()
		w.Header().Set("Content-Security-Policy", pagePolicy(p))
		err = p.WriteHTML(&b)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	writeAll(w, b.Bytes())
}

// turn waits until no other request reads filters, or the manifest, and returns what ends the turn. It returns nil once
// ctx is done.
func (h *handler) turn(ctx context.Context) (release func()) {
	select {
	case h.asking <- struct{}{}:
		return func() { <-h.asking }
	case <-ctx.Done():
		return nil
	}
}

// serveOne answers one request at a time, on one processor, since filters are read for it.
func (h *handler) serveOne(w http.ResponseWriter, r *http.Request, work func(ctx context.Context) (any, int)) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodHead {
		return
	}
	release := h.turn(r.Context())
	if release == nil {
		return
	}
	defer release()
	if h.dir == "" || h.foreign {
		w.WriteHeader(http.StatusNotFound)
		writeAll(w, []byte("{\"error\":\"the filters of the store cannot be asked\"}\n"))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), mostReading)
	defer cancel()
	result, status := work(ctx)
	b, _ := json.Marshal(result) // strings and finite numbers are always valid
	w.WriteHeader(status)
	writeAll(w, b, []byte("\n"))
}
