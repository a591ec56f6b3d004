package bloomkv

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/vfs"
)

// TestFiltersKeepToTheirMemoryAsTheStoreGrows grows stores until their filters have a few bits per key, and shrinks them again:
// filters never take more than they may when the store is at rest, and the rate that is then promised is kept, and the
// best that fits.
func TestFiltersKeepToTheirMemoryAsTheStoreGrows(t *testing.T) {
	const memory, step, steps = 64 << 10, 12_000, 6
	lookups := 2000 * atStride(20)
	for _, tt := range []struct {
		name   string
		kind   FilterKind
		random bool
	}{{"random order", BloomFilter, true}, {"in order, so that tables only move", BloomFilter, false}, {"Ribbon filters", RibbonFilter, true}} {
		t.Run(tt.name, func(t *testing.T) {
			o := tiny(vfs.NewMem())
			o.Durability, o.FilterMemory, o.FilterKind, o.LevelRatio = NoSync, memory, tt.kind, 4
			o.MemoryBudget, o.MemtableSize, o.TableSize, o.BaseLevelSize = 64<<20, 128<<10, 128<<10, 256<<10
			db, err := Open("db", o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			key := func(n uint64) []byte {
				if tt.random {
					n *= 0x9e3779b97f4a7c15
				}
				return binary.BigEndian.AppendUint64(nil, n)
			}
			rng := rand.New(rand.NewPCG(5, 6))
			before := 0.0
			rest := func(state string, keys uint64) (fpr float64) {
				t.Helper()
				settle(t, db)
				soon(t, "filters are loaded", func() bool {
					m := db.Metrics()
					return m.Warm && m.Files.Obsolete == 0 && asPlanned(db)
				})
				m := db.Metrics()
				for range lookups {
					if _, err := db.Get(key(2*rng.Uint64N(keys) + 1)); !errors.Is(err, ErrNotFound) {
						t.Fatalf("%s: %v, want ErrNotFound", state, err)
					}
				}
				wasted := float64(db.Metrics().Lookups.WastedReads - m.Lookups.WastedReads)
				most := 1.15 * m.FilterFPR * float64(lookups)
				t.Logf("%s: %d keys, promised %.4g, predicted %.4g, wasted %.4g; filters %d bytes, %.2f bits a key", state, keys, m.FilterFPR,
					m.FPRPredicted, wasted/float64(lookups), m.Memory.Filters, 8*float64(m.Memory.Filters)/float64(keys))
				if wasted > most+3*math.Sqrt(most) {
					t.Errorf("%s: %.0f wasted reads, want at most %.0f and three deviations\n%v", state, wasted, most, m)
				}
				if m.Memory.Filters > memory {
					t.Errorf("%s: filters take %d bytes, want at most %d\n%v", state, m.Memory.Filters, memory, m)
				}
				if m.FilterFPR > bestFPR && m.Memory.Filters < memory*2/5 {
					t.Errorf("%s: filters take %d bytes of %d, at a rate of %g\n%v", state, m.Memory.Filters, memory, m.FilterFPR, m)
				}
				return m.FilterFPR
			}
			for i := range uint64(steps) {
				for n := i * step; n < (i+1)*step; n++ {
					if err := db.Put(key(2*n), make([]byte, 20)); err != nil {
						t.Fatal(err)
					}
				}
				if err := db.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				fpr := rest("grown", (i+1)*step)
				before = fpr
			}
			if before < 4*bestFPR {
				t.Errorf("the last rate is %g: too few keys to show anything", before)
			}
			if err := db.Compact(t.Context(), nil, nil); err != nil {
				t.Fatal(err)
			}
			grown := rest("compacted", steps*step)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if db, err = Open("db", o); err != nil {
				t.Fatal(err)
			}
			if again := rest("opened again", steps*step); again != grown {
				t.Errorf("opened again the rate is %g, before %g", again, grown)
			}
			if err := errors.Join(db.DeleteRange(nil, nil), db.Flush(t.Context()), db.Compact(t.Context(), nil, nil)); err != nil {
				t.Fatal(err)
			}
			if m := db.Metrics(); m.FilterFPR != bestFPR {
				t.Errorf("when all is deleted a rate of %g is promised, want %g", m.FilterFPR, bestFPR)
			}
		})
	}
}

// asPlanned reports whether all filters have the units that the plan asks of them, but those that there is no room for.
func asPlanned(db *DB) bool {
	planned := true
	db.state.Load().tables(func(_ int, t *table) {
		want, known := t.reader.FilterBytesFor(db.rateOf(t))
		lacks := want - t.reader.FilterBytes()
		full := t.shed.Load() && db.share.held.filters.Load()+lacks > db.opts.FilterMemory
		planned = planned && (full || known && lacks == 0)
	})
	return planned
}

func TestMemoryForFiltersThatMakesNoSense(t *testing.T) {
	mem := vfs.NewMem()
	for _, tt := range []struct {
		want string
		o    Options
	}{
		{"option FilterMemory: 1000000, want 0 beside FilterFPR, which is 0.1", Options{FilterMemory: 1_000_000, FilterFPR: 0.1}},
		{"option FilterMemory: 65535, want 65536 to 33554432", Options{FilterMemory: 64<<10 - 1}},
		{"option FilterMemory: -1, want 65536 to ", Options{FilterMemory: -1}},
		{"option FilterMemory: 4194305, want 65536 to 4194304", Options{FilterMemory: 4<<20 + 1, MemoryBudget: 8 << 20}},
		{"option FilterFPR: -0.1, want more than 0", Options{FilterFPR: -0.1}},
		{"option FilterFPR: NaN, want more than 0", Options{FilterFPR: math.NaN()}},
		{"option FilterKind: 2, want 0 to 1", Options{FilterKind: 2}},
	} {
		tt.o.FS = mem
		if _, err := Open("db", &tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
	o := tiny(mem)
	o.Durability, o.MemoryBudget, o.MemtableSize, o.TableSize, o.BaseLevelSize = NoSync, 64<<20, 4<<20, 4<<20, 64<<20
	db, err := Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(600_000) { // more than there would be bits
		if err := db.Put(binary.BigEndian.AppendUint64(nil, i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	o.FilterMemory = 64 << 10
	if _, err := Open("db", o); !errors.Is(err, ErrFilterRate) || !strings.Contains(err.Error(), "option FilterMemory: 65536, and filters of 600000 keys take ") {
		t.Errorf("too little for any filters: got %v, want ErrFilterRate and what they take", err)
	}
	o.FilterMemory = 1 << 20
	if db, err = Open("db", o); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPlansArePricedExactly compares what the filters of runs would take by a few sums with what each of their tables would.
func TestPlansArePricedExactly(t *testing.T) {
	o := tiny(vfs.NewMem())
	o.Durability, o.FilterMemory, o.LevelRatio, o.MemoryBudget = NoSync, 64<<10, 4, 64<<20
	db, err := Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rng := rand.New(rand.NewPCG(1, 9))
	rates := map[float64]bool{}
	for range 5 {
		for range 8000 {
			if err := db.Put(binary.BigEndian.AppendUint64(nil, rng.Uint64()), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		settle(t, db)
		soon(t, "it is warm", func() bool { return db.Metrics().Warm })
		before := db.state.Load()
		for fpr := 0.8; fpr > bestFPR; fpr /= 3 {
			p, err := o.planner().plan(fpr)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range before.runs {
				at, want := &p.level[r.level], int64(0)
				for _, table := range r.tables {
					n, known := table.reader.FilterBytesFor(at.rate)
					if h, _ := table.reader.FilterHeader(); known {
						rates[h.Rate(len(h.Units))] = true
					} else {
						t.Fatalf("table %d was not read", table.meta.Number)
					}
					want += n
				}
				sizes := sizesOf(r)
				if got := sizes.bytes(at); got != want {
					t.Errorf("at %g, level %d: %d bytes, want %d", fpr, r.level, got, want)
				}
			}
		}
	}
	if len(rates) < 4 {
		t.Errorf("filters of %d rates, want several", len(rates))
	}
}
