package bloomkv_test

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/deadkeys"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// lookupStore has keys "key%05d" with even numbers in tables of several levels, all loaded and cached, "mem" and "o" in
// the memtable, and a deleted range before "o".
func lookupStore(t *testing.T) *bloomkv.DB {
	t.Helper()
	storetest.Roomy(t)
	o := storetest.Tiny(vfstest.NewMem())
	o.Durability = bloomkv.DurabilityNoSync
	db := storetest.Open(t, "db", o)
	t.Cleanup(func() {
		must(t, db.Close())
	})
	put := func(k string) {
		t.Helper()
		must(t, db.Put([]byte(k), []byte("value of "+k)))
	}
	for i := range 4000 {
		put(fmt.Sprintf("key%05d", i*7919%4000*2))
	}
	must(t, db.Flush(t.Context()))
	storetest.Settle(t, db)
	put("mem")
	put("n")
	put("nz")
	put("o")
	must(t, db.DeleteRange(bloomkv.KeyRange{Lower: []byte("n"), Upper: []byte("nzz")}))
	for i := range 8000 { // loads indexes and filters, fills the cache
		if _, err := db.Has(fmt.Appendf(nil, "key%05d", i)); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// TestWritesAllocateNothing calls the writes of a DB, with its own durability and with another. What the memtable
// allocates comes to less than one allocation for a write. A conditional write allocates its condition, a transaction
// its reads.
func TestWritesAllocateNothing(t *testing.T) {
	if testkit.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	o := &bloomkv.Options{FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync, FilterSeed: 1}
	db := storetest.Open(t, "db", o)
	defer db.Close()
	for i := range 2 * deadkeys.Worth { // writes look whether they are in a range of deleted keys
		must(t, db.Delete(fmt.Appendf(nil, "dead%d", i)))
	}
	for kv, err := range db.Scan(bloomkv.IterOptions{Prefix: []byte("dead")}) {
		t.Errorf("scanned %q, %v", kv.Key, err)
	}
	if n := db.Reads().DeadKeys.Len(); n != 1 {
		t.Errorf("%d ranges of deleted keys, want 1", n)
	}
	key, value := []byte("key"), []byte("value")
	var b bloomkv.Batch
	b.Put(key, value)
	for _, tt := range []struct {
		name string
		want float64
		call func() error
	}{
		{"Put", 0, func() error { return db.Put(key, value) }},
		{"Delete", 0, func() error { return db.Delete(key) }},
		{"Apply", 0, func() error { return db.Apply(&b) }},
		{"ApplyWith", 0, func() error { return db.ApplyWith(&b, bloomkv.DurabilitySync) }},
		{"PutIfAbsent", 1, func() error { _, err := db.PutIfAbsent(key, value); return err }},
		{"CompareAndSwap", 1, func() error { _, err := db.CompareAndSwap(key, value, value); return err }},
		{"Update", 1, func() error {
			return db.Update(t.Context(), func(tx *bloomkv.Tx) error { // which is not kept
				_, err := tx.Has(key)
				return cmp.Or(err, tx.Put(key, value))
			})
		}},
	} {
		var bad error
		got := testing.AllocsPerRun(1000, func() { bad = errors.Join(bad, tt.call()) })
		if got != tt.want || bad != nil {
			t.Errorf("%s: %v allocations, %v, want %v", tt.name, got, bad, tt.want)
		}
	}
}

func TestLookupsAllocateNothingButTheCopy(t *testing.T) {
	if testkit.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	db := lookupStore(t)
	dst := make([]byte, 0, 100)
	i := 0
	key := make([]byte, 0, 20)
	next := func(odd int) []byte {
		i++
		key = append(key[:0], "key"...)
		n := i*2%8000 + odd
		for d := 10000; d > 0; d /= 10 {
			key = append(key, byte('0'+n/d%10))
		}
		return key
	}
	mem := []byte("mem")
	snap, err := db.Snapshot()
	must(t, err)
	defer snap.Close()
	many := [][]byte{[]byte("key00000"), []byte("key00001"), mem, []byte("key04444"), []byte("nothing")}
	seen := func(v []byte) error { _ = v; return nil }
	each := func(_ int, v []byte, _ bool) error { _ = v; return nil }
	roundTrip := func(it *bloomkv.Iterator, k []byte) error { // seek a key, step forward and back
		if !it.SeekGE(k) || !it.Next() || !it.Prev() || !it.Prev() || !it.Next() || string(it.Key()) != string(k) {
			return fmt.Errorf("at %q, want %q: %w", it.Key(), k, it.Err())
		}
		_ = it.Value()
		return it.Close()
	}
	middle, gone := []byte("key04000"), []byte("nn")
	upper := []byte("key06000")
	for _, tt := range []struct {
		name string
		want float64
		call func() error
	}{
		{"Get of an absent key", 0, func() error { _, err := db.Get(next(1)); return err }},
		{"Has of an absent key", 0, func() error { _, err := db.Has(next(1)); return err }},
		{"AppendGet of an absent key", 0, func() error { _, err := db.AppendGet(dst, next(1)); return err }},
		{"Get of a cached key", 1, func() error { _, err := db.Get(next(0)); return err }},
		{"AppendGet of a cached key", 0, func() error { _, err := db.AppendGet(dst, next(0)); return err }},
		{"Has of a cached key", 0, func() error { _, err := db.Has(next(0)); return err }},
		{"Get of a key in the memtable", 1, func() error { _, err := db.Get(mem); return err }},
		{"AppendGet of a key in the memtable", 0, func() error { _, err := db.AppendGet(dst, mem); return err }},
		{"MayContain of an absent key", 0, func() error { _ = db.MayContain(next(1)); return nil }},
		{"MayContain of a cached key", 0, func() error { _ = db.MayContain(next(0)); return nil }},
		{"View of a cached key", 0, func() error { return db.View(next(0), seen) }},
		{"View of a key in the memtable", 0, func() error { return db.View(mem, seen) }},
		{"GetMany", 0, func() error { return db.GetMany(many, each) }},
		{"Get of a snapshot, cached key", 1, func() error { _, err := snap.Get(next(0)); return err }},
		{"Has of a snapshot, absent key", 0, func() error { _, err := snap.Has(next(1)); return err }},
		{"Has of a key in a deleted range", 0, func() error { _, err := db.Has(gone); return err }},
		{"MayContain of a key in a deleted range", 0, func() error { _ = db.MayContain(gone); return nil }},
		{"an iterator in cached tables", 0, func() error {
			it := db.Iter(bloomkv.IterOptions{})
			return roundTrip(it, middle)
		}},
		{"an iterator with bounds", 0, func() error {
			it := db.Iter(bloomkv.IterOptions{Lower: many[0], Upper: upper})
			return roundTrip(it, middle)
		}},
		{"an iterator over keys", 0, func() error {
			it := db.Iter(bloomkv.IterOptions{KeysOnly: true})
			return roundTrip(it, middle)
		}},
		{"an iterator of a snapshot", 0, func() error {
			it := snap.Iter(bloomkv.IterOptions{})
			return roundTrip(it, middle)
		}},
		{"an iterator in the memtable", 0, func() error {
			it := db.Iter(bloomkv.IterOptions{})
			return roundTrip(it, mem)
		}},
		{"an iterator at a deleted range", 0, func() error {
			it := db.Iter(bloomkv.IterOptions{})
			if !it.SeekGE(gone) || !it.Prev() || !it.Next() || string(it.Key()) != "o" {
				return fmt.Errorf("at %q", it.Key())
			}
			return it.Close()
		}},
		{"an iterator from end to end", 0, func() error {
			it := db.Iter(bloomkv.IterOptions{})
			if !it.First() || !it.Last() || it.Next() || !it.Prev() {
				return fmt.Errorf("at %q", it.Key())
			}
			return it.Close()
		}},
	} {
		var bad error
		got := testing.AllocsPerRun(4000, func() {
			if err := tt.call(); err != nil && !errors.Is(err, bloomkv.ErrNotFound) {
				bad = err
			}
		})
		if got != tt.want || bad != nil {
			t.Errorf("%s: %v allocations, %v, want %v", tt.name, got, bad, tt.want)
		}
	}
}

// TestAScanAllocatesLittleWhateverItsLength allows the allocations of the sequence and the loop's variables, and none
// per step.
func TestAScanAllocatesLittleWhateverItsLength(t *testing.T) {
	if testkit.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	db := lookupStore(t)
	atRest(t, db)
	scan := func(o bloomkv.IterOptions) (steps int, allocations float64) {
		allocations = testing.AllocsPerRun(50, func() {
			steps = 0
			for kv, err := range db.Scan(o) {
				if err != nil || len(kv.Key) == 0 {
					t.Fatal(err)
				}
				steps++
			}
		})
		return steps, allocations
	}
	few, fewAllocations := scan(bloomkv.IterOptions{Lower: []byte("key00100"), Upper: []byte("key00110")})
	all, allAllocations := scan(bloomkv.IterOptions{})
	if few != 5 || all < 4000 {
		t.Errorf("scans of %d and %d steps, want 5 and more than 4000", few, all)
	}
	if fewAllocations > 4 || allAllocations > 4 {
		t.Errorf("%v allocations for 5 steps, %v for %d, want at most 4", fewAllocations, allAllocations, all)
	}
	t.Logf("%v allocations for 5 steps, %v for %d", fewAllocations, allAllocations, all)
}

// TestLookupsReturnWhileEveryMutexIsHeld finds every mutex reachable from the store, in any package, and locks it. The
// search reads fields without the mutexes that guard them.
func TestLookupsReturnWhileEveryMutexIsHeld(t *testing.T) {
	if testkit.RaceEnabled {
		t.Skip("the search is a race with all goroutines that the store begins")
	}
	db := lookupStore(t)
	atRest(t, db)
	w := mutexWalk{seen: map[visit]bool{}, named: map[string]int{}}
	w.walk(reflect.ValueOf(db), "db")
	for _, m := range w.found {
		m.Lock()
	}
	release := sync.OnceFunc(func() {
		for _, m := range w.found {
			m.Unlock()
		}
	})
	defer release()
	done := make(chan error, 1)
	go func() {
		for i := range 8000 {
			k := fmt.Appendf(nil, "key%05d", i)
			v, err := db.Get(k)
			switch {
			case i%2 == 1 && !errors.Is(err, bloomkv.ErrNotFound),
				i%2 == 0 && (err != nil || string(v) != "value of "+string(k)):
				done <- fmt.Errorf("get %s: %q, %w", k, v, err)
				return
			}
			if has, err := db.Has(k); has != (i%2 == 0) || err != nil || has && !db.MayContain(k) {
				done <- fmt.Errorf("has %s: %v, %w, may contain %v", k, has, err, db.MayContain(k))
				return
			}
		}
		v, err := db.Get([]byte("mem"))
		if err == nil && string(v) != "value of mem" {
			err = fmt.Errorf("get mem: %q", v)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(testkit.Patience):
		t.Error("a lookup waits for a mutex")
	}
	release()
	for _, name := range []string{
		"writer.mu", "Tree.editMu", "Tree.mu", "queue.mu", "Files.mu", "pool.mu", "pool.Balancing",
		"domain.mu",
		"Loading", ".resident.mu", ".Keys.mu", ".Prefixes.mu", "Parts.mu",
		"Mem.", "Blocks.", "FS.",
	} {
		n := 0
		for path, count := range w.named {
			if strings.Contains(path, name) {
				n += count
			}
		}
		if n == 0 {
			t.Errorf("no mutex of %s was held", name)
		}
	}
	t.Logf("%d mutexes: %v", len(w.found), w.named)
}

// A mutexWalk follows pointers, including those inside atomic.Pointer, through all values of this module's types.
type mutexWalk struct {
	seen  map[visit]bool
	found []sync.Locker
	named map[string]int // by path, all elements of a slice under one path
}

type visit struct {
	at unsafe.Pointer
	t  reflect.Type
}

func (w *mutexWalk) walk(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			w.walk(v.Elem(), path)
		}
	case reflect.Slice, reflect.Array:
		switch v.Type().Elem().Kind() {
		case reflect.Pointer, reflect.Interface, reflect.Struct, reflect.Slice, reflect.Array:
			for i := range v.Len() {
				w.walk(v.Index(i), path)
			}
		default:
		}
	case reflect.Struct:
		if v.CanAddr() {
			w.walkStruct(v, path)
		}
	default:
	}
}

func (w *mutexWalk) walkStruct(v reflect.Value, path string) {
	at, t := v.Addr().UnsafePointer(), v.Type()
	if w.seen[visit{at, t}] {
		return
	}
	w.seen[visit{at, t}] = true
	switch m := reflect.NewAt(t, at).Interface().(type) {
	case *sync.Mutex:
		w.found = append(w.found, m)
		w.named[path]++
		return
	case *sync.RWMutex:
		w.found = append(w.found, m)
		w.named[path]++
		return
	}
	pkg := t.PkgPath()
	if pkg == "sync/atomic" && strings.HasPrefix(t.Name(), "Pointer[") {
		to := t.Field(0).Type.Elem().Elem() // of its [0]*T
		if p := *(*unsafe.Pointer)(at); p != nil {
			w.walk(reflect.NewAt(to, p), path)
		}
		return
	}
	if pkg != "" && !strings.HasPrefix(pkg, "github.com/bloomkv/") &&
		!strings.HasPrefix(pkg, "github.com/google/btree") {
		return
	}
	for i := range v.NumField() {
		w.walk(v.Field(i), path+"."+t.Field(i).Name)
	}
}
