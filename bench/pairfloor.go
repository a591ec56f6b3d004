package main

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// A pairFloor is the least work that lookups of present keys, seeks and scans need in a compacted tree, a single sorted
// run. It holds copies of all pairs in the order of their keys, without lengths or checksums, since all have the same
// size. Blocks and tables are ranges of pairs, of about the store's sizes. They are found by the heads of keys: the
// eight bytes after the prefix that all keys have in common.
//
// A lookup hashes the key, searches the fences of the tables, probes one filter, searches the last keys of the table's
// blocks and the keys of one block, compares the key, and copies the value. A seek does the same without hash, filter
// and copy, and reads pairs from there on. A scan reads all pairs.
type pairFloor struct {
	prefix          int // bytes that all keys have in common
	keySize, size   int // of a key, and of a pair
	perBlock        int // pairs in a block
	blocksPerTable  int
	pairs           []byte
	heads           []uint64 // of all keys
	blocks, fences  []uint64 // heads of the last keys of blocks and of tables
	filters         []bloomblock.Filter
	found           []byte // value of the last lookup
	readBytes, read uint64 // by seeks and scans
}

const (
	floorBlock = 4 << 10 // bytes of a block, as in the store
	mostImage  = 1 << 30 // bytes of pairs: there is no pairFloor of larger stores
)

// newPairFloor returns the floor of a run that holds a set.
func newPairFloor(last layer, set *workload.Generated) (*pairFloor, error) {
	n := set.Len()
	if n == 0 || last.tables == 0 {
		return nil, fmt.Errorf("%d keys in %d tables, want at least one of each for a floor", n, last.tables)
	}
	f := &pairFloor{keySize: set.Shape().KeyBytes()}
	keys := make([]byte, 0, n*f.keySize)
	order := make([]int, n)
	for i := range n {
		keys = set.AppendKey(keys, i)
		order[i] = i
	}
	key := func(i int) []byte { return keys[i*f.keySize : (i+1)*f.keySize] }
	if !set.Sorted() {
		slices.SortFunc(order, func(a, b int) int { return bytes.Compare(key(a), key(b)) })
	}
	f.size = f.keySize + len(set.AppendValue(nil, 0))
	f.prefix = commonPrefix(key(order[0]), key(order[n-1]))
	f.perBlock = max(1, floorBlock/f.size)
	blocks := (n + f.perBlock - 1) / f.perBlock
	f.blocksPerTable = (blocks + last.tables - 1) / last.tables
	params, err := bloomblock.NewParams(bestUnit(float64(last.filterBytes) * 8 / float64(max(last.entries, 1))))
	if err != nil {
		return nil, err
	}
	f.pairs, f.heads = make([]byte, 0, n*f.size), make([]uint64, 0, n)
	var b bloomblock.Builder
	for at, i := range order {
		k := key(i)
		f.pairs = set.AppendValue(append(f.pairs, k...), i)
		h := head(k, f.prefix)
		f.heads = append(f.heads, h)
		b.Add(bloomblock.HashKey(k))
		if at+1 < n && (at+1)%f.perBlock > 0 {
			continue
		}
		f.blocks = append(f.blocks, h)
		if at+1 < n && len(f.blocks)%f.blocksPerTable > 0 {
			continue
		}
		f.fences = append(f.fences, h)
		filter, err := bloomblock.Parse(b.AppendBlock(nil, params))
		if err != nil {
			return nil, err
		}
		f.filters = append(f.filters, filter)
		b.Reset()
	}
	return f, nil
}

// find returns the number of the first pair of a table whose key is not below key, or of the last one.
func (f *pairFloor) find(table int, key []byte, h uint64) int {
	first := table * f.blocksPerTable
	block := first + search(f.blocks[first:min(first+f.blocksPerTable, len(f.blocks))], h)
	first = block * f.perBlock
	at := first + search(f.heads[first:min(first+f.perBlock, len(f.heads))], h)
	for at+1 < len(f.heads) && f.heads[at] == h && bytes.Compare(f.key(at), key) < 0 {
		at++ // keys that differ after their heads
	}
	return at
}

func (f *pairFloor) key(i int) []byte { return f.pairs[i*f.size : i*f.size+f.keySize] }

func (f *pairFloor) value(i int) []byte { return f.pairs[i*f.size+f.keySize : (i+1)*f.size] }

// get copies the value of a key and reports whether there is one.
func (f *pairFloor) get(key []byte) bool {
	hash, h := bloomblock.HashKey(key), head(key, f.prefix)
	table := search(f.fences, h)
	if !f.filters[table].MayContain(hash) {
		return false
	}
	at := f.find(table, key, h)
	if !bytes.Equal(f.key(at), key) {
		return false
	}
	f.found = append(f.found[:0], f.value(at)...)
	return true
}

// seekPairs is the number of pairs that a seek reads.
const seekPairs = 10

// seek reads seekPairs pairs from a key on, and reports whether the first is that of the key.
func (f *pairFloor) seek(key []byte) bool {
	h := head(key, f.prefix)
	at := f.find(search(f.fences, h), key, h)
	same := bytes.Equal(f.key(at), key)
	for i := at; i < min(at+seekPairs, len(f.heads)); i++ {
		f.touch(f.key(i), f.value(i))
	}
	return same
}

// scan reads all pairs and returns their number.
func (f *pairFloor) scan() int {
	for i := range f.heads {
		f.touch(f.key(i), f.value(i))
	}
	return len(f.heads)
}

// touch reads the ends of a key and of its value.
func (f *pairFloor) touch(key, value []byte) {
	f.read++
	f.readBytes += touched(key) + touched(value)
}

// touched returns a sum that depends on the length and on the ends of b.
func touched(b []byte) uint64 {
	if len(b) == 0 {
		return 0
	}
	return uint64(len(b)) + uint64(b[0]) + uint64(b[len(b)-1])
}

// A pairReader reads pairs from an iterator of a store, as a pairFloor reads its own.
type pairReader struct {
	it        *bloomkv.Iterator
	read      uint64
	readBytes uint64
}

func (r *pairReader) seek(key []byte) bool {
	ok := r.it.SeekGE(key)
	same := ok && bytes.Equal(r.it.Key(), key)
	for n := 1; ok; n++ {
		r.touch()
		if n == seekPairs {
			break
		}
		ok = r.it.Next()
	}
	return same
}

func (r *pairReader) scan() (n int) {
	for ok := r.it.First(); ok; ok = r.it.Next() {
		r.touch()
		n++
	}
	return n
}

func (r *pairReader) touch() {
	r.read++
	r.readBytes += touched(r.it.Key()) + touched(r.it.Value())
}

// compareScans reads all pairs of a store and of its floor in turn, for the given number of rounds. The times are those
// of a pair.
func compareScans(ctx context.Context, r *pairReader, f *pairFloor, rounds int, done func(round int)) (
	comparison, error,
) {
	scans := [...]func() int{r.scan, f.scan}
	times := [3][]float64{2: {0}} // asking costs nothing
	var turns [len(scans)]turn
	runtime.GC()
	for round := range rounds {
		for i := range scans {
			if err := ctx.Err(); err != nil {
				return comparison{}, err
			}
			which := (i + round) % len(scans)
			begin := time.Now()
			n := scans[which]()
			times[which] = append(times[which], float64(time.Since(begin))/float64(max(n, 1)))
			turns[which].others += max(n-len(f.heads), len(f.heads)-n)
		}
		done(round + 1)
	}
	return summary(chain{want: true}, &turns[0], &turns[1], times), r.it.Err()
}
