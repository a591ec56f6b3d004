package memtable

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// crowding are sets of hashes that an adversary would choose.
var crowding = []struct {
	name string
	hash func(i int) bloomblock.Hash
}{
	{"all equal", func(int) bloomblock.Hash { return 1 << 40 }},
	{"pairwise equal tags", func(i int) bloomblock.Hash { return bloomblock.Hash(i/8) * goldenRatio }},
	{"one first slot", func(i int) bloomblock.Hash { return bloomblock.Hash(i) << 32 }},
	{"the last slots", func(i int) bloomblock.Hash { return bloomblock.Hash(^uint64(0) - uint64(i)<<33) }},
	{"a hundredth of the slots", func(i int) bloomblock.Hash { return bloomblock.HashKey(fmt.Append(nil, i)) / 100 }},
	{"random", func(i int) bloomblock.Hash { return bloomblock.HashKey(fmt.Append(nil, i)) }},
}

func TestKeysOfCrowdedHashesAreFound(t *testing.T) {
	testkit.Long(t)
	const keys = 5000
	key := func(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }
	for _, set := range crowding {
		for _, start := range []int{0, keys} {
			t.Run(fmt.Sprintf("%s, capacity %d", set.name, start), func(t *testing.T) {
				table := newTable(t, nil, start)
				want := map[int]string{}
				random := rand.New(rand.NewPCG(1, 2))
				seq := ikey.Seq(0)
				for range 3 * keys { // new keys, in order and not, and overwrites, also of keys that a growth has moved
					i := random.IntN(keys)
					seq++
					value := fmt.Sprint(seq)
					table.Add(key(i), set.hash(i), seq, ikey.Set, []byte(value))
					want[i] = value
				}
				check := func() {
					t.Helper()
					for i := range keys {
						value, _, found := table.Get(key(i), set.hash(i), seq)
						if w, there := want[i]; found != there || string(value) != w {
							t.Fatalf("key %d: got %q, %v; want %q, %v", i, value, found, w, there)
						}
						if _, _, found := table.Get(append(key(i), 'x'), set.hash(i), seq); found {
							t.Fatalf("key %dx is found", i)
						}
					}
				}
				check()
				if got := table.Keys(); got != len(want) {
					t.Errorf("%d keys, want %d", got, len(want))
				}
				table.Freeze()
				check()
			})
		}
	}
}

// TestAnOverflowedKeyIsFoundAfterGrowth overwrites a key that has no slot. The next index has one for it.
func TestAnOverflowedKeyIsFoundAfterGrowth(t *testing.T) {
	table := newTable(t, nil, 300)
	seq := ikey.Seq(0)
	put := func(i int, h bloomblock.Hash) {
		seq++
		table.Add(fmt.Appendf(nil, "%d", i), h, seq, ikey.Set, fmt.Append(nil, seq))
	}
	crowded := func(i int) bloomblock.Hash { return bloomblock.Hash(i) << 48 } // half of these slots are apart later
	x, n := table.index.Load(), 0
	for ; !x.overflowed.Load(); n++ {
		put(n, crowded(n))
	}
	last := n - 1
	put(last, crowded(last))
	want := fmt.Sprint(seq)
	for ; table.index.Load() == x; n++ {
		put(n, bloomblock.HashKey(fmt.Append(nil, n))|1<<63)
	}
	key, x := fmt.Append(nil, last), table.index.Load()
	if _, slot := table.find(x, key, tagOf(crowded(last))); slot == noSlot {
		t.Fatal("the key has no slot: the test has lost its point")
	}
	if got, _, _ := table.Get(key, crowded(last), seq); string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestABatchOverwritesAKeyThatItAdded has keys of one hash, in order: only a search of the tail finds the last ones.
func TestABatchOverwritesAKeyThatItAdded(t *testing.T) {
	table := newTable(t, nil, 0)
	var ops []Op
	for i, key := range []string{"a", "b", "c", "d", "e", "f", "e"} {
		ops = append(ops, Op{Seq: ikey.Seq(i + 1), Kind: ikey.Set, Key: []byte(key), Hash: 7})
	}
	table.AddOps(ops[0].Seq, ops)
	_, trailer, _ := table.Get([]byte("e"), 7, ikey.MaxSeq)
	if table.Keys() != 6 || trailer.Seq() != 7 {
		t.Errorf("%d keys, e has sequence %d, want 6 and 7", table.Keys(), trailer.Seq())
	}
}

// The limits of a search: slots looked at, and keys compared.
func TestASearchOfTheIndexIsBounded(t *testing.T) {
	testkit.Long(t)
	for _, set := range crowding {
		x := newIndex(0, new(arena))
		for i := range 20_000 {
			if i == x.limit() {
				x = x.grown(0, new(arena), func(r ref) ref { return r })
			}
			x.put(tagOf(set.hash(i)), ref(i+1))
		}
		missing := 0
		for i := range 20_000 {
			g := tagOf(set.hash(i))
			probes, equal, found := 0, 0, false
			for at := x.home(g); !found; at = x.after(at) {
				s := x.slots[at].Load()
				probes++
				if found = s != 0 && ref(s&(1<<slotRefBits-1)) == ref(i+1); found || s == 0 {
					break
				}
				if tag(s>>slotRefBits) == g {
					equal++
				}
				if probes == maxProbes || equal == maxEqual {
					break
				}
			}
			if !found {
				missing++
			}
		}
		if missing != len(x.over) {
			t.Errorf("%s: %d keys are not found within the bounds, but %d overflowed", set.name, missing, len(x.over))
		}
		want := x.filter.bytes() + int64(len(x.slots)+cap(x.over))*bytesPerSlot
		if got := x.bytes(new(arena)); got != want {
			t.Errorf("%s: the index takes %d bytes, want %d", set.name, got, want)
		}
		if set.name == "random" && missing > 0 {
			t.Errorf("%d of 20,000 random hashes overflowed, want none", missing)
		}
		if set.name == "all equal" && missing < 19_000 {
			t.Errorf("%d of 20,000 equal hashes overflowed, want nearly all", missing)
		}
	}
}

// How often random hashes overflow, at the fullest.
func TestRandomHashesHardlyOverflow(t *testing.T) {
	keys := 700_000
	if testing.Short() {
		keys /= 4
	}
	x := newIndex(keys, new(arena))
	random := rand.New(rand.NewPCG(3, 4))
	for i := range x.limit() {
		x.put(tag(random.Uint32()), ref(i+1))
	}
	t.Logf("%d of %d keys overflow", len(x.over), x.limit())
	if share := float64(len(x.over)) / float64(x.limit()); share > 1e-4 {
		t.Errorf("%g of the keys of a full index overflow, want at most 1e-4", share)
	}
}

// Readers look for crowded keys while the writer adds them: after Add has returned, the key is found.
func TestCrowdedKeysAreFoundBesideTheirWriter(t *testing.T) {
	const keys = 3000
	key := func(i int) []byte { return fmt.Appendf(nil, "%05d", i*7919%keys) }
	table := newTable(t, nil, 0)
	var mu sync.Mutex
	added := 0
	var readers sync.WaitGroup
	for r := range 2 {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(r), 5))
			for {
				mu.Lock()
				n := added
				mu.Unlock()
				if n > 0 {
					i := random.IntN(n)
					if _, _, found := table.Get(key(i), 7, ikey.MaxSeq); !found {
						t.Errorf("key %d of %d is not found", i, n)
						return
					}
				}
				if n == keys {
					return
				}
			}
		})
	}
	for i := range keys {
		table.Add(key(i), 7, ikey.Seq(i+1), ikey.Set, nil)
		mu.Lock()
		added++
		mu.Unlock()
	}
	readers.Wait()
}

// BenchmarkChosen puts and looks up 100,000 keys whose hashes were chosen, and random ones.
func BenchmarkChosen(b *testing.B) {
	const keys = 100_000
	key := func(i int) []byte { return fmt.Appendf(nil, "%016d", uint64(i)*0x9e3779b97f4a7c15%1e16) }
	for _, set := range crowding {
		hashes := make([]bloomblock.Hash, keys)
		names := make([][]byte, keys)
		for i := range keys {
			hashes[i], names[i] = set.hash(i), key(i)
		}
		fill := func() *Table {
			table := New(nil, 0, 16<<20)
			for i := range keys {
				table.Add(names[i], hashes[i], ikey.Seq(i+1), ikey.Set, nil)
			}
			return table
		}
		b.Run("put/"+set.name, func(b *testing.B) {
			for b.Loop() {
				fill()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*keys), "ns/key")
		})
		b.Run("get/"+set.name, func(b *testing.B) {
			table, i := fill(), 0
			for b.Loop() {
				table.Get(names[i%keys], hashes[i%keys], ikey.MaxSeq)
				i += 7919
			}
		})
	}
}
