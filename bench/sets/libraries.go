package main

import (
	"math/bits"
	"slices"

	bitsandblooms "github.com/bits-and-blooms/bloom/v3"
	"github.com/dgraph-io/ristretto/v2/z"
	holiman "github.com/holiman/bloomfilter/v2"

	"github.com/bloomkv/bloomkv/bloom"
	"github.com/bloomkv/bloomkv/bloomblock"
)

// A set is a set of any library. Loops over keys are part of it, so that a Filter and the other libraries are called
// directly: those of the others are addAll and countIn, which are inlined with the literals that they get. The other
// sets of package bloom are called through two function values, about a nanosecond each.
type set struct {
	add   func(keys [][]byte)
	count func(keys [][]byte) (maybe int) // of the keys that may be in the set
	bytes func() int
}

func addAll(keys [][]byte, add func(key []byte)) {
	for _, key := range keys {
		add(key)
	}
}

func countIn(keys [][]byte, ask func(key []byte) bool) (maybe int) {
	for _, key := range keys {
		if ask(key) {
			maybe++
		}
	}
	return maybe
}

// setOf returns a set for two functions of a key.
func setOf(bytes func() int, add func(key []byte), ask func(key []byte) bool) set {
	return set{
		add:   func(keys [][]byte) { addAll(keys, add) },
		count: func(keys [][]byte) int { return countIn(keys, ask) },
		bytes: bytes,
	}
}

// A kind makes sets for a number of keys and a rate.
type kind struct {
	name string
	make func(keys int, rate float64) (set, error)
}

func hash(key []byte) uint64 { return uint64(bloomblock.HashKey(key)) }

// others are the libraries beside bloomkv. Those that take a hash get that of bloomkv.
var others = []kind{
	{"bits-and-blooms v3.7.1", func(keys int, rate float64) (set, error) {
		f := bitsandblooms.NewWithEstimates(uint(keys), rate)
		return set{
			add: func(keys [][]byte) { addAll(keys, func(key []byte) { f.Add(key) }) },
			count: func(keys [][]byte) int {
				return countIn(keys, func(key []byte) bool { return f.Test(key) })
			},
			bytes: func() int { return int(f.Cap() / 8) },
		}, nil
	}},
	{"holiman v2.0.3", func(keys int, rate float64) (set, error) {
		f, err := holiman.NewOptimal(uint64(keys), rate)
		if err != nil {
			return set{}, err
		}
		return set{
			add: func(keys [][]byte) { addAll(keys, func(key []byte) { f.AddHash(hash(key)) }) },
			count: func(keys [][]byte) int {
				return countIn(keys, func(key []byte) bool { return f.ContainsHash(hash(key)) })
			},
			bytes: func() int { return int(f.M() / 8) },
		}, nil
	}},
	{"ristretto/z v2.2.0", func(keys int, rate float64) (set, error) {
		f := z.NewBloomFilter(float64(keys), rate)
		return set{
			add: func(keys [][]byte) { addAll(keys, func(key []byte) { f.Add(hash(key)) }) },
			count: func(keys [][]byte) int {
				return countIn(keys, func(key []byte) bool { return f.Has(hash(key)) })
			},
			bytes: f.TotalSize,
		}, nil
	}},
}

// A measured set is what the table needs of a set of package bloom.
type measured interface {
	Add(key []byte) bool
	MayContain(key []byte) bool
	Bytes() int
}

func ours[S measured](newSet func(o bloom.Options) (S, error)) func(int, float64) (set, error) {
	return func(keys int, rate float64) (set, error) {
		s, err := newSet(bloom.Options{Keys: keys, Rate: rate})
		if err != nil {
			return set{}, err
		}
		return setOf(s.Bytes, func(key []byte) { s.Add(key) }, s.MayContain), nil
	}
}

// filter returns a kind of Filter. Its loops are written out: what is in a function that is inlined itself is called.
func filter(layout bloom.Layout) func(int, float64) (set, error) {
	return func(keys int, rate float64) (set, error) {
		f, err := bloom.New(bloom.Options{Keys: keys, Rate: rate, Layout: layout})
		if err != nil {
			return set{}, err
		}
		return set{
			add: func(keys [][]byte) {
				for _, key := range keys {
					f.Add(key)
				}
			},
			count: func(keys [][]byte) (maybe int) {
				for _, key := range keys {
					if f.MayContain(key) {
						maybe++
					}
				}
				return maybe
			},
			bytes: f.Bytes,
		}, nil
	}
}

// many returns a kind of Filter that hashes 64 keys and then adds or asks for all of them.
func many(keys int, rate float64) (set, error) {
	f, err := bloom.New(bloom.Options{Keys: keys, Rate: rate})
	if err != nil {
		return set{}, err
	}
	var hashes [64]bloomblock.Hash
	each := func(keys [][]byte, do func(hashes []bloomblock.Hash)) {
		for some := range slices.Chunk(keys, len(hashes)) {
			for i, key := range some {
				hashes[i] = bloomblock.HashKey(key)
			}
			do(hashes[:len(some)])
		}
	}
	return set{
		add: func(keys [][]byte) { each(keys, f.AddMany) },
		count: func(keys [][]byte) (maybe int) {
			each(keys, func(hashes []bloomblock.Hash) { maybe += bits.OnesCount64(f.MayContainMany(hashes)) })
			return maybe
		},
		bytes: f.Bytes,
	}, nil
}

const generations = 4 // of a window

func newWindow(o bloom.Options) (*bloom.Window, error) { return bloom.NewWindow(o, generations) }

func newGrowing(o bloom.Options) (*bloom.Scalable, error) {
	o.Keys = 0 // unknown
	return bloom.NewScalable(o)
}

// own are the kinds of sets of package bloom; the first is what the others are compared with.
var own = []kind{
	{"blocked", filter(bloom.LayoutBlocked)},
	{"blocked, 64 at once", many},
	{"classic", filter(bloom.LayoutClassic)},
	{"partitioned", filter(bloom.LayoutPartitioned)},
	{"Atomic", func(keys int, rate float64) (set, error) {
		a, err := bloom.NewAtomic(bloom.Options{Keys: keys, Rate: rate})
		if err != nil {
			return set{}, err
		}
		return setOf(a.Bytes, a.Add, a.MayContain), nil
	}},
	{"Counting", ours(bloom.NewCounting)},
	{"Scalable", ours(newGrowing)},
	{"Window of 4", ours(newWindow)},
}
