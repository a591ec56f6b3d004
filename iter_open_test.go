package bloomkv_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A records handler keeps the log records.
type records struct {
	mu   sync.Mutex
	said []string
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }

func (r *records) Handle(_ context.Context, rec slog.Record) error {
	said := rec.Message
	rec.Attrs(func(a slog.Attr) bool {
		said += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, said)
	return nil
}

// TestIteratorsLeftOpenAreNamedAtClose checks that Close logs the file and line that opened each iterator.
func TestIteratorsLeftOpenAreNamedAtClose(t *testing.T) {
	var log records
	o := storetest.Tiny(vfstest.NewMem())
	o.Logger = slog.New(&log)
	db, err := bloomkv.Open("db", o)
	must(t, err)
	must(t, errors.Join(db.Put([]byte("a"), nil), db.Put([]byte("b"), nil)))
	snap, err := db.Snapshot()
	must(t, err)
	line := func() int {
		_, _, line, _ := runtime.Caller(1)
		return line
	}
	var want []string
	opened := func(line int) {
		want = append(want, fmt.Sprintf("an iterator was left open opened=iter_open_test.go:%d "+
			"(bloomkv_test.TestIteratorsLeftOpenAreNamedAtClose", line))
	}
	left := []*bloomkv.Iterator{db.Iter(bloomkv.IterOptions{})}
	opened(line() - 1)
	left = append(left, snap.Iter(bloomkv.IterOptions{KeysOnly: true}))
	opened(line() - 1)
	left[1].First() // a move must not change the logged line
	func() {
		left = append(left, db.Iter(bloomkv.IterOptions{Prefix: []byte("a")}))
		opened(line() - 1)
	}()
	for range 3 { // closed iterators are not named, although their memory is reused
		if err := errors.Join(db.Iter(bloomkv.IterOptions{}).Close(),
			snap.Iter(bloomkv.IterOptions{}).Close()); err != nil {
			t.Error(err)
		}
		for _, err := range db.Scan(bloomkv.IterOptions{}) {
			if err != nil {
				t.Error(err)
			}
			break
		}
	}
	rng := rand.New(rand.NewPCG(53, 54))
	var more []*bloomkv.Iterator
	for range 500 { // iterators are opened and closed in any order
		if i := rng.IntN(10); i < len(more) {
			if err := more[i].Close(); err != nil {
				t.Error(err)
			}
			more = slices.Delete(more, i, i+1)
		} else {
			more = append(more, db.Iter(bloomkv.IterOptions{}))
		}
		if n, named := db.Reads().Cursors(), len(db.Reads().Leaked()); n != len(left)+len(more) || named != n {
			t.Fatalf("%d iterators are open and %d can be named, want %d", n, named, len(left)+len(more))
		}
	}
	for _, it := range more {
		if err := it.Close(); err != nil {
			t.Error(err)
		}
	}
	opened(line() + 2)
	opened(line() + 2)
	for _, err := range db.Scan(bloomkv.IterOptions{}) {
		for _, snapErr := range snap.Scan(bloomkv.IterOptions{}) {
			if err != nil || snapErr != nil {
				t.Fatal(err, snapErr)
			}
			if err := db.Close(); err != nil { // in the middle of both
				t.Fatal(err)
			}
			break
		}
		break
	}
	var got []string
	for _, s := range log.said {
		if strings.HasPrefix(s, "an iterator") {
			got = append(got, s)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, it := range left {
		if it.Next() || !errors.Is(it.Close(), bloomkv.ErrClosed) {
			t.Errorf("it still moves: %q", it.Key())
		}
	}
	if err := snap.Close(); err != nil {
		t.Error(err)
	}
}
