//go:build schedule

package bloomkv_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestAKeyThatIsThereIsFoundWhileItIsReplaced replaces a key while a reader has loaded only one of state and sequence.
// The reader returns either value, and never ErrNotFound.
func TestAKeyThatIsThereIsFoundWhileItIsReplaced(t *testing.T) {
	key := []byte("key")
	found := func(v []byte, err error) error {
		if err == nil && string(v) != "old" && string(v) != "new" {
			err = fmt.Errorf("value %q", v)
		}
		return err
	}
	readers := map[string]func(db *bloomkv.DB) error{
		"Get":       func(db *bloomkv.DB) error { return found(db.Get(key)) },
		"AppendGet": func(db *bloomkv.DB) error { return found(db.AppendGet(nil, key)) },
		"GetTraced": func(db *bloomkv.DB) error {
			v, _, err := db.GetTraced(key)
			return found(v, err)
		},
		"View": func(db *bloomkv.DB) error { return db.View(key, func(v []byte) error { return found(v, nil) }) },
		"Has": func(db *bloomkv.DB) error {
			ok, err := db.Has(key)
			if err == nil && !ok {
				err = bloomkv.ErrNotFound
			}
			return err
		},
		"MayContain": func(db *bloomkv.DB) error {
			if !db.MayContain(key) {
				return bloomkv.ErrNotFound
			}
			return nil
		},
		"GetMany": func(db *bloomkv.DB) error {
			return db.GetMany([][]byte{key}, func(_ int, v []byte, ok bool) error {
				if !ok {
					return bloomkv.ErrNotFound
				}
				return found(v, nil)
			})
		},
		"Iter": func(db *bloomkv.DB) error {
			it := db.Iter(bloomkv.IterOptions{})
			ok := it.First()
			v := append([]byte{}, it.Value()...)
			if err := it.Close(); err != nil || !ok {
				return errors.Join(err, bloomkv.ErrNotFound)
			}
			return found(v, nil)
		},
		"Snapshot": func(db *bloomkv.DB) error {
			s, err := db.Snapshot()
			if err != nil {
				return err
			}
			v, err := s.Get(key)
			return errors.Join(found(v, err), s.Close())
		},
	}
	for name, read := range readers {
		for _, place := range []string{"a memtable", "a table"} {
			for side, moment := range map[string]string{"before": beforeSeq, "after": afterSeq} {
				for times := 1; times <= 3; times++ { // a reader that finds another state reads the sequence again
					db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewMem()))
					// Versions newer than a snapshot keep their sequence numbers through a compaction.
					snapshot, err := db.Snapshot()
					if err == nil {
						err = db.Put(key, []byte("old"))
					}
					if err == nil && place == "a table" {
						err = db.Flush(t.Context())
					}
					must(t, err)
					nth, left := 1, times
					if name == "Snapshot" {
						nth = 2 // the first is read under locks, which would block the replacement
					}
					var again func()
					again = func() {
						replace(t, db, key, []byte("new"))
						if left--; left > 0 {
							at(moment, 1, again)
						}
					}
					off := at(moment, nth, again)
					if err := read(db); err != nil {
						t.Errorf("%s of a key in %s that is replaced %s each of %d readings of the sequence: %v",
							name, place, side, times, err)
					}
					off()
					must(t, errors.Join(snapshot.Close(), db.Close()))
				}
			}
		}
	}
}

// TestAStateIsHeldInsideAGuard changes the tree and removes obsolete files between the two steps in which a long-lived
// reader acquires its state.
func TestAStateIsHeldInsideAGuard(t *testing.T) {
	readers := map[string]func(db *bloomkv.DB) (map[string]string, error){
		"Scan": storetest.Contents,
		"GetMany": func(db *bloomkv.DB) (map[string]string, error) {
			all := map[string]string{}
			keys := [][]byte{[]byte("a"), []byte("b")}
			return all, db.GetMany(keys, func(i int, v []byte, found bool) error {
				if found {
					all[string(keys[i])] = string(v)
				}
				return nil
			})
		},
	}
	for name, read := range readers {
		for _, replaced := range []bool{false, true} { // false: a new state that keeps these tables
			db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewMem()))
			write := func(key, value string) {
				if err := errors.Join(db.Put([]byte(key), []byte(value)), db.Flush(t.Context())); err != nil {
					t.Error(err)
				}
			}
			write("a", "old")
			write("b", "old")
			atRest(t, db)
			spoilAll(db)
			changed := false
			between := func() {
				if changed || !storetest.Inside(storetest.HoldState) { // background work: the calls below wait for it
					return
				}
				changed = true
				if replaced {
					write("a", "new")
					write("b", "new")
					if err := db.Compact(t.Context(), bloomkv.CompactOptions{}); err != nil {
						t.Error(err)
					}
				}
				db.Tree().Domain.Collect()
				write("x", "") // each flush removes obsolete files
				write("x", "")
			}
			off := step.On("tree: hold", between)
			got, err := read(db)
			off()
			if !changed {
				t.Errorf("%s: nothing was changed meanwhile", name)
			}
			if err != nil || got["a"] != got["b"] || got["a"] == "" {
				t.Errorf("%s, of a store that was changed meanwhile (%v): %q, %v; want two equal values", name,
					replaced, got, err)
			}
			write("x", "")
			write("x", "")
			spoilAll(db)
			if got, err = storetest.Contents(db); err != nil || len(got) != 3 {
				t.Errorf("after %s: %q, %v; want three keys", name, got, err)
			}
			must(t, db.Close())
		}
	}
}

// at calls f once, at the nth moment of a name, counted from 1, of which f may have more. The result ends that.
func at(moment string, nth int, f func()) (off func()) {
	var calls atomic.Int64
	return step.On(moment, func() {
		if calls.Add(1) == int64(nth) {
			f()
		}
	})
}

// Moments at which a reader reads the newest sequence, or has read it and has not used it yet.
const (
	beforeSeq = "sequence: read"
	afterSeq  = "sequence: known"
)

// TestAConditionalWriteSeesWhatIsWrittenDuringItsFirstCheck stops the first check at its read of the key's old value
// from a file, or after its read of the sequence, and changes the key.
func TestAConditionalWriteSeesWhatIsWrittenDuringItsFirstCheck(t *testing.T) {
	key, old, other := []byte("key"), []byte("old"), []byte("other")
	changes := map[string]func(*bloomkv.DB) error{
		"put":     func(db *bloomkv.DB) error { return db.Put(key, other) },
		"deleted": func(db *bloomkv.DB) error { return db.Delete(key) },
		"deleted by a range": func(db *bloomkv.DB) error {
			return db.DeleteRange(bloomkv.KeyRange{Lower: []byte("a"), Upper: []byte("z")})
		},
		"put, in a new table": func(db *bloomkv.DB) error {
			return errors.Join(db.Put(key, other), db.Flush(t.Context()))
		},
		"deleted by a range, in a new table": func(db *bloomkv.DB) error {
			return errors.Join(db.DeleteRange(bloomkv.KeyRange{Lower: key}), db.Flush(t.Context()))
		},
		"put and compacted": func(db *bloomkv.DB) error {
			return errors.Join(db.Put(key, other), db.Compact(t.Context(), bloomkv.CompactOptions{}))
		},
	}
	for name, change := range changes {
		for _, place := range []string{"reading the file", "first sequence", "second sequence"} {
			g := storetest.NewGate()
			gated := false
			db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
				if gated && op.Kind == vfstest.OpReadAt && strings.HasSuffix(op.Name, ".sst") &&
					storetest.Inside(storetest.Compare) {
					g.Pass()
				}
				return nil
			})))
			must(t, errors.Join(db.Put(key, old), db.Flush(t.Context())))
			atRest(t, db)
			spoilAll(db)
			off := func() {}
			done := make(chan bool, 1)
			swap := func() {
				ok, err := db.CompareAndSwap(key, old, []byte("new"))
				if err != nil {
					t.Error(err)
				}
				done <- ok
			}
			switch place {
			case "reading the file":
				gated = true
				go swap()
				g.Wait(t, "the check reads the file")
				must(t, change(db))
				close(g.Open)
			default:
				nth := map[string]int{"first sequence": 1, "second sequence": 2}[place]
				off = at(beforeSeq, nth, func() {
					if err := change(db); err != nil {
						t.Error(err)
					}
				})
				swap()
			}
			if <-done {
				t.Errorf("%s while the check was at %s: the value was taken for the old one", name, place)
			}
			off()
			want := "other"
			if strings.HasPrefix(name, "deleted") {
				want = ""
			}
			if got, err := db.Get(key); string(got) != want || err != nil && !errors.Is(err, bloomkv.ErrNotFound) {
				t.Errorf("%s while the check was at %s: then %q, %v, want %q", name, place, got, err, want)
			}
			must(t, db.Close())
		}
	}
}

// TestMetricsOfAWarmStoreHaveItsPromise loads the filters of a store once Metrics has the promise that was made before
// their sizes were known.
func TestMetricsOfAWarmStoreHaveItsPromise(t *testing.T) {
	o := &bloomkv.Options{
		FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync, FilterMemory: 64 << 10,
		FilterKind: bloomkv.FilterBloom, FilterSeed: 1,
	}
	db := storetest.Open(t, "db", o)
	for i := range 60_000 {
		must(t, db.Put(fmt.Appendf(nil, "key%05d", i*7919%60_000), nil))
	}
	must(t, errors.Join(db.Compact(t.Context(), bloomkv.CompactOptions{}), db.Delete([]byte("k")), db.Close()))
	o.ReadOnly = true
	promised := func() float64 {
		_, kept := db.Share().Promise()
		return kept[0].FPR
	}
	gate := storetest.NewGate()
	o.FS = vfstest.NewHook(o.FS, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpOpen && storetest.Inside(storetest.WarmUp) {
			gate.Pass()
		}
		return nil
	})
	db = storetest.Open(t, "db", o)
	gate.Wait(t, "loading")
	before := promised()
	var loading atomic.Bool
	off := step.On("metrics: promise", func() {
		if !loading.Swap(true) {
			close(gate.Open)
			testkit.Soon(t, "it is warm", func() bool { return db.Metrics().Warm })
		}
	})
	meanwhile := db.Metrics()
	off()
	after := db.Metrics()
	if meanwhile.Warm && meanwhile.FPRPromised != after.FPRPromised {
		t.Errorf("warm, %g is promised, and then %g", meanwhile.FPRPromised, after.FPRPromised)
	}
	if now := promised(); now == before {
		t.Errorf("%g is promised before and after: the test tests nothing", now)
	}
	must(t, db.Close())
}
