package memtable

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

const benchKeys = 500_000

// benchOrders holds 500 k keys of 16 bytes, as stores see them. All are shuffled, except where the name has an order.
var benchOrders = []struct {
	name string
	key  func(i int) []byte
	less bool // ascending
}{
	{"zero-padded numbers", func(i int) []byte { return fmt.Appendf(nil, "%016d", i) }, false},
	{"zero-padded numbers ascending", func(i int) []byte { return fmt.Appendf(nil, "%016d", i) }, true},
	{"hashes", func(i int) []byte {
		b := binary.BigEndian.AppendUint64(nil, uint64(bloomblock.HashKey(fmt.Append(nil, i))))
		return binary.BigEndian.AppendUint64(b, uint64(i))
	}, false},
}

type benchKey struct {
	key  []byte
	hash bloomblock.Hash
}

func benchSet(key func(int) []byte, ascending bool) []benchKey {
	keys := make([]benchKey, benchKeys)
	bytes := make([]byte, 0, 16*benchKeys)
	for i := range keys {
		k := key(i)
		bytes = append(bytes, k...)
		keys[i] = benchKey{bytes[len(bytes)-len(k):], bloomblock.HashKey(k)}
	}
	if !ascending {
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	}
	return keys
}

func fill(t *Table, keys []benchKey, value []byte) {
	for i, k := range keys {
		t.Add(k.key, k.hash, ikey.Seq(i+1), ikey.Set, value)
	}
}

// An op is one Add into a table that grows from nothing to 500 k keys.
func BenchmarkAdd(b *testing.B) {
	value := make([]byte, 100)
	for _, o := range benchOrders {
		b.Run(o.name, func(b *testing.B) {
			keys := benchSet(o.key, o.less)
			t, n := New(nil, 0, 0), 0
			for b.Loop() {
				if n == len(keys) {
					t, n = New(t.CommonPrefix(), t.Keys(), 0), 0
				}
				t.Add(keys[n].key, keys[n].hash, ikey.Seq(n+1), ikey.Set, value)
				n++
			}
		})
	}
	b.Run("overwrite", func(b *testing.B) {
		keys := benchSet(benchOrders[0].key, false)
		t := New(nil, 0, 0)
		fill(t, keys, value)
		n := 0
		for b.Loop() {
			k := keys[n%len(keys)]
			t.Add(k.key, k.hash, ikey.Seq(len(keys)+n+1), ikey.Set, nil)
			n++
		}
	})
}

func BenchmarkGet(b *testing.B) {
	for _, o := range benchOrders[:1] {
		keys := benchSet(o.key, o.less)
		t := New(nil, 0, 0)
		fill(t, keys, make([]byte, 100))
		rand.New(rand.NewPCG(3, 4)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		b.Run("present", func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				k := keys[n]
				if _, _, ok := t.Get(k.key, k.hash, ikey.MaxSeq); !ok {
					b.Fatal("lost")
				}
				if n++; n == len(keys) {
					n = 0
				}
			}
		})
		b.Run("absent", func(b *testing.B) {
			b.ReportAllocs()
			rng, k := rand.NewPCG(5, 6), []byte("absent")
			for b.Loop() {
				t.Get(k, bloomblock.Hash(rng.Uint64()), ikey.MaxSeq)
			}
		})
	}
}

// An op is one version read in order, or one seek.
func BenchmarkCursor(b *testing.B) {
	keys := benchSet(benchOrders[0].key, false)
	t := New(nil, 0, 0)
	fill(t, keys, make([]byte, 100))
	for _, state := range []string{"live", "frozen"} {
		if state == "frozen" {
			t.Freeze()
		}
		var c Cursor
		walk := func(begin, step func() bool) func(*testing.B) {
			return func(b *testing.B) {
				b.Helper()
				b.ReportAllocs()
				c.Reset(t, ikey.MaxSeq)
				ok := false
				for b.Loop() {
					if ok = ok && step(); !ok {
						ok = begin()
					}
				}
			}
		}
		seek := func(to func(ikey.Key) bool) func(*testing.B) {
			return func(b *testing.B) {
				b.Helper()
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					c.Reset(t, ikey.MaxSeq)
					to(ikey.Search(keys[n%len(keys)].key, ikey.MaxSeq))
					c.Close()
					n++
				}
			}
		}
		b.Run(state+"/next", walk(c.First, c.Next))
		b.Run(state+"/prev", walk(c.Last, c.Prev))
		b.Run(state+"/seekGE", seek(c.SeekGE))
		b.Run(state+"/seekLT", seek(c.SeekLT))
	}
}
