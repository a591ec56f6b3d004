package debug

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A pipeListener accepts connections without buffers: a viewer that reads nothing holds up a write at once.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	close sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.close.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.IPAddr{} }

// ask connects and asks for the events.
func (l *pipeListener) ask(t *testing.T) net.Conn {
	t.Helper()
	viewer, server := net.Pipe()
	l.conns <- server
	if _, err := fmt.Fprint(viewer, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return viewer
}

// A turnWatch notes whether a request had the turn when its answer was written.
type turnWatch struct {
	*httptest.ResponseRecorder

	h   *handler
	had bool
}

func (w *turnWatch) Write(b []byte) (int, error) {
	w.had = w.had || len(w.h.asking) > 0
	return w.ResponseRecorder.Write(b)
}

func TestAViewerThatReadsSlowlyDoesNotKeepTheTurn(t *testing.T) {
	dir := t.TempDir()
	db, err := bloomkv.Open(dir, nil)
	testkit.Must(t, err)
	testkit.Must(t, errors.Join(db.Put([]byte("a"), nil), db.Close()))
	h := storeHandler(dir, Options{}.withDefaults("db"), nil)
	for _, path := range []string{"/film", "/rain", "/ask?key=a"} {
		w := &turnWatch{ResponseRecorder: httptest.NewRecorder(), h: h}
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		if w.Code != http.StatusOK || w.Body.Len() == 0 || w.had {
			t.Errorf("%s: %d, %d bytes, in its turn: %v", path, w.Code, w.Body.Len(), w.had)
		}
	}
}

func TestTooManyViewersAreTurnedAway(t *testing.T) {
	h := storeHandler(t.TempDir(), Options{}.withDefaults("db"), nil)
	h.streams = make(chan struct{}, 1)
	ask := func(ctx context.Context, method, shown string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, "/events?shown="+shown, http.NoBody))
		return w
	}
	for i := range 3 { // each is sent one event, and leaves its place to the next
		if w := ask(t.Context(), http.MethodGet, "other"); !strings.Contains(w.Body.String(), "event: changed\n") {
			t.Errorf("viewer %d in turn: %d, %q; want the event", i, w.Code, w.Body)
		}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	ask(gone, http.MethodGet, inspect.Stamp(h.dir)) // nothing happens for a viewer that has left, and the call returns
	h.streams = make(chan struct{})                 // no place is free
	w := ask(t.Context(), http.MethodGet, "other")
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d, %v; want 503 and when to come again", w.Code, w.Header())
	}
	if w := ask(t.Context(), http.MethodHead, "other"); w.Code != http.StatusOK {
		t.Errorf("HEAD: %d, want 200, for which no place is needed", w.Code)
	}
}

// TestViewersThatReadNothingAreDisconnected uses the clock of a synctest bubble. One viewer reads an idle store, which
// sends heartbeats, and one reads nothing. At the end nothing samples the store.
func TestViewersThatReadNothingAreDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := bloomkv.Open("db", storetest.Small(vfstest.NewMem()))
		testkit.Must(t, err)
		h := storeHandler("", Options{}.withDefaults("db"), newSampler(db, time.Second))
		l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
		server := &http.Server{Handler: h}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
		watchers := func() int {
			synctest.Wait()
			return len(h.streams)
		}

		reader := l.ask(t)
		lines, began := bufio.NewScanner(reader), time.Now()
		for lines.Scan() && lines.Text() != ": heartbeat" {
		}
		if after := time.Since(began); after < heartbeat || after > 2*heartbeat {
			t.Errorf("a heartbeat after %v, want %v after the last sample", after, heartbeat)
		}
		wg.Go(func() {
			for lines.Scan() { // until the connection is closed
			}
		})

		mute := l.ask(t)
		time.Sleep(patience - time.Second)
		if n := watchers(); n != 2 {
			t.Errorf("%d viewers, want one that reads and one that has not read for %v", n, patience-time.Second)
		}
		time.Sleep(2 * time.Second)
		if n := watchers(); n != 1 {
			t.Errorf("%d viewers, want the one that reads", n)
		}
		if err := errors.Join(mute.Close(), reader.Close()); err != nil {
			t.Error(err)
		}
		time.Sleep(heartbeat + patience)
		if n := watchers(); n != 0 {
			t.Errorf("%d viewers after all have left", n)
		}
		if err := errors.Join(server.Close(), db.Close()); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
}
