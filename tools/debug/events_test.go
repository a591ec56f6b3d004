package debug_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/debug"
)

// An event is one server-sent event.
type event struct{ name, data string }

// watch reads events until the stream ends, which closes the channel. The query may be empty.
func watch(ctx context.Context, t *testing.T, address, query string) <-chan event {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/events"+query, http.NoBody)
	must(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	must(t, err)
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		answer.Body.Close()
		t.Fatalf("events: %s, %v", answer.Status, answer.Header)
	}
	events := make(chan event, 1000)
	go func() {
		defer close(events)
		defer answer.Body.Close()
		var e event
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				e.name = value
			case "data":
				e.data = value
			case "":
				if e.name != "" {
					events <- e
				}
				e = event{}
			}
		}
	}()
	return events
}

// next waits for the next sample that satisfies a condition.
func next(t *testing.T, events <-chan event, what string, is func(debug.Sample) bool) {
	t.Helper()
	const within = testkit.Patience
	deadline := time.After(within)
	for {
		select {
		case e, more := <-events:
			if !more {
				t.Fatalf("%s: the stream has ended", what)
			}
			var s debug.Sample
			must(t, json.Unmarshal([]byte(e.data), &s))
			if e.name == "sample" && is(s) {
				return
			}
		case <-deadline:
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}

func anySample(debug.Sample) bool { return true }

func TestAFlushAndACompactionAreSent(t *testing.T) {
	db := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := watch(ctx, t, serve(t, debug.Handler(db, fast)), "")
	next(t, events, "the first sample", anySample)
	fill(t, db)
	next(t, events, "a flush", func(s debug.Sample) bool { return s.Writes.Flushes > 0 })
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	next(t, events, "a compaction", func(s debug.Sample) bool { return s.Writes.Compactions+s.Writes.Moves > 0 })
}

// A server may allow a request some time only. That is no time for the stream that answers it.
func TestAStreamOutlivesTheReadTimeoutOfItsServer(t *testing.T) {
	db := newStore(t)
	const timeout = 100 * time.Millisecond
	s := httptest.NewUnstartedServer(debug.Handler(db, fast))
	s.Config.ReadTimeout = timeout
	s.Start()
	t.Cleanup(s.Close)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := watch(ctx, t, s.URL, "")
	begin := time.Now()
	next(t, events, "the first sample", anySample)
	next(t, events, "a sample after the timeout", func(debug.Sample) bool {
		must(t, db.Put([]byte("k"), []byte("v"))) // so that there is another one
		return time.Since(begin) > 2*timeout
	})
}

// TestTheTreeFollowsTheStore reads the events of the page, which say when to fetch the picture.
func TestTheTreeFollowsTheStore(t *testing.T) {
	db := newStore(t)
	storetest.Settle(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	address := serve(t, debug.Handler(db, fast))
	_, before := get(t, http.MethodGet, address+"/tree")
	events := watch(ctx, t, address, "?page")
	trees := func() (n float64) {
		e := <-events
		var parts map[string]any
		must(t, json.Unmarshal([]byte(e.data), &parts))
		n, ok := parts["trees"].(float64)
		if e.name != "parts" || !ok || parts["live-rows"] == "" {
			t.Fatalf("got %+v, want the parts of the page", e)
		}
		return n
	}
	first := trees()
	fill(t, db)
	for trees() == first {
	}
	_, after := get(t, http.MethodGet, address+"/tree")
	if n := strings.Count(before, "data-id="); n == 0 || strings.Count(after, "data-id=") <= n {
		t.Errorf("%d tables before a flush, and %d after it", n, strings.Count(after, "data-id="))
	}
	if answer, _ := get(t, http.MethodGet, serve(t, debug.FilesHandler(db.Dir(), fast))+"/tree"); answer.StatusCode !=
		http.StatusNotFound {
		t.Errorf("the tree of a store that is not open here: %s, want 404", answer.Status)
	}
}

func TestAnIdleStoreSendsNothingNew(t *testing.T) {
	db := newStore(t)
	storetest.Settle(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := watch(ctx, t, serve(t, debug.Handler(db, fast)), "")
	next(t, events, "the first sample", anySample)
	time.Sleep(time.Second) // ten intervals
	if n := len(events); n > 3 {
		t.Errorf("%d samples of an idle store; want one that it is idle", n)
	}
}

func TestStreamsEndWhenTheStoreCloses(t *testing.T) {
	db := newStore(t)
	address := serve(t, debug.Handler(db, fast))
	events := watch(t.Context(), t, address, "")
	next(t, events, "the first sample", anySample)
	must(t, db.Close())
	last := event{}
	for e := range events { // ends with the stream
		last = e
	}
	if last != (event{"closed", "{}"}) {
		t.Errorf("the last event is %v, want closed", last)
	}
	if answer, _ := get(t, http.MethodGet, address+"/events"); answer.StatusCode != http.StatusNoContent {
		t.Errorf("events after Close: %s, want 204", answer.Status)
	}
	if _, page := get(t, http.MethodGet, address+"/"); !strings.Contains(page, "The store is closed.") {
		t.Error("the page does not say that the store is closed")
	}
	if r := reportOf(t, address); r.Open || r.Metrics == nil || len(r.Tables) > 0 {
		t.Errorf("the report of a closed store: %+v", r)
	}
	late := serve(t, debug.Handler(db, fast)) // made after Close
	if _, page := get(t, http.MethodGet, late+"/"); !strings.Contains(page, "The store is closed.") {
		t.Error("the page of a handler that was made after Close does not say that the store is closed")
	}
}

func TestAServerThatCannotStreamIsNotAskedAgain(t *testing.T) {
	h := http.TimeoutHandler(debug.Handler(newStore(t), fast), time.Minute, "")
	if answer, body := get(t, http.MethodGet, serve(t, h)+"/events"); answer.StatusCode != http.StatusNotImplemented {
		t.Errorf("%s, %q; want 501, after which a browser does not ask again", answer.Status, body)
	}
}

// TestTwoHundredViewersHoldNothingUp opens streams that are read, streams that are not read, and connections that are
// cut, and checks that the store works on and that everything ends.
func TestTwoHundredViewersHoldNothingUp(t *testing.T) {
	db := newStore(t)
	address := serve(t, debug.Handler(db, fast))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var readers []<-chan event
	for range 50 {
		readers = append(readers, watch(ctx, t, address, ""))
	}
	var mute []net.Conn
	for range 150 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(address, "http://"))
		must(t, err)
		_, err = fmt.Fprint(c, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
		must(t, err)
		mute = append(mute, c)
	}
	for i, c := range mute {
		if i%2 == 0 {
			must(t, c.Close()) // the browser has gone
		}
	}
	var wg sync.WaitGroup
	for i, events := range readers {
		wg.Go(func() {
			deadline := time.After(testkit.Patience) // of a busy machine
			for flushes, gets := uint64(0), uint64(0); flushes == 0 || gets == 0; {
				select {
				case e := <-events:
					var s debug.Sample
					if err := json.Unmarshal([]byte(e.data), &s); err != nil {
						t.Errorf("viewer %d: %q: %v", i, e.data, err)
						return
					}
					flushes, gets = flushes+s.Writes.Flushes, gets+s.Lookups.Gets
				case <-deadline:
					t.Errorf("viewer %d saw %d flushes and %d lookups", i, flushes, gets)
					return
				}
			}
		})
	}
	seen := make(chan struct{})
	go func() {
		wg.Wait()
		close(seen)
	}()
	for all := false; !all; {
		fill(t, db)
		_, err := db.Has([]byte("key0001"))
		must(t, err)
		select {
		case <-seen:
			all = true
		default:
		}
	}
	for i, c := range mute {
		if i%2 == 1 {
			must(t, c.Close())
		}
	}
	cancel()
	testkit.Soon(t, "all streams end", func() bool {
		return !strings.Contains(storetest.LeakedGoroutines(0), "debug.(*handler).serveEvents")
	})
	must(t, db.Close())
	testkit.Soon(t, "the sampler ends", func() bool {
		return !strings.Contains(storetest.LeakedGoroutines(0), "debug.(*sampler).run")
	})
}
