package tests

import (
	"errors"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestEachWriteHasItsDurability makes each call that writes, after an unsynced write, and cuts the power. If the call
// synced, both are there afterwards, otherwise none.
func TestEachWriteHasItsDurability(t *testing.T) {
	must := func(done bool, err error) error {
		if err == nil && !done {
			err = errors.New("the condition did not hold")
		}
		return err
	}
	a, b, c, v, w := []byte("a"), []byte("b"), []byte("c"), []byte("v"), []byte("w")
	var two bloomkv.Batch
	two.Delete(a)
	two.Put(c, v)
	writeTwo := func(tx *bloomkv.Tx) error { return errors.Join(tx.Delete(a), tx.Put(c, v)) }
	calls := []struct {
		name string
		call func(*bloomkv.DB) error
		left []string // keys and values, if the call is durable
	}{
		{"Put", func(db *bloomkv.DB) error { return db.Put(c, v) }, []string{"a=v", "b=v", "c=v"}},
		{"Delete", func(db *bloomkv.DB) error { return db.Delete(a) }, []string{"b=v"}},
		{"DeleteRange", func(db *bloomkv.DB) error {
			return db.DeleteRange(bloomkv.KeyRange{Upper: b})
		}, []string{"b=v"}},
		{"Apply", func(db *bloomkv.DB) error { return db.Apply(&two) }, []string{"b=v", "c=v"}},
		{"Apply of nothing", func(db *bloomkv.DB) error {
			return db.Apply(new(bloomkv.Batch))
		}, []string{"a=v", "b=v"}},
		{"Update", func(db *bloomkv.DB) error { return db.Update(t.Context(), writeTwo) }, []string{"b=v", "c=v"}},
		{"PutIfAbsent", func(db *bloomkv.DB) error {
			return must(db.PutIfAbsent(c, v))
		}, []string{"a=v", "b=v", "c=v"}},
		{"CompareAndSwap", func(db *bloomkv.DB) error {
			return must(db.CompareAndSwap(b, v, w))
		}, []string{"a=v", "b=w"}},
		{"CompareAndDelete", func(db *bloomkv.DB) error { return must(db.CompareAndDelete(b, v)) }, []string{"a=v"}},
	}
	with := []struct {
		name string
		call func(*bloomkv.DB, bloomkv.Durability) error
		left []string
	}{
		{"ApplyWith", func(db *bloomkv.DB, d bloomkv.Durability) error {
			return db.ApplyWith(&two, d)
		}, []string{"b=v", "c=v"}},
		{"ApplyWith of nothing", func(db *bloomkv.DB, d bloomkv.Durability) error {
			return db.ApplyWith(new(bloomkv.Batch), d)
		}, []string{"a=v", "b=v"}},
		{"SetDurability", func(db *bloomkv.DB, d bloomkv.Durability) error {
			return db.Update(t.Context(), func(tx *bloomkv.Tx) error {
				return errors.Join(tx.SetDurability(d), writeTwo(tx))
			})
		}, []string{"b=v", "c=v"}},
		{"SetDurability after a read", func(db *bloomkv.DB, d bloomkv.Durability) error {
			return db.Update(t.Context(), func(tx *bloomkv.Tx) error {
				_, err := tx.Get(a)
				return errors.Join(err, tx.SetDurability(d), writeTwo(tx))
			})
		}, []string{"b=v", "c=v"}},
	}
	durabilities := []bloomkv.Durability{bloomkv.DurabilitySync, bloomkv.DurabilityNoSync}
	for _, option := range durabilities {
		for _, tt := range calls {
			check(t, tt.name, option, option == bloomkv.DurabilitySync, tt.left, tt.call)
		}
		for _, tt := range with {
			for _, d := range durabilities {
				check(t, tt.name, option, d == bloomkv.DurabilitySync, tt.left,
					func(db *bloomkv.DB) error { return tt.call(db, d) })
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
	db := storetest.Open(t, "db", o)
	defer db.Close()
	must(t, errors.Join(storetest.PutWith(db, bloomkv.DurabilitySync, []byte("a"), []byte("v")),
		storetest.PutWith(db, bloomkv.DurabilityNoSync, []byte("b"), []byte("v"))))
	if err := write(db); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	o.FS = disk.Crash(vfstest.KeepNothing)
	after := storetest.Open(t, "db", o)
	defer after.Close()
	got := []string{}
	for kv, err := range after.Scan(bloomkv.IterOptions{}) {
		must(t, err)
		got = append(got, string(kv.Key)+"="+string(kv.Value))
	}
	if !durable {
		left = []string{"a=v"}
	}
	if !slices.Equal(got, left) {
		t.Errorf("%s in a store of durability %d: %q is left, want %q", name, option, got, left)
	}
}

// TestADurabilityThatDoesNotExistIsRefused compares the errors, also after Close, which matters more.
func TestADurabilityThatDoesNotExistIsRefused(t *testing.T) {
	db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewMem()))
	k := []byte("k")
	failures := func() []error {
		return []error{
			storetest.PutWith(db, 2, k, k), db.ApplyWith(new(bloomkv.Batch), 2),
			db.Update(t.Context(), func(tx *bloomkv.Tx) error {
				return errors.Join(tx.SetDurability(2), tx.Put(k, k))
			}),
		}
	}
	for _, err := range failures() {
		if err == nil || err.Error() != "bloomkv: durability 2, want 0 or 1" {
			t.Errorf("with durability 2: %v", err)
		}
	}
	if ok, err := db.Has(k); ok || err != nil {
		t.Errorf("after writes that failed: %v, %v", ok, err)
	}
	must(t, db.Close())
	for _, err := range failures() {
		if err != bloomkv.ErrClosed { //nolint:errorlint // returned unwrapped
			t.Errorf("after Close: %v", err)
		}
	}
}
