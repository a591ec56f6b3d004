package tests

import (
	"errors"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// writeCalls are the calls of a DB, or of With, that write.
type writeCalls interface {
	bloomkv.Writer
	Apply(b *bloomkv.Batch) error
	PutIfAbsent(key, value []byte) (bool, error)
	CompareAndSwap(key, old, value []byte) (bool, error)
	CompareAndDelete(key, old []byte) (bool, error)
}

// TestWithSetsTheDurabilityOfEachCall makes each call that writes, after an unsynced write, and cuts the power. If the
// call synced, both are there afterwards, otherwise none.
func TestWithSetsTheDurabilityOfEachCall(t *testing.T) {
	must := func(done bool, err error) error {
		if err == nil && !done {
			err = errors.New("the condition did not hold")
		}
		return err
	}
	a, b, c, v, w := []byte("a"), []byte("b"), []byte("c"), []byte("v"), []byte("w")
	calls := []struct {
		name string
		call func(writeCalls) error
		left []string // keys and values, if the call is durable
	}{
		{"Put", func(db writeCalls) error { return db.Put(c, v) }, []string{"a=v", "b=v", "c=v"}},
		{"Delete", func(db writeCalls) error { return db.Delete(a) }, []string{"b=v"}},
		{"DeleteRange", func(db writeCalls) error { return db.DeleteRange(nil, b) }, []string{"b=v"}},
		{"Apply", func(db writeCalls) error {
			var two bloomkv.Batch
			two.Delete(a)
			two.Put(c, v)
			return db.Apply(&two)
		}, []string{"b=v", "c=v"}},
		{"Apply of nothing", func(db writeCalls) error { return db.Apply(new(bloomkv.Batch)) }, []string{"a=v", "b=v"}},
		{"PutIfAbsent", func(db writeCalls) error {
			return must(db.PutIfAbsent(c, v))
		}, []string{"a=v", "b=v", "c=v"}},
		{"CompareAndSwap", func(db writeCalls) error {
			return must(db.CompareAndSwap(b, v, w))
		}, []string{"a=v", "b=w"}},
		{"CompareAndDelete", func(db writeCalls) error { return must(db.CompareAndDelete(b, v)) }, []string{"a=v"}},
	}
	durabilities := []bloomkv.Durability{bloomkv.Sync, bloomkv.NoSync}
	for _, tt := range calls {
		for _, option := range durabilities {
			check(t, tt.name+" itself", option, option == bloomkv.Sync, tt.left,
				func(db *bloomkv.DB) error { return tt.call(db) })
			for _, with := range durabilities {
				check(t, tt.name+" with a durability", option, with == bloomkv.Sync, tt.left,
					func(db *bloomkv.DB) error { return tt.call(db.With(with)) })
			}
		}
	}
}

// check opens a store, syncs a = v, does not sync b = v, calls write, cuts the power, and compares what is left.
func check(
	t *testing.T, name string, option bloomkv.Durability, durable bool, left []string, write func(*bloomkv.DB) error,
) {
	t.Helper()
	disk := vfstest.NewMem()
	o := storetest.Tiny(disk)
	o.Durability = option
	db, err := bloomkv.Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := errors.Join(db.With(bloomkv.Sync).Put([]byte("a"), []byte("v")),
		db.With(bloomkv.NoSync).Put([]byte("b"), []byte("v"))); err != nil {
		t.Fatal(err)
	}
	if err := write(db); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	o.FS = disk.Crash(vfstest.KeepNothing)
	after, err := bloomkv.Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	got := []string{}
	for kv, err := range after.Scan(bloomkv.IterOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(kv.Key)+"="+string(kv.Value))
	}
	if !durable {
		left = []string{"a=v"}
	}
	if !slices.Equal(got, left) {
		t.Errorf("%s in a store of durability %d: %q is left, want %q", name, option, got, left)
	}
}

// TestWithReturnsTheErrorsOfTheDB compares errors after Close, and of a durability that does not exist.
func TestWithReturnsTheErrorsOfTheDB(t *testing.T) {
	db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewMem()))
	if err != nil {
		t.Fatal(err)
	}
	k := []byte("k")
	errorsOf := func(w bloomkv.Writes) []error {
		errs := []error{w.Put(k, k), w.Delete(k), w.DeleteRange(k, nil), w.Apply(new(bloomkv.Batch))}
		for _, call := range []func() (bool, error){
			func() (bool, error) { return w.PutIfAbsent(k, k) },
			func() (bool, error) { return w.CompareAndSwap(k, nil, k) },
			func() (bool, error) { return w.CompareAndDelete(k, k) },
		} {
			done, err := call()
			if done {
				t.Error("a write returned true and an error")
			}
			errs = append(errs, err)
		}
		return errs
	}
	for _, err := range errorsOf(db.With(2)) {
		if err == nil || err.Error() != "bloomkv: durability 2, want 0 or 1" {
			t.Errorf("with durability 2: %v", err)
		}
	}
	if ok, err := db.Has(k); ok || err != nil {
		t.Errorf("after writes that failed: %v, %v", ok, err)
	}
	kept := db.With(bloomkv.Sync)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range errorsOf(kept) {
		if err != bloomkv.ErrClosed { //nolint:errorlint // returned unwrapped
			t.Errorf("after Close: %v", err)
		}
	}
}
