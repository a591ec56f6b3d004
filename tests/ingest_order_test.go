package tests

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// An ingestRun holds a store, its expected contents, and snapshots.
type ingestRun struct {
	*snapshotRun

	rng *rand.Rand
}

// ingest ingests pairs, replacing a range if replace is not nil.
func (r *ingestRun) ingest(ctx context.Context, pairs map[string]string, replace *bloomkv.KeyRange) error {
	err := r.db.Ingest(ctx, storetest.PairsOf(pairs), bloomkv.IngestOptions{Replace: replace})
	if err == nil {
		if replace != nil {
			modelWrite{{key: string(replace.Lower), ranged: true, end: replace.Upper}}.apply(r.now)
		}
		maps.Copy(r.now, pairs)
	}
	return err
}

// some returns new values for keys of the store, on average for one key in n; a few values are large.
func (r *ingestRun) some(n int) map[string]string {
	pairs := map[string]string{}
	for _, k := range r.keys {
		if r.rng.IntN(n) == 0 {
			r.n++
			pairs[k] = fmt.Sprint("in", r.n, strings.Repeat(".", r.rng.IntN(60)*r.rng.IntN(60)))
		}
	}
	return pairs
}

// TestIngestedKeysLieOverOlderAndUnderNewerOnes ingests between writes of all kinds, with snapshots before and after,
// into memory, over tables and over earlier ingests, and follows the keys to the last level and into a reopened store.
func TestIngestedKeysLieOverOlderAndUnderNewerOnes(t *testing.T) {
	testkit.Long(t)
	tables := 0
	for seed := range uint64(storetest.Seeds(20)) {
		r := &ingestRun{newSnapshotRun(t, seed), rand.New(rand.NewPCG(seed, 101))}
		must := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, what, err)
			}
		}
		bound := func() []byte {
			if r.rng.IntN(5) == 0 {
				return nil
			}
			return []byte(r.keys[r.rng.IntN(len(r.keys))])
		}
		for range 40 {
			for range r.rng.IntN(20) {
				must("write", r.write())
			}
			if r.rng.IntN(3) == 0 {
				must("snapshot", r.take())
			}
			var replace *bloomkv.KeyRange
			switch r.rng.IntN(5) {
			case 0:
				replace = &bloomkv.KeyRange{}
			case 1, 2:
				replace = &bloomkv.KeyRange{Lower: bound(), Upper: bound()} // inverted ranges are empty
			}
			must("ingest", r.ingest(t.Context(), r.some(1+r.rng.IntN(30)), replace))
			for _, runs := range storetest.Recorded(t, r.mem, "db").Version.Levels {
				for _, run := range runs {
					if run.Tables[0].Flags&manifest.SeqOverridden != 0 {
						tables = max(tables, len(run.Tables))
					}
				}
			}
			if r.rng.IntN(3) == 0 {
				must("snapshot", r.take())
			}
			if r.rng.IntN(3) == 0 {
				must("write", r.write())
			}
			if r.rng.IntN(3) == 0 {
				must("compare", r.agree())
			}
			switch r.rng.IntN(8) {
			case 0:
				must("flush", r.db.Flush(t.Context()))
			case 1:
				must("compact", r.db.Compact(t.Context(), bloomkv.CompactOptions{}))
			}
			for len(r.snaps) > 4 {
				must("close", r.snaps[0].snap.Close())
				r.snaps = r.snaps[1:]
			}
			if r.rng.IntN(3) == 0 {
				must("compare", r.agree())
			}
		}
		must("compact", r.db.Compact(t.Context(), bloomkv.CompactOptions{}))
		must("compacted", r.agree())
		if values, _ := r.held(); values != r.needed() {
			t.Errorf("seed %d: tables hold %d values, want %d", seed, values, r.needed())
		}
		for _, s := range r.snaps {
			must("close", s.snap.Close())
		}
		mem := r.mem
		must("close", r.db.Close())
		_, err := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: mem})
		must("check", err)
		r.snaps = nil
		r.db = storetest.Open(t, "db", storetest.Tiny(mem))
		must("opened again", r.agree())
		must("compact", r.db.Compact(t.Context(), bloomkv.CompactOptions{}))
		must("compacted again", r.agree())
		if values, tombstones := r.held(); values != len(r.now) || tombstones > 0 {
			t.Errorf("seed %d: %d values and %d tombstones are left, want %d and 0", seed, values, tombstones,
				len(r.now))
		}
		must("close", r.db.Close())
	}
	if tables < 3 {
		t.Errorf("at most %d tables were ingested at once: the test tests little", tables)
	}
}

// TestWhatAnIngestReplaces tries ranges around the ingested keys and the stored ones.
func TestWhatAnIngestReplaces(t *testing.T) {
	testkit.Long(t)
	old := map[string]string{"a": "1", "b": "1", "c": "1", "d": "1", "": "1"}
	r := func(lo, hi string) *bloomkv.KeyRange {
		k := &bloomkv.KeyRange{}
		if lo != "nil" {
			k.Lower = []byte(lo)
		}
		if hi != "nil" {
			k.Upper = []byte(hi)
		}
		return k
	}
	for _, tt := range []struct {
		name    string
		in      string // ingested keys
		replace *bloomkv.KeyRange
		want    string // stored keys that remain
	}{
		{"keys alone", "bx", nil, " acd"},
		{"nothing at all", "", nil, " abcd"},
		{"all by nothing", "", &bloomkv.KeyRange{}, ""},
		{"all by keys", "bx", &bloomkv.KeyRange{}, ""},
		{"a range by nothing", "", r("b", "d"), " ad"},
		{"a range by keys in it", "bc", r("b", "d"), " ad"},
		{"a range by keys before it", "a", r("b", "d"), " d"},
		{"a range by keys at its end", "d", r("b", "d"), " a"},
		{"a range by keys around it", "ax", r("b", "d"), " d"},
		{"one key by itself", "b", r("b", "b\x00"), " acd"},
		{"an empty range", "b", r("c", "c"), " acd"},
		{"an inverted range", "b", r("d", "a"), " acd"},
		{"from the beginning", "x", r("nil", "c"), "cd"},
		{"to the end", "x", r("c", "nil"), " ab"},
		{"before all", "x", r("nil", ""), " abcd"},
		{"the empty key", "x", r("nil", "\x00"), "abcd"},
		{"nothing, in an inverted range", "", r("d", "a"), " abcd"},
	} {
		for _, where := range []string{"memory", "a table", "the last level", "an ingested table"} {
			t.Run(tt.name+", over "+where, func(t *testing.T) {
				mem := vfstest.NewMem()
				db, err := bloomkv.Open("db", storetest.Tiny(mem))
				must(t, err)
				for k, v := range old {
					if where != "an ingested table" {
						err = errors.Join(err, db.Put([]byte(k), []byte(v)))
					}
				}
				switch where {
				case "a table":
					err = errors.Join(err, db.Flush(t.Context()))
				case "the last level":
					err = errors.Join(err, db.Compact(t.Context(), bloomkv.CompactOptions{}))
				case "an ingested table":
					err = db.Ingest(t.Context(), storetest.PairsOf(old), bloomkv.IngestOptions{})
				}
				snap, snapErr := db.Snapshot()
				must(t, errors.Join(err, snapErr))
				want, in := map[string]string{}, map[string]string{}
				for _, k := range tt.want {
					want[strings.TrimSpace(string(k))] = "1"
				}
				for _, k := range tt.in {
					in[string(k)], want[string(k)] = "2", "2"
				}
				files := lastingFiles(t, mem)
				must(t, db.Ingest(t.Context(), storetest.PairsOf(in),
					bloomkv.IngestOptions{Replace: tt.replace}))
				if strings.HasPrefix(tt.name, "nothing") && where != "memory" &&
					!slices.Equal(lastingFiles(t, mem), files) && tt.replace == nil {
					t.Errorf("an empty ingest left files %q, want %q", lastingFiles(t, mem), files)
				}
				keys := []string{"", "a", "b", "c", "d", "x", "y"}
				must(t, errors.Join(storetest.Shows(db, want, keys), storetest.Shows(snap, old, keys)))
				// These are written after the ingest.
				must(t, errors.Join(db.Put([]byte("b"), []byte("3")), db.Delete([]byte("x"))))
				want["b"] = "3"
				delete(want, "x")
				for range 2 {
					must(t, errors.Join(storetest.Shows(db, want, keys),
						storetest.Shows(snap, old, keys)))
					must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
				}
				must(t, errors.Join(snap.Close(), db.Compact(t.Context(), bloomkv.CompactOptions{}),
					storetest.Shows(db, want, keys), db.Close()))
			})
		}
	}
}

var errSequence2 = errors.New("the sequence's own")

// TestAnIngestThatIsRefusedAtAnyPlaceLeavesNothing ingests sequences with an error at some position, and cancels
// contexts.
func TestAnIngestThatIsRefusedAtAnyPlaceLeavesNothing(t *testing.T) {
	testkit.Long(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	key := func(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }
	for _, tt := range []struct {
		name string
		bad  bloomkv.KV
		err  error // returned by the sequence
		stop int   // the context is canceled before that element (1) or after it (2)
		ctx  context.Context
		want error
	}{
		{name: "the previous key again", bad: bloomkv.KV{Key: key(-1)}, want: bloomkv.ErrOrder},
		{name: "a smaller key", bad: bloomkv.KV{Key: []byte("key")}, want: bloomkv.ErrOrder},
		{name: "the empty key", bad: bloomkv.KV{}, want: bloomkv.ErrOrder},
		{name: "a key too large", bad: bloomkv.KV{Key: make([]byte, bloomkv.MaxKeySize+1)}, want: bloomkv.ErrTooLarge},
		{
			name: "a value too large", bad: bloomkv.KV{Key: []byte("kez"), Value: make([]byte, bloomkv.MaxValueSize+1)},
			want: bloomkv.ErrTooLarge,
		},
		{name: "an error", err: errSequence2, want: errSequence2},
		{name: "an error with a key", bad: bloomkv.KV{Key: []byte("kez")}, err: errSequence2, want: errSequence2},
		{name: "canceled before a key", bad: bloomkv.KV{Key: []byte("kez")}, stop: 1, want: context.Canceled},
		{name: "canceled after the last key", bad: bloomkv.KV{Key: []byte("kez")}, stop: 2, want: context.Canceled},
		{name: "a canceled context", bad: bloomkv.KV{Key: []byte("kez")}, ctx: cancelled, want: context.Canceled},
	} {
		for _, at := range []int{0, 1, 2, 700, 3000} {
			if at == 0 && (errors.Is(tt.want, bloomkv.ErrOrder) || tt.name == "a value too large") {
				continue // there is no element before it, or the case equals position 1 and is slow
			}
			t.Run(fmt.Sprintf("%s at position %d", tt.name, at), func(t *testing.T) {
				mem := vfstest.NewMem()
				db := storetest.Open(t, "db", storetest.Tiny(mem))
				want := map[string]string{"key00001": "old", "z": "old"}
				for k, v := range want {
					must(t, db.Put([]byte(k), []byte(v)))
				}
				must(t, db.Flush(t.Context()))
				storetest.AtRest(t, db, mem, "db")
				files := lastingFiles(t, mem)
				logged := func(db *bloomkv.DB) uint64 { return db.Metrics().Writes.LogBytes }
				before, writes := storetest.Recorded(t, mem, "db").Version.String(), logged(db)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.ctx != nil {
					ctx = tt.ctx
				}
				var replace *bloomkv.KeyRange
				if at%4 == 0 {
					replace = &bloomkv.KeyRange{}
				}
				ended := false
				err := db.Ingest(ctx, func(yield func(bloomkv.KV, error) bool) {
					defer func() { ended = true }()
					for i := range at {
						if !yield(bloomkv.KV{Key: key(i), Value: make([]byte, 100)}, nil) {
							return
						}
					}
					bad := tt.bad
					if string(bad.Key) == string(key(-1)) {
						bad.Key = key(at - 1)
					}
					if tt.stop == 1 {
						cancel()
					}
					if yield(bad, tt.err) && tt.stop != 2 && tt.ctx == nil {
						t.Error("the sequence was read past its error")
					}
					if tt.stop == 2 {
						cancel()
					}
				}, bloomkv.IngestOptions{Replace: replace})
				if !errors.Is(err, tt.want) || !ended && tt.ctx == nil {
					t.Errorf("%v, sequence ended %v, want %v", err, ended, tt.want)
				}
				if tt.err != nil && err != tt.err { //nolint:errorlint // it must be returned unwrapped
					t.Errorf("%v, want the sequence's own error, unwrapped", err)
				}
				if after := lastingFiles(t, mem); !slices.Equal(after, files) {
					t.Errorf("left files %q, want %q", after, files)
				}
				if err := storetest.Shows(db, want, []string{"key00000", "key00001", "z"}); err != nil {
					t.Error(err)
				}
				if after := storetest.Recorded(t, mem, "db").Version.String(); after != before || logged(db) != writes {
					t.Errorf("the store has changed:\n%v\nwant\n%v", after, before)
				}
				// The store still works.
				must(t, db.Ingest(t.Context(), storetest.PairsOf(map[string]string{"z": "new"}),
					bloomkv.IngestOptions{}))
				want["z"] = "new"
				must(t, errors.Join(storetest.Shows(db, want, []string{"z"}), db.Close()))
				if err := db.Ingest(t.Context(), storetest.PairsOf(want),
					bloomkv.IngestOptions{}); err != bloomkv.ErrClosed { //nolint:errorlint // bare
					t.Errorf("after Close: %v", err)
				}
				orphans(t, mem)
			})
		}
	}
}

// lastingFiles returns the names of the files in a store's directory except logs, which are removed in the background.
func lastingFiles(t *testing.T, fsys vfs.FS) (names []string) {
	t.Helper()
	all, err := fsys.List("db")
	must(t, err)
	for _, name := range all {
		if kind, _ := filename.Parse(name); kind != filename.Log {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// orphans fails the test if a closed store's directory has tables that its manifest does not name.
func orphans(t *testing.T, fsys vfs.FS) {
	t.Helper()
	left, err := orphansOf(fsys)
	if err != nil {
		t.Error(err)
	}
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// orphansOf returns the tables and logs in a directory that the manifest does not need, found by opening it read-only.
func orphansOf(fsys vfs.FS) (left []string, err error) {
	o := storetest.Tiny(fsys)
	o.ReadOnly = true
	db, err := bloomkv.Open("db", o)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, t := range db.Tables() {
		names[t.File] = true
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	found, err := fsys.List("db")
	for _, name := range found {
		if kind, _ := filename.Parse(name); kind == filename.Table && !names[name] || kind == filename.Temp {
			left = append(left, name)
		}
	}
	return left, err
}

// TestIngestOfOddSequences ingests a store's own scan, a sequence that panics, and one that uses the store during the
// ingest.
func TestIngestOfOddSequences(t *testing.T) {
	mem := vfstest.NewMem()
	db, err := bloomkv.Open("db", storetest.Tiny(mem))
	must(t, err)
	want := map[string]string{}
	for i := range 500 {
		k := fmt.Sprintf("key%03d", i)
		want[k] = strings.Repeat(k, 5)
		must(t, db.Put([]byte(k), []byte(want[k])))
	}
	keys := []string{"key000", "key499", "absent"}
	if err := db.Ingest(t.Context(), db.Scan(bloomkv.IterOptions{}),
		bloomkv.IngestOptions{Replace: &bloomkv.KeyRange{}}); err != nil {
		t.Fatalf("ingest of its own scan: %v", err)
	}
	if err := storetest.Shows(db, want, keys); err != nil {
		t.Errorf("after an ingest of its own scan: %v", err)
	}
	if err := db.Ingest(t.Context(), func(yield func(bloomkv.KV, error) bool) {
		for kv, err := range db.Scan(bloomkv.IterOptions{Prefix: []byte("key0")}) {
			if !yield(bloomkv.KV{Key: append([]byte("z"), kv.Key...), Value: kv.Value}, err) {
				return
			}
			if err := errors.Join(db.Put([]byte("counter"), kv.Key), db.Flush(t.Context())); err != nil &&
				string(kv.Key) > "key090" {
				t.Error(err)
			}
		}
	}, bloomkv.IngestOptions{}); err != nil {
		t.Fatalf("ingest of a sequence that writes: %v", err)
	}
	want["counter"] = "key099"
	for i := range 100 {
		k := fmt.Sprintf("key%03d", i)
		want["z"+k] = want[k]
	}
	if err := storetest.Shows(db, want, keys); err != nil {
		t.Errorf("after an ingest of a sequence that writes: %v", err)
	}
	storetest.Settle(t, db)

	func() {
		defer func() {
			if r := recover(); r != "boom" {
				t.Errorf("recovered %v, want boom", r)
			}
		}()
		_ = db.Ingest(t.Context(), func(yield func(bloomkv.KV, error) bool) {
			for i := range 1000 {
				yield(bloomkv.KV{Key: fmt.Appendf(nil, "zz%04d", i), Value: make([]byte, 100)}, nil)
			}
			panic("boom")
		}, bloomkv.IngestOptions{})
	}()
	if err := storetest.Shows(db, want, keys); err != nil {
		t.Errorf("after an ingest of a sequence that panics: %v", err)
	}
	testkit.Within(t, "Close after a sequence panicked", func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	orphans(t, mem)

	o := storetest.Tiny(mem)
	o.ReadOnly = true
	db = storetest.Open(t, "db", o)
	asked := false
	var odd iter.Seq2[bloomkv.KV, error] = func(func(bloomkv.KV, error) bool) { asked = true }
	if err := db.Ingest(t.Context(), odd, bloomkv.IngestOptions{}); !errors.Is(err, bloomkv.ErrReadOnly) || asked {
		t.Errorf("read-only: %v, sequence was read: %v", err, asked)
	}
	must(t, db.Close())
	if _, err := mem.Stat(filepath.Join("db", "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
