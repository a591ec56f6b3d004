package bloomkv_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// pairs is the number of pairs that TestTheStoreInOneReading puts.
const pairs = 20_000

// key returns a key. Keys of even numbers are put; those between are absent, and only filters can exclude them.
func key(i int) []byte { return fmt.Appendf(nil, "key%08d", i) }

// TestTheStoreInOneReading leads a store through its life: it is written, read, compacted, copied, closed and opened
// again. A map holds the expected contents.
func TestTheStoreInOneReading(t *testing.T) {
	testkit.Long(t)
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	fsys := vfstest.NewMem() // a file system in memory
	options := &bloomkv.Options{
		FS: fsys, FilterSeed: 1, Durability: bloomkv.DurabilityNoSync,
		// So small that 20,000 keys make a tree of several levels.
		MemtableSize: 32 << 10, TableSize: 16 << 10, BaseLevelSize: 64 << 10, LevelRatio: 4, BlockSize: 1 << 10,
	}
	db, err := bloomkv.Open("db", options)
	must(err)

	// Single writes.
	want := map[string]string{}
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(pairs) {
		k, v := key(2*i), fmt.Sprint("value ", i)
		must(db.Put(k, []byte(v)))
		want[string(k)] = v
	}
	for i := range 100 {
		k := key(14 * i)
		must(db.Delete(k))
		delete(want, string(k))
	}
	// A batch is visible, and durable, as a whole or not at all. With sets the durability of one call.
	var batch bloomkv.Batch
	batch.Put(key(0), []byte("from a batch"))
	batch.DeleteRange(bloomkv.KeyRange{Lower: key(5000), Upper: key(6000)}) // the end is exclusive
	must(db.ApplyWith(&batch, bloomkv.DurabilitySync))
	want[string(key(0))] = "from a batch"
	maps.DeleteFunc(want, func(k, _ string) bool { return string(key(5000)) <= k && k < string(key(6000)) })
	// A conditional write.
	swapped, err := db.CompareAndSwap(key(0), []byte("from a batch"), []byte("swapped"))
	if err != nil || !swapped {
		t.Fatalf("CompareAndSwap: %v, %v, want true", swapped, err)
	}
	want[string(key(0))] = "swapped"

	// A snapshot keeps the state of this moment.
	snap, err := db.Snapshot()
	must(err)
	then := maps.Clone(want)
	must(db.Put(key(0), nil))
	want[string(key(0))] = ""
	shows(t, snap, then)
	shows(t, db, want)

	// Compact merges all levels into one. Overwritten and deleted values stay only for the snapshot.
	must(db.Compact(t.Context(), bloomkv.CompactOptions{}))
	shows(t, snap, then)
	shows(t, db, want)
	must(snap.Close())

	// Lookups of absent keys have read no more tables in vain than the filters promise.
	m := db.Metrics()
	t.Logf("\n%v", m)
	if m.FPRMeasured > 1.5*m.FPRPromised {
		t.Errorf("%g wasted reads for each lookup of an absent key, want about %g", m.FPRMeasured, m.FPRPromised)
	}

	// A checkpoint is a second store with the same contents.
	must(db.Checkpoint(t.Context(), "copy"))
	must(db.Close())
	if _, err := db.Get(key(0)); !errors.Is(err, bloomkv.ErrClosed) {
		t.Errorf("Get after Close: %v, want ErrClosed", err)
	}
	if err := db.Close(); !errors.Is(err, bloomkv.ErrClosed) {
		t.Errorf("a second Close: %v, want ErrClosed", err)
	}
	for _, dir := range []string{"db", "copy"} {
		again, err := bloomkv.Open(dir, options)
		must(err)
		shows(t, again, want)
		must(again.Close())
		report, err := bloomkv.Check(t.Context(), dir, bloomkv.CheckOptions{FS: fsys}) // reads every byte
		must(err)
		t.Logf("%s: %+v", dir, report)
	}
}

// shows compares lookups of all keys, present and absent, and a scan with a map.
func shows(t *testing.T, r bloomkv.Reader, want map[string]string) {
	t.Helper()
	for i := range 2 * pairs {
		k := key(i)
		w, there := want[string(k)]
		v, err := r.Get(k)
		if there && (err != nil || string(v) != w) || !there && !errors.Is(err, bloomkv.ErrNotFound) {
			t.Fatalf("%s: got %q, %v, want %q, there: %v", k, v, err, w, there)
		}
	}
	var keys []string
	for kv, err := range r.Scan(bloomkv.IterOptions{}) {
		if err != nil || string(kv.Value) != want[string(kv.Key)] {
			t.Fatalf("scan: %s = %q, %v, want %q", kv.Key, kv.Value, err, want[string(kv.Key)])
		}
		keys = append(keys, string(kv.Key))
	}
	if sorted := slices.Sorted(maps.Keys(want)); !slices.Equal(keys, sorted) {
		t.Fatalf("scan: %d keys, want %d in order", len(keys), len(sorted))
	}
}
