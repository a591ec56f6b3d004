package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// sender answers requests of a node for a store.
type sender func(r *http.Request) (body io.ReadCloser, index uint64)

func (s sender) RoundTrip(r *http.Request) (*http.Response, error) {
	h := http.Header{}
	if r.URL.Path == "/v1/status" {
		body := io.NopCloser(strings.NewReader(`{"commit":2000}`))
		return &http.Response{StatusCode: http.StatusOK, Header: h, Body: body, Request: r}, nil
	}
	body, index := s(r)
	h.Set(indexHeader, strconv.FormatUint(index, 10))
	return &http.Response{StatusCode: http.StatusOK, Header: h, Body: body, Request: r}, nil
}

// receiver returns a node with one key, whose requests go to s.
func receiver(t *testing.T, s sender) *Node {
	t.Helper()
	g := newGroup(t, func(o *Options) {
		o.Client = &http.Client{Transport: s}
		o.Election = 30 * time.Millisecond
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
		t.Run(fmt.Sprintf("%d bytes", sent), func(t *testing.T) {
			n := receiver(t, func(r *http.Request) (io.ReadCloser, uint64) {
				return io.NopCloser(io.MultiReader(bytes.NewReader(whole[:sent]), never{r.Context()})), 1000
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := n.fetch(ctx, 1000, []string{"b"}); !errors.Is(err, context.Canceled) || ctx.Err() != nil {
				t.Errorf("fetch: %v, want an end long before a minute", err)
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
func TestAStoreWithAnIndexThatOthersDoNotKnowIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		index, inStream uint64
		from            []string
		want            string
	}{
		"of several nodes":              {1 << 60, 1 << 60, []string{"b", "c"}, "committed"},
		"of one node":                   {2001, 2001, []string{"b"}, "committed"},
		"that the answer does not have": {1000, 1 << 60, []string{"b", "c"}, "mark"},
	} {
		t.Run(name, func(t *testing.T) {
			stream := export(t, source(t, 10, test.inStream), nil)
			n := receiver(t, func(*http.Request) (io.ReadCloser, uint64) {
				return io.NopCloser(bytes.NewReader(stream)), test.index
			})
			if err := n.fetch(t.Context(), 1000, test.from); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("fetch: %v, want an error with %q", err, test.want)
			}
			unchanged(t, n)
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
	if err := n.fetch(t.Context(), 1000, []string{"b"}); err == nil {
		t.Error("fetch of an older store: no error")
	}
	unchanged(t, n)
}
