package sstable

import (
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// largeEntries have values around the size from which they are not copied, and small ones before, between and behind.
func largeEntries() (kvs []kv) {
	rng := seeded()
	for i, n := range []int{0, 1, writeSize - 1, writeSize, writeSize + 1, 10, writeSize + 1, 1 << 20, 3} {
		kvs = append(kvs, set(fmt.Sprintf("key%d", i), 7, strings.Repeat("0123456789abcdef", n/16+1)[:n]))
	}
	return append(kvs, set("key9", 7, random(rng, 1<<20)), set("key9", 5, random(rng, writeSize+1)))
}

// TestLargeEntriesAreReadAsTheyWereWritten has large values that compress, and others that do not.
func TestLargeEntriesAreReadAsTheyWereWritten(t *testing.T) {
	kvs := largeEntries()
	for _, codec := range []Codec{None, S2, Zstd} {
		file, info := build(t, WriterOptions{ID: 1, Codec: codec, Filter: filterParams(t, 0.01)}, kvs)
		if small := len(file) < 3<<20; small != (codec != None) {
			t.Errorf("%v: the table has %d bytes", codec, len(file))
		}
		r := newReader(file, info, 1<<20)
		for _, bypass := range []bool{false, true} {
			it := r.Iter(IterOptions{Bypass: bypass})
			i := 0
			for ok := it.First(); ok; ok = it.Next() {
				if want := kvs[i]; ikey.Compare(it.Key(), want.ikey()) != 0 || string(it.Value()) != want.value {
					t.Errorf("%v: version %d is %v with %d bytes, want %v with %d",
						codec, i, it.Key(), len(it.Value()), want.ikey(), len(want.value))
				}
				i++
			}
			if err := it.Close(); err != nil || i != len(kvs) {
				t.Errorf("%v: %d versions, %v, want %d", codec, i, err, len(kvs))
			}
			it.Trim()
			if n := max(cap(it.buf), cap(it.plain), cap(it.spare)); n > keepCursor {
				t.Errorf("%v: the cursor keeps %d bytes, want at most %d", codec, n, keepCursor)
			}
		}
		for _, want := range kvs {
			if got, ok, err := get(r, want.key, want.t.Seq()); err != nil || !ok || got != want {
				t.Errorf("%v: Get of %s: %v, %v, %d bytes", codec, want.key, ok, err, len(got.value))
			}
		}
	}
}

// TestATableOfLargeEntriesByteForByte compares a table with the one that was written when values were copied.
func TestATableOfLargeEntriesByteForByte(t *testing.T) {
	file, _ := build(t, WriterOptions{ID: 1, partSize: defaultPartSize}, largeEntries()[:9])
	if got, want := crc32.ChecksumIEEE(file), uint32(0xbc6a342e); got != want {
		t.Errorf("the checksum of the table is %08x, want %08x", got, want)
	}
}

// TestLargeValuesAreNotCopiedIntoTheHeap counts what a Writer allocates for them.
func TestLargeValuesAreNotCopiedIntoTheHeap(t *testing.T) {
	value := []byte(random(seeded(), 8<<20))
	for _, codec := range []Codec{None, S2} {
		w := NewWriter(io.Discard, WriterOptions{Codec: codec})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range 4 {
			must(t, w.Add(ikey.Key{User: []byte{byte(i)}, Trailer: plainSet}, value))
		}
		runtime.ReadMemStats(&after)
		// Under the race detector, both buffers of the compression are in the heap.
		compressed := codec != None && testkit.RaceEnabled // which allocates, and empties pools
		if n := after.TotalAlloc - before.TotalAlloc; n > uint64(len(value))/2 && !compressed {
			t.Errorf("%v: %d bytes were allocated for 4 values of %d", codec, n, len(value))
		}
	}
}
