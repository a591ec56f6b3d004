package storetest

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
)

// PlanKey has a 6-byte prefix for each 16 numbers; odd numbers are never stored, nor numbers from 1<<40 on.
func PlanKey(n uint64) []byte {
	return binary.BigEndian.AppendUint64(nil, n>>4*0x9e3779b97f4a<<16|n&15)
}

// PlanStore returns a store of the even ones of 2n numbers, in several tables.
func PlanStore(t *testing.T, o *bloomkv.Options, n int) *bloomkv.DB {
	t.Helper()
	db := Reopened(t, nil, o)
	for _, i := range rand.New(rand.NewPCG(3, 4)).Perm(n) {
		testkit.Must(t, db.Put(PlanKey(2*uint64(i)), make([]byte, 30))) //nolint:gosec // i is at least 0
	}
	testkit.Must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	return db
}

// PlanOptions returns options with which a few thousand keys are some tables in two levels.
func PlanOptions(fs vfs.FS, fpr float64, change func(o *bloomkv.Options)) *bloomkv.Options {
	o := &bloomkv.Options{
		FS: fs, FilterSeed: 1, Durability: bloomkv.DurabilityNoSync, FilterFPR: fpr, MemoryBudget: 64 << 20,
		MemtableSize: 256 << 10,
		TableSize:    64 << 10, BaseLevelSize: 4 << 20, BlockSize: 1 << 10, Compression: bloomkv.CompressionNone,
	}
	if change != nil {
		change(o)
	}
	return o
}

// Reopened closes db, if it is not nil, and opens it with other options; all tables are loaded when it returns.
func Reopened(t *testing.T, db *bloomkv.DB, o *bloomkv.Options) *bloomkv.DB {
	t.Helper()
	if db != nil {
		testkit.Must(t, db.Close())
	}
	db = Open(t, "db", o)
	t.Cleanup(func() { _ = db.Close() })
	testkit.Soon(t, "it is warm", func() bool { return db.Metrics().Warm })
	return db
}

// Wastes returns the average number of wasted reads in a lookup of an absent key of a PlanStore.
func Wastes(t *testing.T, db *bloomkv.DB, n, lookups int) float64 {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 8))
	before := db.Metrics().Lookups.WastedReads
	for range lookups {
		absent := 2*rng.Uint64N(uint64(n)) + 1 //nolint:gosec // n is at least 0
		if _, err := db.Get(PlanKey(absent)); !errors.Is(err, bloomkv.ErrNotFound) {
			t.Fatalf("%v, want ErrNotFound", err)
		}
	}
	return float64(db.Metrics().Lookups.WastedReads-before) / float64(lookups)
}

// MostWasted returns 1.15 times a promise, plus five standard deviations of the count in the given number of lookups:
// the trees of stores differ with the order of background work, and hundreds of them are measured.
func MostWasted(promise float64, lookups int) float64 {
	want := 1.15 * promise * float64(lookups)
	return (want + 5*math.Sqrt(want)) / float64(lookups)
}
