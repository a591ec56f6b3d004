package bloomkv

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/vfs"
)

// TestAConditionalWriteSeesWhatIsWrittenDuringItsFirstCheck stops the first check at its read of the key's old value
// from a file, or after its read of the sequence, and changes the key.
func TestAConditionalWriteSeesWhatIsWrittenDuringItsFirstCheck(t *testing.T) {
	key, old, other := []byte("key"), []byte("old"), []byte("other")
	changes := map[string]func(*DB) error{
		"put":                 func(db *DB) error { return db.Put(key, other) },
		"deleted":             func(db *DB) error { return db.Delete(key) },
		"deleted by a range":  func(db *DB) error { return db.DeleteRange([]byte("a"), []byte("z")) },
		"put, in a new table": func(db *DB) error { return errors.Join(db.Put(key, other), db.Flush(t.Context())) },
		"deleted by a range, in a new table": func(db *DB) error {
			return errors.Join(db.DeleteRange(key, nil), db.Flush(t.Context()))
		},
		"put and compacted": func(db *DB) error {
			return errors.Join(db.Put(key, other), db.Compact(t.Context(), nil, nil))
		},
	}
	for name, change := range changes {
		for _, place := range []string{"reading the file", "first sequence", "second sequence"} {
			g := newGate()
			gated := false
			db, err := Open("db", tiny(vfs.NewHook(vfs.NewMem(), func(op vfs.Op) error {
				if gated && op.Kind == vfs.OpReadAt && strings.HasSuffix(op.Name, ".sst") && inside("(*DB).compare") {
					g.pass()
				}
				return nil
			})))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(db.Put(key, old), db.Flush(t.Context())); err != nil {
				t.Fatal(err)
			}
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
				g.wait(t, "the check reads the file")
				if err := change(db); err != nil {
					t.Fatal(err)
				}
				close(g.open)
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
			db.tree.SeqGate = nil
			want := "other"
			if strings.HasPrefix(name, "deleted") {
				want = ""
			}
			if got, err := db.Get(key); string(got) != want || err != nil && !errors.Is(err, ErrNotFound) {
				t.Errorf("%s while the check was at %s: then %q, %v, want %q", name, place, got, err, want)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestAConditionHoldsByWhatItsGroupWroteBefore evaluates a condition after the preceding operations of its group, for a
// key in the memtable, in a table, or absent.
func TestAConditionHoldsByWhatItsGroupWroteBefore(t *testing.T) {
	db := openTiny(t)
	err := errors.Join(db.Put([]byte("table"), []byte("v")), db.Flush(t.Context()), db.Put([]byte("mem"), []byte("v")))
	if err != nil {
		t.Fatal(err)
	}
	put := func(k, v string) []byte { return batch.AppendOp(nil, ikey.Set, []byte(k), []byte(v)) }
	del := func(k string) []byte { return batch.AppendOp(nil, ikey.Delete, []byte(k), nil) }
	cut := func(lo, hi string) []byte {
		if hi == "" {
			return batch.AppendOp(nil, ikey.RangeDelete, []byte(lo), nil)
		}
		return batch.AppendOp(nil, ikey.RangeDelete, []byte(lo), []byte(hi))
	}
	group := func(ops ...[]byte) (all []byte) {
		for _, o := range ops {
			all = append(all, o...)
		}
		return all
	}
	for _, tt := range []struct {
		name string
		ops  func(k string) []byte
		then string // the value that the group leaves, "-" for none, "=" for the previous one
	}{
		{"nothing", func(string) []byte { return nil }, "="},
		{"other keys", func(k string) []byte { return group(put(k+"x", "o"), del(k[:1]), put("", "o")) }, "="},
		{"a put", func(k string) []byte { return put(k, "n") }, "n"},
		{"two puts", func(k string) []byte { return group(put(k, "m"), put(k, "n")) }, "n"},
		{"an empty value", func(k string) []byte { return put(k, "") }, ""},
		{"a deletion", func(k string) []byte { return del(k) }, "-"},
		{"a deletion, then a put", func(k string) []byte { return group(del(k), put(k, "n")) }, "n"},
		{"a put, then a deletion", func(k string) []byte { return group(put(k, "n"), del(k)) }, "-"},
		{"a range around it", func(string) []byte { return cut("a", "z") }, "-"},
		{"a range from it on", func(k string) []byte { return cut(k, k+"\x00") }, "-"},
		{"a range without an end", func(k string) []byte { return cut(k, "") }, "-"},
		{"all", func(string) []byte { return cut("", "") }, "-"},
		{"a range that ends before it", func(k string) []byte { return cut("a", k) }, "="},
		{"a range that begins after it", func(k string) []byte { return cut(k+"\x00", "") }, "="},
		{"a range, then a put", func(k string) []byte { return group(cut("a", "z"), put(k, "n")) }, "n"},
		{"a put, then a range", func(k string) []byte { return group(put(k, "n"), cut("a", "z")) }, "-"},
		{"a put, then a range elsewhere", func(k string) []byte { return group(put(k, "n"), cut(k+"\x00", "")) }, "n"},
	} {
		for key, before := range map[string]string{"mem": "v", "table": "v", "nowhere": "-"} {
			then := tt.then
			if then == "=" {
				then = before
			}
			for _, old := range []string{"-", "v", "n", "m", ""} {
				when := &condition{
					key: []byte(key), hash: db.read.Hash([]byte(key)), state: db.tree.Load(),
					seq: db.tree.NewestSeq(),
				}
				if old != "-" {
					when.old = []byte(old)
				}
				first, err := db.compare(when)
				if err != nil || first != (old == before) {
					t.Fatalf("key %s is %q: %v, %v", key, old, first, err)
				}
				if len(tt.ops(key)) == 0 && !first {
					continue // holds is called only if the first check passed or the group may change the key
				}
				if then == before && !first {
					continue
				}
				if got, err := db.holds(when, tt.ops(key)); err != nil || got != (old == then) {
					t.Errorf("%s, %s which was %q: wants %q: %v, %v, want %v", tt.name, key, before, old, got, err,
						old == then)
				}
			}
		}
	}
	if _, err := db.holds(&condition{key: []byte("k")}, []byte{99}); err == nil {
		t.Error("invalid operations were skipped")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAConditionalWriteOfAGroupSeesARangeDeleteBeforeIt queues a range delete and then conditional writes behind a
// sync, so that one group contains them all.
func TestAConditionalWriteOfAGroupSeesARangeDeleteBeforeIt(t *testing.T) {
	slow, open := gated(vfs.NewMem(), func(op vfs.Op) bool { return op.Kind == vfs.OpSync && inside("(*DB).syncLog") })
	db, err := Open("db", tiny(slow))
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	for i := range 4 {
		b.Put(fmt.Appendf(nil, "key%d", i), []byte("old"))
	}
	if err := db.Apply(&b, NoSync); err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		done bool
		err  error
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "key%d", i) }
	writers := []func() (bool, error){
		func() (bool, error) { return true, db.Put([]byte("leader"), nil) }, // waits at the gate
		func() (bool, error) { return true, db.DeleteRange(key(0), key(3)) },
		func() (bool, error) { return db.CompareAndSwap(key(0), []byte("old"), []byte("new")) },
		func() (bool, error) { return db.CompareAndSwap(key(3), []byte("old"), []byte("new")) }, // not deleted
		func() (bool, error) { return db.CompareAndSwap(key(2), []byte("old"), nil) },
	}
	var outcomes []chan outcome
	for i, write := range writers {
		out := make(chan outcome, 1)
		outcomes = append(outcomes, out)
		go func() {
			done, err := write()
			out <- outcome{done, err}
		}()
		soon(t, fmt.Sprintf("writer %d waits", i), func() bool {
			db.queue.mu.Lock()
			defer db.queue.mu.Unlock()
			return db.queue.leading && len(db.queue.waiting) == i
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
		if got, err := db.Get(key(i)); string(got) != want || (want == "") != errors.Is(err, ErrNotFound) {
			t.Errorf("key %d: %q, %v, want %q", i, got, err, want)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
