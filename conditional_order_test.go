package bloomkv_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
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
			db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
				if gated && op.Kind == vfstest.OpReadAt && strings.HasSuffix(op.Name, ".sst") &&
					storetest.Inside(storetest.Compare) {
					g.Pass()
				}
				return nil
			})))
			must(t, err)
			must(t, errors.Join(db.Put(key, old), db.Flush(t.Context())))
			atRest(t, db)
			spoilAll(db)
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
				beforeSeq(db, nth, func() {
					if err := change(db); err != nil {
						t.Error(err)
					}
				})
				swap()
			}
			if <-done {
				t.Errorf("%s while the check was at %s: the value was taken for the old one", name, place)
			}
			db.Tree().SeqGate = nil
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

// TestAConditionalWriteOfAGroupSeesARangeDeleteBeforeIt queues a range delete and then conditional writes behind a
// sync, so that one group contains them all.
func TestAConditionalWriteOfAGroupSeesARangeDeleteBeforeIt(t *testing.T) {
	slow, open := storetest.Gated(vfstest.NewMem(), func(op vfstest.Op) bool {
		return op.Kind == vfstest.OpSync && storetest.Inside(storetest.SyncLog)
	})
	db, err := bloomkv.Open("db", storetest.Tiny(slow))
	must(t, err)
	var b bloomkv.Batch
	for i := range 4 {
		b.Put(fmt.Appendf(nil, "key%d", i), []byte("old"))
	}
	must(t, db.ApplyWith(&b, bloomkv.DurabilityNoSync))
	type outcome struct {
		done bool
		err  error
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "key%d", i) }
	calls := []func() (bool, error){
		func() (bool, error) { return true, db.Put([]byte("leader"), nil) }, // waits at the gate
		func() (bool, error) { return true, db.DeleteRange(bloomkv.KeyRange{Lower: key(0), Upper: key(3)}) },
		func() (bool, error) { return db.CompareAndSwap(key(0), []byte("old"), []byte("new")) },
		func() (bool, error) { return db.CompareAndSwap(key(3), []byte("old"), []byte("new")) }, // not deleted
		func() (bool, error) { return db.CompareAndSwap(key(2), []byte("old"), nil) },
	}
	var outcomes []chan outcome
	for i, write := range calls {
		out := make(chan outcome, 1)
		outcomes = append(outcomes, out)
		go func() {
			done, err := write()
			out <- outcome{done, err}
		}()
		storetest.Soon(t, fmt.Sprintf("writer %d waits", i), func() bool {
			leading, waiting := storetest.Writers()
			return leading && waiting == i
		})
	}
	groups := db.Metrics().Writes.Groups
	open()
	for i, want := range []bool{true, true, false, true, false} {
		if got := <-outcomes[i]; got.done != want || got.err != nil {
			t.Errorf("writer %d: %v, %v, want %v", i, got.done, got.err, want)
		}
	}
	if n := db.Metrics().Writes.Groups - groups; n != 1 && n != 2 { // the leader's group may be counted already
		t.Errorf("%d groups, want one for those who waited", n)
	}
	for i, want := range []string{"", "", "", "new"} {
		if got, err := db.Get(key(i)); string(got) != want || (want == "") != errors.Is(err, bloomkv.ErrNotFound) {
			t.Errorf("key %d: %q, %v, want %q", i, got, err, want)
		}
	}
	must(t, db.Close())
}
