package tests

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// ratedShapes are the kinds of keys for which the promise is measured; even numbers are stored, odd ones lie between
// them.
var ratedShapes = []struct {
	name string
	key  func(dst []byte, n uint64) []byte
}{
	{"integers", binary.BigEndian.AppendUint64},
	{"decimal", func(dst []byte, n uint64) []byte { return fmt.Appendf(dst, "%016d", n) }},
	{"random bytes", func(dst []byte, n uint64) []byte {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, n*0x9e3779b97f4a7c15),
			n*0xbf58476d1ce4e5b9)
	}},
	{"long shared prefixes", func(dst []byte, n uint64) []byte {
		return fmt.Appendf(dst, "/tenants/0000000%d/collections/documents/%012d", n%4>>1, n)
	}},
	{"groups of 128", func(dst []byte, n uint64) []byte {
		return append(binary.BigEndian.AppendUint64(dst, n>>8*0x9e3779b97f4a7c15), byte(n))
	}},
}

// TestThePromiseIsKeptInEveryStateOfTheTree measures the wasted reads of lookups of absent keys: after a load in random
// order, after overwrites, during a compaction, and after Compact. With -long above 1 it measures all shapes at all
// rates with both kinds of filters and a million keys each; otherwise it measures three combinations with fewer keys.
func TestThePromiseIsKeptInEveryStateOfTheTree(t *testing.T) {
	keys, stride := 150_000, 11
	if *storetest.Long > 1 {
		keys, stride = 1_000_000, 1
	}
	cell := 0
	for _, kind := range []bloomkv.FilterKind{bloomkv.FilterBloom, bloomkv.FilterRibbon} {
		for _, shape := range ratedShapes {
			for _, fpr := range []float64{0.1, 0.01, 0.001} {
				if cell++; cell%stride == 0 || stride == 1 {
					name := fmt.Sprintf("%s/%s/%g", map[bloomkv.FilterKind]string{
						bloomkv.FilterBloom:  "Bloom",
						bloomkv.FilterRibbon: "Ribbon",
					}[kind], shape.name, fpr)
					t.Run(name, func(t *testing.T) { measurePromise(t, kind, shape.key, fpr, keys) })
				}
			}
		}
	}
}

func measurePromise(t *testing.T, kind bloomkv.FilterKind, key func([]byte, uint64) []byte, fpr float64, keys int) {
	t.Helper()
	lookups := keys / 10
	if !storetest.RaceEnabled {
		lookups = keys
	}
	// While the gate is shut, a finished compaction waits at it, and so do all that would follow, until the store
	// closes.
	var waiting atomic.Bool
	gate := make(chan struct{}, 1)
	gate <- struct{}{}
	// After armed is set, a compaction waits for hold to be closed before it writes.
	var armed atomic.Bool
	waits, hold := make(chan struct{}, 1), make(chan struct{})
	files := vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		if armed.Load() && op.Kind == vfstest.OpWrite && strings.HasSuffix(op.Name, ".sst") {
			select {
			case waits <- struct{}{}:
			default:
			}
			<-hold
		}
		return nil
	})
	o := &bloomkv.Options{
		FS: files, FilterSeed: 1, Durability: bloomkv.DurabilityNoSync, Compression: bloomkv.CompressionNone,
		FilterFPR:    fpr,
		FilterKind:   kind,
		MemoryBudget: 512 << 20, MemtableSize: 1 << 20, BaseLevelSize: 4 << 20, LevelRatio: 10, BlockSize: 4 << 10,
		TableSize: 1 << 20,
		Events: bloomkv.Events{Compacted: func(bloomkv.CompactionInfo) {
			waiting.Store(true)
			<-gate
			waiting.Store(false)
			gate <- struct{}{}
		}},
	}
	db, err := bloomkv.Open("db", o)
	must(t, err)
	shut, held := false, false
	open := func() {
		if shut {
			gate <- struct{}{}
			shut = false
		}
	}
	defer func() {
		open()
		if !held {
			close(hold)
		}
		_ = db.Close()
	}()

	rng := rand.New(rand.NewPCG(uint64(keys), 1))
	var k []byte
	value := make([]byte, 100)
	put := func(i int) {
		t.Helper()
		k = key(k[:0], 2*uint64(i))
		must(t, db.Put(k, value))
	}
	// pile shuts the gate and puts keys until level 0 has four runs and a compaction waits, so that the runs stay.
	pile := func(next func() int) {
		t.Helper()
		<-gate
		shut = true
		storetest.Soon(t, "level 0 has four runs", func() bool {
			held := waiting.Load() // before the runs are counted: a compaction that ends in between removes some
			if db.Metrics().Levels[0].Runs >= 4 {
				return held
			}
			for range 1000 {
				put(next())
			}
			must(t, db.Flush(t.Context()))
			return false
		})
	}
	measure := func(state string, leastRuns, leastLevels int) {
		t.Helper()
		before := db.Metrics()
		levels := 0
		for _, l := range before.Levels {
			if l.Runs > 0 {
				levels++
			}
		}
		if before.Levels[0].Runs < leastRuns || levels < leastLevels {
			t.Fatalf("%s: %d runs in level 0, %d levels, want at least %d and %d", state, before.Levels[0].Runs,
				levels, leastRuns, leastLevels)
		}
		for range lookups {
			k = key(k[:0], 2*rng.Uint64N(uint64(keys))+1)
			if _, err := db.Get(k); !errors.Is(err, bloomkv.ErrNotFound) {
				t.Fatalf("%s: %x: %v, want ErrNotFound", state, k, err)
			}
		}
		after := db.Metrics()
		wasted, most := float64(after.Lookups.WastedReads-before.Lookups.WastedReads), 1.15*fpr*float64(lookups)
		most += 3 * math.Sqrt(most)
		t.Logf("%s: %d levels, %d runs in level 0: wasted %.2e, predicted %.2e, promised %g; "+
			"%.2f filter bits per key in memory, %.2f on disk", state, levels,
			before.Levels[0].Runs, wasted/float64(lookups), after.FPRPredicted, fpr,
			8*float64(after.Memory.Filters)/float64(keys), bitsOnDisk(after, keys))
		if wasted > most {
			t.Errorf("%s: %.0f wasted reads in %d lookups, want at most %.0f: 1.15 × %g plus three deviations", state,
				wasted, lookups, most, fpr)
		}
	}

	order := rng.Perm(keys)
	for _, i := range order[:keys*9/10] {
		put(i)
	}
	at := keys * 9 / 10
	pile(func() int {
		i := order[at%keys]
		at++
		return i
	})
	measure("loaded", 4, 3)
	open()

	for range keys / 4 {
		put(rng.IntN(keys))
	}
	pile(func() int { return rng.IntN(keys) })
	measure("overwritten", 4, 3)

	armed.Store(true)
	open()
	<-waits
	measure("mid-compaction", 4, 3)
	close(hold)
	held = true

	for _, i := range order[min(at, keys):] {
		put(i)
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	measure("compacted", 0, 1)
}

// bitsOnDisk returns the size of the filter blocks in bits per key of the store.
func bitsOnDisk(m bloomkv.Metrics, keys int) float64 {
	sum := uint64(0)
	for _, l := range m.Levels {
		sum += l.FilterBytes
	}
	return 8 * float64(sum) / float64(keys)
}
