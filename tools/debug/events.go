package debug

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	mostStreams = 1000             // at the same time
	heartbeat   = 15 * time.Second // between two writes to a stream
	patience    = 10 * time.Second // for one write to a viewer
)

// A stream writes server-sent events to one viewer.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// send writes text and waits until the connection has it, for as long as patience.
func (s *stream) send(format string, args ...any) error {
	if err := s.allow(); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.w, format, args...); err != nil {
		return err
	}
	return s.control.Flush()
}

// allow gives the viewer patience for the next write, on servers that can limit it.
func (s *stream) allow() error {
	if err := s.control.SetWriteDeadline(time.Now().Add(patience)); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// serveEvents sends events until the viewer leaves or nothing more can happen.
func (h *handler) serveEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Accel-Buffering", "no") // proxies
	select {
	case h.streams <- struct{}{}:
		defer func() { <-h.streams }()
	default:
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many viewers", http.StatusServiceUnavailable)
		return
	}
	if h.store != nil {
		h.store.sample(h.options.Interval)
		if latest, _ := h.store.state(); latest.closed {
			w.WriteHeader(http.StatusNoContent) // a browser does not ask again
			return
		}
	}
	out := stream{w, http.NewResponseController(w)}
	switch err := errors.Join(out.allow(), out.control.Flush()); { // the header
	case errors.Is(err, http.ErrNotSupported):
		http.Error(w, "this server cannot stream", http.StatusNotImplemented) // a browser does not ask again
		return
	case err != nil || out.send("retry: 2000\n\n") != nil:
	case h.store == nil:
		h.sendChange(r, &out)
	default:
		h.sendSamples(r, &out)
	}
}

// sendSamples sends the latest sample at once, and each later one that has something new. A viewer that is still
// reading an earlier sample gets only the newest one after it.
//
//	retry: 2000
//
//	event: sample
//	id: 7
//	data: {"time":…}
//
// or, for the page, whose query has the name page:
//
//	event: parts
//	data: {"live-state":…}
//
//	: heartbeat
//
//	event: closed
//	data: {}
func (h *handler) sendSamples(r *http.Request, out *stream) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for sent, ofPage := uint64(0), r.URL.Query().Has("page"); ; {
		latest, news := h.store.state()
		var err error
		switch {
		case ofPage && (latest.number != sent || latest.closed):
			err = out.send("event: parts\ndata: %s\n\n", latest.parts)
		case latest.number != sent:
			err = out.send("event: sample\nid: %d\ndata: %s\n\n", latest.number, latest.data)
		}
		if err != nil {
			return
		}
		if latest.closed {
			_ = out.send("event: closed\ndata: {}\n\n") // the stream ends in any case
			return
		}
		if latest.number != sent {
			sent = latest.number
			beat.Reset(heartbeat)
		}
		select {
		case <-news:
		case <-beat.C:
			err = out.send(": heartbeat\n\n")
		case <-r.Context().Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// sendChange sends an event once the files are no longer those that the page shows, whose stamp is in the query.
//
//	event: changed
//	data: {}
func (h *handler) sendChange(r *http.Request, out *stream) {
	shown := r.URL.Query().Get("shown")
	ticks := time.NewTicker(h.options.Interval)
	defer ticks.Stop()
	for beat := time.Now(); h.stamp(h.dir) == shown; {
		if time.Since(beat) >= heartbeat {
			if out.send(": heartbeat\n\n") != nil {
				return
			}
			beat = time.Now()
		}
		select {
		case <-ticks.C:
		case <-r.Context().Done():
			return
		}
	}
	_ = out.send("event: changed\ndata: {}\n\n") // the stream ends in any case
}
