package replica

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// sender answers requests of a node for a store, and for the status of nodes of some names.
type sender func(r *http.Request) (body io.ReadCloser, index uint64)

func (s sender) RoundTrip(r *http.Request) (*http.Response, error) {
	h := http.Header{}
	if r.URL.Path == "/v1/status" {
		commit := map[string]string{
			"b": "2000", "c": "2000", "behind": "1000", "new": "0", "ahead": "18446744073709551615",
		}
		known := commit[r.URL.Host]
		if known == "" {
			return nil, errors.New("it does not answer")
		}
		body := io.NopCloser(strings.NewReader(`{"commit":` + known + `}`))
		return &http.Response{StatusCode: http.StatusOK, Header: h, Body: body, Request: r}, nil
	}
	body, index := s(r)
	h.Set(indexHeader, strconv.FormatUint(index, 10))
	return &http.Response{StatusCode: http.StatusOK, Header: h, Body: body, Request: r}, nil
}

// closers counts answers whose bodies are open.
type closers struct {
	of   http.RoundTripper
	open atomic.Int64
}

func (c *closers) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.of.RoundTrip(r)
	if err == nil {
		c.open.Add(1)
		response.Body = &body{response.Body, sync.OnceFunc(func() { c.open.Add(-1) })}
	}
	return response, err
}

type body struct {
	io.ReadCloser

	closed func()
}

func (b *body) Close() error { b.closed(); return b.ReadCloser.Close() }

// receiver returns a node with one key, whose requests go to s. In the end it must have closed all answers: each that
// it has not closed keeps a connection.
func receiver(t *testing.T, s sender, set ...func(*Options)) *Node {
	t.Helper()
	answers := &closers{of: s}
	t.Cleanup(func() {
		if n := answers.open.Load(); n != 0 {
			t.Errorf("%d answers are open", n)
		}
	})
	g := newRealGroup(t, func(o *Options) {
		o.Client = &http.Client{Transport: answers}
		o.Election = 30 * time.Millisecond
		for _, set := range set {
			set(o)
		}
	})
	g.open("a", true)
	g.put("a", "own", "v")
	return g.node("a")
}

// source returns a store with the given number of keys and an index.
func source(t *testing.T, keys int, index uint64) *bloomkv.DB {
	t.Helper()
	db, err := bloomkv.Open("source", &bloomkv.Options{FS: vfstest.NewMem(), MemoryBudget: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // nothing is left to lose
	var b bloomkv.Batch
	for i := range keys {
		b.Put([]byte(key(i)), []byte("of the source"))
	}
	b.SetMark(mark(index))
	if err := db.Apply(&b); err != nil {
		t.Fatal(err)
	}
	return db
}

// export returns a store as a stream, without the tables of have.
func export(t *testing.T, db *bloomkv.DB, have *bloomkv.Inventory) []byte {
	t.Helper()
	x, err := db.Export(t.Context(), bloomkv.ExportOptions{Since: have})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	_, err = x.WriteTo(&b)
	if err := errors.Join(err, x.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unchanged checks that a node has what receiver put into it, and works.
func unchanged(t *testing.T, n *Node) {
	t.Helper()
	sum, err := n.Checksum(t.Context())
	if err != nil || sum.Keys != 1 {
		t.Errorf("after a fetch that failed: %+v, %v, want one key", sum, err)
	}
	if err := n.Put(t.Context(), []byte("own"), []byte("w")); err != nil {
		t.Errorf("after a fetch that failed: put: %v", err)
	}
}

func TestASenderThatStopsIsLeft(t *testing.T) {
	whole := export(t, source(t, 100, 1000), nil)
	for _, sent := range []int{0, len(whole) / 2, len(whole) - 1} {
		synctest.Test(t, func(t *testing.T) {
			n := receiver(t, func(r *http.Request) (io.ReadCloser, uint64) {
				return io.NopCloser(io.MultiReader(bytes.NewReader(whole[:sent]), never{r.Context()})), 1000
			})
			ctx, cancel := context.WithTimeout(t.Context(), 2*n.stallTimeout())
			defer cancel()
			if err := n.fetch(ctx, 1000, []string{"b"}); !errors.Is(err, context.Canceled) || ctx.Err() != nil {
				t.Errorf("after %d bytes: fetch: %v, want an end after %v", sent, err, n.stallTimeout())
			}
			unchanged(t, n)
		})
	}
}

// never has no byte for its reader until a context ends.
type never struct{ ctx context.Context }

func (n never) Read([]byte) (int, error) { <-n.ctx.Done(); return 0, n.ctx.Err() }

// A sender may leave out a table that this node has removed meanwhile. Then all are fetched.
func TestATableThatIsMissingIsFetched(t *testing.T) {
	db := source(t, 100, 1000)
	whole := export(t, db, nil)
	all, err := db.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	without := export(t, db, all)
	if len(without) >= len(whole) {
		t.Fatalf("%d bytes without tables, %d with them", len(without), len(whole))
	}
	requests := 0
	n := receiver(t, func(r *http.Request) (io.ReadCloser, uint64) {
		requests++
		asked, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if len(asked) > 0 {
			return io.NopCloser(bytes.NewReader(without)), 1000
		}
		return io.NopCloser(bytes.NewReader(whole)), 1000
	})
	if err := n.fetch(t.Context(), 1000, []string{"b"}); err != nil || requests != 2 {
		t.Fatalf("fetch: %v, %d requests, want 2", err, requests)
	}
	if sum, err := n.Checksum(t.Context()); err != nil || sum.Keys != 100 || sum.Index != 1000 {
		t.Errorf("after the fetch: %+v, %v, want 100 keys and index 1000", sum, err)
	}
}

// A node with an index above all that is committed would skip every later command.
func TestAStoreIsTakenUpToTheIndexThatOthersKnow(t *testing.T) {
	for name, test := range map[string]struct {
		index, inStream uint64
		from            []string
		want            string // in the error; empty for none
	}{
		"of several nodes":                {2001, 2001, []string{"b", "c"}, "committed"},
		"of several nodes, the last":      {2000, 2000, []string{"b", "c"}, ""},
		"of one node":                     {2001, 2001, []string{"b"}, "committed"},
		"of one node, the last":           {2000, 2000, []string{"b"}, ""},
		"of which one other knows":        {2000, 2000, []string{"b", "c", "behind"}, ""},
		"of which no other knows":         {2001, 2001, []string{"ahead", "c"}, "committed"},
		"of a node without other answers": {3000, 3000, []string{"ahead", "mute"}, ""},
		"that another node needs as well": {2000, 2000, []string{"b", "new"}, ""},
		"above what its node knows":       {2001, 2001, []string{"b", "new"}, "committed"},
		"without any answer":              {1000, 1000, []string{"mute"}, "committed"},
		"that the answer does not have":   {1000, 1 << 60, []string{"b", "c"}, "mark"},
	} {
		t.Run(name, func(t *testing.T) {
			stream := export(t, source(t, 10, test.inStream), nil)
			n := receiver(t, func(*http.Request) (io.ReadCloser, uint64) {
				return io.NopCloser(bytes.NewReader(stream)), test.index
			})
			err := n.fetchFrom(t.Context(), 1000, test.from[0], test.from, true)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("fetch: %v, want an error with %q", err, test.want)
				}
				unchanged(t, n)
			} else if got := n.fsm.applied.load(); err != nil || got != test.index {
				t.Errorf("fetch: %v, index %d, want %d", err, got, test.index)
			}
		})
	}
}

func TestAStoreThatIsTooOldOrDamagedIsRefused(t *testing.T) {
	whole := export(t, source(t, 100, 1000), nil)
	flipped := bytes.Clone(whole)
	flipped[len(whole)/2] ^= 1
	for name, stream := range map[string][]byte{
		"cut": whole[:len(whole)/2], "flipped": flipped, "none": nil,
	} {
		t.Run(name, func(t *testing.T) {
			n := receiver(t, func(*http.Request) (io.ReadCloser, uint64) {
				return io.NopCloser(bytes.NewReader(stream)), 1000
			})
			if err := n.fetch(t.Context(), 1000, []string{"b"}); err == nil {
				t.Error("fetch: no error")
			}
			unchanged(t, n)
		})
	}
	n := receiver(t, func(*http.Request) (io.ReadCloser, uint64) {
		return io.NopCloser(bytes.NewReader(whole)), 999
	})
	err := n.fetch(t.Context(), 1000, []string{"b", "c"})
	if err == nil || strings.Count(err.Error(), "its store has index 999") != 2 {
		t.Errorf("fetch of older stores: %v, want an error that names both", err)
	}
	unchanged(t, n)
}

// paced is a store that travels slowly: each read takes a time.
type paced struct {
	io.Reader

	pace time.Duration
}

func (p paced) Read(b []byte) (int, error) {
	time.Sleep(p.pace)
	return p.Reader.Read(b[:min(len(b), 1000)])
}

func TestASenderThatIsSlowIsNotLeft(t *testing.T) {
	whole := export(t, source(t, 1000, 1000), nil)
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		var n *Node
		n = receiver(t, func(*http.Request) (io.ReadCloser, uint64) {
			reads = len(whole) / 1000
			return io.NopCloser(paced{bytes.NewReader(whole), n.stallTimeout() - 1}), 1000
		})
		begin := time.Now()
		err := n.fetch(t.Context(), 1000, []string{"b"})
		if took := time.Since(begin); err != nil || reads < 3 || took < time.Duration(reads)*(n.stallTimeout()-1) {
			t.Errorf("fetch: %v after %v, want none after %d reads", err, took, reads)
		}
	})
}

// The disk of the receiver takes longer than a sender may take for its next byte.
func TestASenderIsNotLeftForWhatTheReceiverTakes(t *testing.T) {
	whole := export(t, source(t, 1000, 1000), nil)
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		var syncs atomic.Int64
		n := receiver(t, func(*http.Request) (io.ReadCloser, uint64) {
			slow.Store(true)
			return io.NopCloser(bytes.NewReader(whole)), 1000
		}, func(o *Options) {
			o.FS = vfstest.NewHook(o.FS, func(op vfstest.Op) error {
				sync := op.Kind == vfstest.OpSync || op.Kind == vfstest.OpSyncDir
				if slow.Load() && sync && strings.HasPrefix(op.Name, "/node/data") {
					syncs.Add(1)
					time.Sleep(100 * o.Election)
				}
				return nil
			})
		})
		err := n.fetch(t.Context(), 1000, []string{"b"})
		slow.Store(false)
		if err != nil || syncs.Load() == 0 {
			t.Errorf("fetch: %v after %d syncs, want none after some", err, syncs.Load())
		}
	})
}
