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
	if h.dir == "" || h.foreign {
		http.Error(w, "the manifest of the store cannot be seen", http.StatusNotFound)
		return
	}
	var b bytes.Buffer
	var err error
	if !h.inTurn(r.Context(), func() {
		var m inspect.Manifest
		m, err = inspect.ReadCurrent(r.Context(), h.dir)
		if len(m.Edits) > 0 { // else it was not read
			p := m.Page()
			w.Header().Set("Content-Security-Policy", pagePolicy(p))
			err = p.WriteHTML(&b)
		}
	}) {
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	writeAll(w, b.Bytes())
}

// inTurn calls work once no other request reads filters, or the manifest. It returns false if ctx is done before that.
// The answer is written after the turn, since a viewer may read it slowly.
func (h *handler) inTurn(ctx context.Context, work func()) bool {
	select {
	case h.asking <- struct{}{}:
		defer func() { <-h.asking }()
		work()
		return true
	case <-ctx.Done():
		return false
	}
}

// serveOne answers one request at a time, on one processor, since filters are read for it.
func (h *handler) serveOne(w http.ResponseWriter, r *http.Request, work func(ctx context.Context) (any, int)) {
	if h.dir == "" || h.foreign {
		w.WriteHeader(http.StatusNotFound)
		writeAll(w, []byte("{\"error\":\"the filters of the store cannot be asked\"}\n"))
		return
	}
	var result any
	var status int
	if !h.inTurn(r.Context(), func() {
		ctx, cancel := context.WithTimeout(r.Context(), mostReading)
		defer cancel()
		result, status = work(ctx)
	}) {
		return
	}
	b, _ := json.Marshal(result) // strings and finite numbers are always valid
	w.WriteHeader(status)
	writeAll(w, b, []byte("\n"))
}
