package tests

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// tableFilesIn counts the tables in a directory.
func tableFilesIn(t *testing.T, fsys vfs.FS, dir string) (n int) {
	t.Helper()
	names, err := fsys.List(dir)
	must(t, err)
	for _, name := range names {
		if filepath.Ext(name) == ".sst" {
			n++
		}
	}
	return n
}

// TestEveryFailedOperationOfAnIngestIsReportedAndLeavesNothing makes each file operation fail in turn: the ingest is
// visible as a whole or not at all, now and after reopening, and a failed one leaves no file.
func TestEveryFailedOperationOfAnIngestIsReportedAndLeavesNothing(t *testing.T) {
	pairs := map[string]string{}
	for i := range 120 {
		pairs[fmt.Sprintf("key%03d", i*3)] = strings.Repeat("v", 300)
	}
	boom := errors.New("boom")
	for fail := 0; ; fail++ {
		mem := vfstest.NewMem()
		var armed atomic.Bool
		var ops atomic.Int64
		fsys := vfstest.NewHook(mem, func(op vfstest.Op) error {
			if armed.Load() && op.Kind.Changes() && ops.Add(1)-1 == int64(fail) {
				return fmt.Errorf("%v: %w", op, boom)
			}
			return nil
		})
		o := storetest.Tiny(fsys)
		o.Compression = bloomkv.CompressionNone // so that there are several tables
		db, err := bloomkv.Open("db", o)
		must(t, err)
		before := map[string]string{}
		for i := range 40 {
			k := fmt.Sprintf("key%03d", i*7)
			must(t, db.Put([]byte(k), []byte("old")))
			before[k] = "old"
		}
		must(t, db.Flush(t.Context()))
		storetest.AtRest(t, db, mem, "db") // so that only operations of the ingest fail below
		tables := tableFilesIn(t, mem, "db")
		after := maps.Clone(before)
		maps.DeleteFunc(after, func(k, _ string) bool { return k >= "key1" && k < "key2" })
		maps.Copy(after, pairs)

		armed.Store(true)
		err = db.Ingest(t.Context(), storetest.PairsOf(pairs),
			bloomkv.IngestOptions{Replace: &bloomkv.KeyRange{Lower: []byte("key1"), Upper: []byte("key2")}})
		armed.Store(false)
		done := ops.Load() <= int64(fail)
		if done != (err == nil) || err != nil && !errors.Is(err, boom) {
			t.Fatalf("operation %d: %v", fail, err)
		}
		want := before
		if err == nil {
			want = after
		}
		got, readErr := storetest.Contents(db)
		if d := storetest.Diff(got, want); readErr != nil || d != "" {
			t.Fatalf("operation %d, %v: %v, %s", fail, err, readErr, d)
		}
		uncertain := errors.Is(err, bloomkv.ErrReadOnly) // the manifest may name the tables or not
		if n := tableFilesIn(t, mem, "db"); err != nil && !uncertain && n != tables {
			t.Fatalf("operation %d, %v: %d tables, want %d", fail, err, n, tables)
		}
		if closeErr := db.Close(); closeErr != nil && !uncertain {
			t.Fatalf("operation %d: close: %v", fail, closeErr)
		}
		db, openErr := bloomkv.Open("db", storetest.Tiny(mem))
		if openErr != nil {
			t.Fatalf("operation %d, %v: reopened: %v", fail, err, openErr)
		}
		got, readErr = storetest.Contents(db)
		if d := storetest.Diff(got, want); readErr != nil || d != "" &&
			(!uncertain || storetest.Diff(got, after) != "") {
			t.Fatalf("operation %d, %v: reopened: %v, %s", fail, err, readErr, d)
		}
		must(t, db.Close())
		if done {
			if fail < 10 {
				t.Errorf("only %d operations failed: the test tests little", fail)
			}
			return
		}
	}
}

// TestAnIngestThatIsRefusedLeavesNothing ingests keys and values that must be refused.
func TestAnIngestThatIsRefusedLeavesNothing(t *testing.T) {
	mem := vfstest.NewMem()
	db, err := bloomkv.Open("db", storetest.Tiny(mem))
	must(t, err)
	must(t, db.Put([]byte("k"), []byte("v")))
	source := errors.New("of the source")
	// many is enough for several tables before the bad one.
	many := func(last bloomkv.KV, err error) iter.Seq2[bloomkv.KV, error] {
		return func(yield func(bloomkv.KV, error) bool) {
			for i := range 400 {
				k, v := fmt.Appendf(nil, "a%05d", i), []byte(strings.Repeat(strconv.Itoa(i), 100))
				if !yield(bloomkv.KV{Key: k, Value: v}, nil) {
					return
				}
			}
			yield(last, err)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		sorted iter.Seq2[bloomkv.KV, error]
		want   error
	}{
		{"a key before the last", t.Context(), many(bloomkv.KV{Key: []byte("a00001")}, nil), bloomkv.ErrOrder},
		{"the last key again", t.Context(), many(bloomkv.KV{Key: []byte("a00399")}, nil), bloomkv.ErrOrder},
		{"the empty key at the end", t.Context(), many(bloomkv.KV{}, nil), bloomkv.ErrOrder},
		{
			"a key that is too large", t.Context(),
			many(bloomkv.KV{Key: []byte("b" + strings.Repeat("b", bloomkv.MaxKeySize))}, nil),
			bloomkv.ErrTooLarge,
		},
		{"an error of the source", t.Context(), many(bloomkv.KV{}, source), source},
		{"a canceled context", cancelled, many(bloomkv.KV{Key: []byte("b")}, nil), context.Canceled},
	} {
		err := db.Ingest(tt.ctx, tt.sorted, bloomkv.IngestOptions{Replace: &bloomkv.KeyRange{}})
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if n := tableFilesIn(t, mem, "db"); n != 0 {
			t.Errorf("%s: %d tables are left", tt.name, n)
		}
		if got, err := storetest.Contents(db); err != nil || storetest.Diff(got, map[string]string{"k": "v"}) != "" {
			t.Errorf("%s: got %v, %v", tt.name, got, err)
		}
	}
	if err := db.Ingest(t.Context(), storetest.PairsOf(nil), bloomkv.IngestOptions{}); err != nil {
		t.Errorf("ingest of nothing: %v", err)
	}
	if err := db.Ingest(t.Context(), storetest.PairsOf(nil),
		bloomkv.IngestOptions{Replace: &bloomkv.KeyRange{}}); err != nil {
		t.Errorf("replacing everything by nothing: %v", err)
	}
	if got, err := storetest.Contents(db); err != nil || len(got) > 0 {
		t.Errorf("after replacing everything by nothing: got %v, %v", got, err)
	}
	must(t, db.Close())
	if err := db.Ingest(t.Context(), storetest.PairsOf(nil),
		bloomkv.IngestOptions{}); err != bloomkv.ErrClosed { //nolint:errorlint // it is returned bare
		t.Errorf("after Close: %v", err)
	}
}

// TestAnIngestIsSeenWholeOrNotAtAll runs readers of every kind during ingests that write one number under all keys.
func TestAnIngestIsSeenWholeOrNotAtAll(t *testing.T) {
	db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewMem()))
	must(t, err)
	const keys = 60
	write := func(n int) error {
		pairs := map[string]string{}
		for i := range keys {
			pairs[fmt.Sprintf("key%02d", i)] = strconv.Itoa(n)
		}
		return db.Ingest(t.Context(), storetest.PairsOf(pairs), bloomkv.IngestOptions{Replace: &bloomkv.KeyRange{}})
	}
	must(t, write(0))
	stop := make(chan struct{})
	failed := make(chan error, 3)
	read := func(f func() (values []string, err error)) {
		for {
			select {
			case <-stop:
				failed <- nil
				return
			default:
			}
			values, err := f()
			if err != nil || len(values) != keys || values[0] != values[keys-1] || len(slices.Compact(values)) != 1 {
				failed <- fmt.Errorf("saw %d keys, %v, %w", len(values), slices.Compact(values), err)
				return
			}
		}
	}
	go read(func() (values []string, err error) {
		for kv, err := range db.Scan(bloomkv.IterOptions{}) {
			if err != nil {
				return nil, err
			}
			values = append(values, string(kv.Value))
		}
		return values, nil
	})
	go read(func() (values []string, err error) {
		snap, err := db.Snapshot()
		if err != nil {
			return nil, err
		}
		for i := range keys {
			v, err := snap.Get(fmt.Appendf(nil, "key%02d", i))
			if err != nil {
				return nil, err
			}
			values = append(values, string(v))
		}
		return values, snap.Close()
	})
	go read(func() (values []string, err error) {
		ask := make([][]byte, keys)
		for i := range ask {
			ask[i] = fmt.Appendf(nil, "key%02d", i)
		}
		err = db.GetMany(ask, func(_ int, v []byte, _ bool) error {
			values = append(values, string(v))
			return nil
		})
		return values, err
	})
	for n := range storetest.AtStride(200) {
		must(t, write(n))
	}
	close(stop)
	for range 3 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	must(t, db.Close())
}
