package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/digest"
)

// patchEncoding names patches of digests in the headers A-IM and IM of RFC 3229, "Delta encoding in HTTP".
const patchEncoding = "bloomkv-patch"

// keptDigests is the number of digests that a server remembers. They share the filters of the tables that they share.
const keptDigests = 16

// A server serves a store: GET /digest, and GET /value?key=KEY.
type server struct {
	db *bloomkv.DB

	mu     sync.Mutex
	recent []*digest.Digest // guarded by mu; newest last
}

func newServer(db *bloomkv.DB) http.Handler {
	s := &server{db: db}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /digest", s.digest)
	mux.HandleFunc("GET /value", s.value)
	return mux
}

func etag(id uint64) string { return fmt.Sprintf("%q", fmt.Sprintf("%016x", id)) }

// digest answers with the digest; with nothing if the client has it; or with a patch, if the client takes patches and
// has a digest that the server remembers.
func (s *server) digest(w http.ResponseWriter, r *http.Request) {
	d, err := s.db.Digest(r.Context(), bloomkv.DigestOptions{})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	base := r.Header.Get("If-None-Match")
	w.Header().Set("ETag", etag(d.ID()))
	w.Header().Set("Vary", "If-None-Match, A-IM")
	older := s.remember(d, base)
	if base == etag(d.ID()) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	var body io.WriterTo = d
	status, size := http.StatusOK, d.Size()
	if older != nil && r.Header.Get("A-IM") == patchEncoding {
		if patch, err := d.Since(older); err == nil && patch.Size() < d.Size() {
			body, status, size = patch, http.StatusIMUsed, patch.Size()
			w.Header().Set("IM", patchEncoding)
			w.Header().Set("Delta-Base", base)
		}
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	w.WriteHeader(status)
	_, _ = body.WriteTo(w) // an error means that the client is gone
}

// remember adds a digest to the recent ones, and returns the one with the given ETag, or nil.
func (s *server) remember(d *digest.Digest, base string) (older *digest.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := false
	for _, r := range s.recent {
		known = known || r.ID() == d.ID()
		if etag(r.ID()) == base {
			older = r
		}
	}
	if !known {
		if len(s.recent) == keptDigests {
			s.recent = s.recent[1:]
		}
		s.recent = append(s.recent, d)
	}
	return older
}

func (s *server) value(w http.ResponseWriter, r *http.Request) {
	value, err := s.db.Get([]byte(r.URL.Query().Get("key")))
	switch {
	case errors.Is(err, bloomkv.ErrNotFound):
		http.NotFound(w, r)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(value)
	}
}
