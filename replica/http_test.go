package replica

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// answerOf returns what a node answers to a request for a host.
func answerOf(t *testing.T, n *Node, method, path, host, token string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, bytes.NewReader(nil))
	r.Host = host
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	n.Handler().ServeHTTP(w, r)
	return w
}

// A page of any site can have its own name lead to this machine. Its requests are for that name.
func TestWithoutATokenOnlyRequestsForThisNodeAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, func(o *Options) { o.Hosts = []string{"db.example:8081"} })
		g.open("a", true)
		g.put("a", "k", "v")
		for _, request := range [][2]string{
			{http.MethodGet, "/v1/kv?key=k&stale=1"},
			{http.MethodGet, "/v1/scan?stale=1"},
			{http.MethodGet, "/v1/status"},
			{http.MethodGet, "/v1/digest"},
			{http.MethodGet, "/v1/checksum"},
			{http.MethodPost, "/v1/export"},
			{http.MethodPut, "/v1/kv?key=k"},
			{http.MethodPost, "/v1/leave?id=x"},
		} {
			for host, want := range map[string]int{
				"site.example": http.StatusForbidden, "site.example:8081": http.StatusForbidden, "a": http.StatusOK,
				"db.example": http.StatusOK, "localhost:8081": http.StatusOK, "127.0.0.1:8081": http.StatusOK,
			} {
				w := answerOf(t, g.node("a"), request[0], request[1], host, "")
				if w.Code != want || w.Header().Get("Cross-Origin-Resource-Policy") != "same-origin" {
					t.Errorf("%s for host %s: %d, %v, want %d", request, host, w.Code, w.Header(), want)
				}
			}
		}
		g.want("a", "k", "")
	})
}

// A page has no token, and a node may have names that it does not know, as behind a balancer.
func TestWithATokenRequestsForEveryHostAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, func(o *Options) { o.Token = "secret" })
		g.open("a", true)
		for token, want := range map[string]int{"secret": http.StatusOK, "": http.StatusUnauthorized} {
			w := answerOf(t, g.node("a"), http.MethodGet, "/v1/status", "balancer.example", token)
			if w.Code != want || w.Header().Get("Cross-Origin-Resource-Policy") != "same-origin" {
				t.Errorf("with token %q: %d, %v, want %d", token, w.Code, w.Header(), want)
			}
		}
	})
}

func TestRequestsReadTheWholeStoreOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.open("a", true)
		n := g.node("a")
		n.whole <- struct{}{} // as if a request did
		for _, path := range []string{"/v1/digest", "/v1/checksum"} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
			r.Host = "localhost"
			w := httptest.NewRecorder()
			n.Handler().ServeHTTP(w, r)
			cancel()
			if w.Code == http.StatusOK {
				t.Errorf("GET %s while another request reads the whole store: %d, want an error", path, w.Code)
			}
		}
		<-n.whole
		err := n.readWhole(t.Context(), func() error { return io.EOF })
		if !errors.Is(err, io.EOF) || len(n.whole) > 0 {
			t.Errorf("a read that fails: %v, and it still counts as one: %v", err, len(n.whole) > 0)
		}
		for _, path := range []string{"/v1/digest", "/v1/checksum", "/v1/digest"} {
			w := answerOf(t, n, http.MethodGet, path, "localhost", "")
			if w.Code != http.StatusOK {
				t.Errorf("GET %s: %d, %s, want %d", path, w.Code, w.Body, http.StatusOK)
			}
			if got := w.Header().Get("Content-Length"); path == "/v1/digest" && got != strconv.Itoa(w.Body.Len()) {
				t.Errorf("a digest of %d bytes says %s", w.Body.Len(), got)
			}
		}
	})
}

func TestAScanHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.open("a", true)
		value := string(make([]byte, MaxBatchSize/4))
		for i := range 8 {
			g.put("a", key(i), value)
		}
		w := answerOf(t, g.node("a"), http.MethodGet, "/v1/scan", "localhost", "")
		if most := 3 * MaxBatchSize; w.Code != http.StatusOK || w.Body.Len() > most ||
			!bytes.Contains(w.Body.Bytes(), []byte(`"more":true`)) {
			t.Errorf("scan of %d bytes: %d, %d bytes, want at most %d and that there is more",
				8*len(value), w.Code, w.Body.Len(), most)
		}
		for limit, more := range map[int]bool{3: false, 2: true} { // as many as there are from key 5 on, and one less
			path := fmt.Sprintf("/v1/scan?from=%s&limit=%d", key(5), limit)
			var got struct {
				Pairs []pair
				More  bool
			}
			err := json.Unmarshal(answerOf(t, g.node("a"), http.MethodGet, path, "localhost", "").Body.Bytes(), &got)
			if err != nil || len(got.Pairs) != limit || got.More != more {
				t.Errorf("limit %d of 3: %d pairs, %v, %v; want more %v", limit, len(got.Pairs), got.More, err, more)
			}
		}
		for _, limit := range []int{0, -1, maxScan + 1} {
			w := answerOf(t, g.node("a"), http.MethodGet, fmt.Sprintf("/v1/scan?limit=%d", limit), "localhost", "")
			if w.Code != http.StatusBadRequest || bytes.Contains(w.Body.Bytes(), []byte("pairs")) {
				t.Errorf("limit %d: %d, %.100q, want %d and no pairs", limit, w.Code, w.Body, http.StatusBadRequest)
			}
		}
	})
}

// The connection of a writer ends early. What has come could be a whole request.
func TestARequestThatBreaksOffIsNotCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.open("a", true)
		g.put("a", "k", "v")
		var b bloomkv.Batch
		b.Put([]byte("k"), []byte("part"))
		batch, err := b.MarshalBinary()
		testkit.Must(t, err)
		for _, c := range []struct{ method, path, part string }{
			{http.MethodPut, "/v1/kv?key=k", "part"},
			{http.MethodPost, "/v1/batch", `[{"op":"put","key":"aw==","value":"cGFydA=="}`},
			{http.MethodPost, "/v1/apply", string(batch)},
			{http.MethodPost, exportPath, ""},
		} {
			part := io.MultiReader(strings.NewReader(c.part), iotest.ErrReader(io.ErrUnexpectedEOF))
			r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, part)
			r.Host = "localhost"
			w := httptest.NewRecorder()
			g.node("a").Handler().ServeHTTP(w, r)
			if w.Code != http.StatusBadRequest || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s: %d, %q, want %d", c.path, w.Code, w.Body, http.StatusBadRequest)
			}
		}
		g.want("a", "k", "v")
	})
}

func TestARequestThatWasPassedOnIsNotPassedOnAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.three()
		var b bloomkv.Batch
		b.Put([]byte("k"), []byte("v"))
		batch, err := b.MarshalBinary()
		testkit.Must(t, err)
		for _, path := range []string{"/v1/apply", "/v1/join?id=x&address=x", "/v1/leave?id=c"} {
			leader := g.leader()
			other := map[string]string{"a": "b", "b": "c", "c": "a"}[leader]
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(batch))
			r.Host = "localhost"
			r.Header.Set(forwarded, "1")
			w := httptest.NewRecorder()
			g.node(other).Handler().ServeHTTP(w, r)
			if w.Code != http.StatusMisdirectedRequest || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s: %d, %s, want %d", path, w.Code, w.Body, http.StatusMisdirectedRequest)
			}
			if n := len(g.node(g.leader()).members()); n != 3 {
				t.Errorf("after %s the group has %d members, want 3", path, n)
			}
		}
	})
}

// The key of a scan is overwritten by the next one.
func TestAScanAnswersWithCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.open("a", true)
		want := map[string]string{}
		for i := range 8 {
			want[key(i)] = strings.Repeat(key(i)[len(key(i))-1:], 3_000)
			g.put("a", key(i), want[key(i)])
		}
		testkit.Must(t, g.node("a").db.Flush(t.Context()))
		var got struct{ Pairs []pair }
		body := answerOf(t, g.node("a"), http.MethodGet, "/v1/scan", "localhost", "").Body.Bytes()
		testkit.Must(t, json.Unmarshal(body, &got))
		if len(got.Pairs) != len(want) {
			t.Errorf("%d pairs, want %d", len(got.Pairs), len(want))
		}
		for _, p := range got.Pairs {
			if want[string(p.Key)] != string(p.Value) {
				t.Errorf("%s has %.10q…, want %.10q…", p.Key, p.Value, want[string(p.Key)])
			}
		}
	})
}

func TestOnlyStoresAndRaftMayTakeLong(t *testing.T) {
	for path, brieflyAnswered := range map[string]bool{"/v1/kv": true, exportPath: false, raftPath: false} {
		asked := false
		brief(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked = true
			if _, limited := r.Context().Deadline(); limited != brieflyAnswered {
				t.Errorf("%s is limited: %v, want %v", path, limited, brieflyAnswered)
			}
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, http.NoBody))
		if !asked {
			t.Errorf("%s is not answered", path)
		}
	}
}

func TestBytesThatAreNoBatchOrInventoryAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.open("a", true)
		g.put("a", "k", "v")
		var marked bloomkv.Batch
		marked.SetMark([]byte("of a caller"))
		raw, err := marked.MarshalBinary()
		testkit.Must(t, err)
		for path, empty := range map[string]int{"/v1/apply": http.StatusBadRequest, exportPath: http.StatusOK} {
			for body, want := range map[string]int{
				"": empty, "neither": http.StatusBadRequest, string(raw): http.StatusBadRequest,
			} {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
				r.Host = "localhost"
				w := httptest.NewRecorder()
				g.node("a").Handler().ServeHTTP(w, r)
				if w.Code != want {
					t.Errorf("POST %s with %q: %d, want %d", path, body, w.Code, want)
				}
			}
		}
		n := g.node("a")
		g.closeNode("a")
		for _, path := range []string{"/v1/term", "/v1/checksum", "/v1/digest"} {
			if w := answerOf(t, n, http.MethodGet, path, "localhost", ""); w.Code == http.StatusOK {
				t.Errorf("GET %s of a closed node: %d, want an error", path, w.Code)
			}
		}
		if w := answerOf(t, n, http.MethodPost, exportPath, "localhost", ""); w.Code == http.StatusOK {
			t.Errorf("an export of a closed node: %d, want an error", w.Code)
		}
		if err := n.Fresh(t.Context(), Linearizable); !errors.Is(err, ErrClosed) {
			t.Errorf("a read of a closed node: %v, want ErrClosed", err)
		}
		if _, err := n.db.Snapshot(); !errors.Is(closedAs(err), ErrClosed) {
			t.Errorf("a snapshot of a closed store: %v, want ErrClosed", closedAs(err))
		}
	})
}

func TestABatchTakesLittleMoreMemoryThanItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.open("a", true)
		g.put("a", "k", "v")
		h := g.node("a").Handler()
		const size = 2 << 20
		for name, c := range map[string]struct {
			body string
			want int
		}{
			"no operations": {"[" + strings.Repeat("{},", size/3) + "{}]", http.StatusBadRequest},
			"more than a batch has": {
				"[" + strings.Repeat(`{"op":"delete"},`, size/16) + `{"op":"delete"}]`, http.StatusOK,
			},
			"no list":            {`{"op":"delete"}`, http.StatusBadRequest},
			"a list in a string": {`"[]"`, http.StatusBadRequest},
			"no end":             {`[{"op":"put","key":"aw=="}`, http.StatusBadRequest},
			"more after the end": {`[{"op":"put","key":"aw=="}] [`, http.StatusBadRequest},
			"nothing":            {"", http.StatusBadRequest},
			"an empty list":      {"[]", http.StatusOK},
		} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/batch", strings.NewReader(c.body))
			r.Host = "localhost"
			w := httptest.NewRecorder()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			h.ServeHTTP(w, r)
			runtime.ReadMemStats(&after)
			if w.Code != c.want {
				t.Errorf("%s: %d, %s, want %d", name, w.Code, w.Body, c.want)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 16*size {
				t.Errorf("%s: %d bytes were allocated for a request of %d", name, got, len(c.body))
			}
		}
	})
}
