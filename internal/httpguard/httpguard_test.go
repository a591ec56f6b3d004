package httpguard

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

var must = testkit.Must

var greeting = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })

func TestOnlyRequestsForThisHostPass(t *testing.T) {
	guarded := Handler(greeting, "node.example:8081", "other.example", ":80", "")
	for host, want := range map[string]int{
		"localhost": 200, "LocalHost:8081": 200, "127.0.0.1": 200, "192.0.2.1:1": 200, "[::1]": 200, "[::1]:8081": 200,
		"node.example": 200, "node.example:1": 200, "other.example:8081": 200,
		"site.example": 403, "site.example:8081": 403, "localhost.site.example": 403, "127.0.0.1.site.example": 403,
		"": 403, ":80": 403, "[": 403,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		guarded.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("for host %q: status %d, want %d", host, w.Code, want)
		}
		wantProtected(t, w)
	}
}

func TestOnlyLoopbackAddressesAreLocal(t *testing.T) {
	for address, want := range map[string]bool{
		"localhost:1": true, "127.0.0.1": true, "127.9.9.9:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true,
		"": false, ":1": false, "0.0.0.0:1": false, "[::]:1": false, "192.0.2.1:1": false, "node.example:1": false,
		"localhost.site.example:1": false, "127.0.0.1.site.example": false,
	} {
		if got := Local(address); got != want {
			t.Errorf("%q: %v, want %v", address, got, want)
		}
	}
}

func wantProtected(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("status %d: %s: %q, want %q", w.Code, name, got, want)
		}
	}
}

func TestPagesOfOtherOriginsChangeNothing(t *testing.T) {
	for name, guarded := range map[string]http.Handler{"Handler": Handler(greeting), "Answers": Answers(greeting)} {
		for _, c := range []struct {
			method, origin string
			want           int
		}{
			{http.MethodPut, "http://site.example", 403},
			{http.MethodPost, "null", 403},
			{http.MethodPost, "http://localhost:1", 403},
			{http.MethodPost, "http://localhost:8081", 200},
			{http.MethodPost, "", 200}, // no browser
			{http.MethodGet, "http://site.example", 200},
		} {
			r := httptest.NewRequestWithContext(t.Context(), c.method, "/", http.NoBody)
			r.Host = "localhost:8081"
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			w := httptest.NewRecorder()
			guarded.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("%s: %s from %q: status %d, want %d", name, c.method, c.origin, w.Code, c.want)
			}
			wantProtected(t, w)
		}
	}
}

func TestAServerLeavesClientsThatSendOrReadNothing(t *testing.T) {
	whole := Server(greeting)
	for name, got := range map[string]time.Duration{
		"header": whole.ReadHeaderTimeout, "request": whole.ReadTimeout, "answer": whole.WriteTimeout,
		"idle": whole.IdleTimeout,
	} {
		if got <= 0 || got > 2*time.Minute {
			t.Errorf("timeout %s: %v, want one of at most two minutes", name, got)
		}
	}
	endless := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for b := make([]byte, 1<<20); ; {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	})
	const get = "GET / HTTP/1.1\r\nHost: localhost\r\n"
	for name, c := range map[string]struct {
		request string
		handler http.Handler
		reads   bool
	}{
		"half a header":            {"GET / HT", greeting, true},
		"an announced body":        {get + "Content-Length: 100000\r\n\r\n", greeting, true},
		"no second request":        {get + "\r\n", greeting, true},
		"an answer that is unread": {get + "\r\n", endless, false},
	} {
		t.Run(name, func(t *testing.T) {
			left := make(chan struct{})
			s := Server(c.handler)
			s.ReadHeaderTimeout, s.ReadTimeout = s.ReadHeaderTimeout/500, s.ReadTimeout/1000
			s.WriteTimeout, s.IdleTimeout = s.WriteTimeout/1000, s.IdleTimeout/1000
			s.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateClosed {
					close(left)
				}
			}
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			must(t, err)
			served := make(chan error, 1)
			go func() { served <- s.Serve(l) }()
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
			must(t, err)
			defer conn.Close()
			if _, err := io.Copy(conn, strings.NewReader(c.request)); err != nil {
				t.Fatal(err)
			}
			if c.reads {
				go func() { _, _ = bufio.NewReader(conn).WriteTo(io.Discard) }()
			}
			select {
			case <-left:
			case <-time.After(testkit.Patience):
				t.Error("the server keeps the connection")
			}
			_ = s.Close()
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
	}
}
