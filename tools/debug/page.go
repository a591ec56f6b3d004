package debug

import (
	"net/http"
	"time"
)

// servePage writes the page.
func (h *handler) servePage(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", h.policy)
	if r.Method == http.MethodHead {
		return
	}
	f, err := h.readFiles(r.Context())
	if err != nil {
		return // the viewer has left
	}
	var section []byte
	if h.store != nil {
		if section, err = h.live(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	writeAll(w, f.head, section, f.tail)
}

// mostWriting is the time that a viewer may take to read a page or an object.
const mostWriting = time.Minute

// writeAll writes the parts of an answer. An error means that the viewer has left, or is too slow.
func writeAll(w http.ResponseWriter, parts ...[]byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(mostWriting)) // else the server's own applies
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}
