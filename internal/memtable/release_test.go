package memtable

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// newTable returns a table outside the collector's heap, which the test releases at its end.
func newTable(t *testing.T, prefix []byte, keys int) *Table {
	t.Helper()
	pool := NewMemory()
	tb := NewIn(pool, prefix, keys, 0)
	t.Cleanup(func() {
		tb.Release()
		if n := pool.Lent(); n != 0 {
			t.Errorf("the table did not give back %d bytes", n)
		}
		pool.Trim(0) // under the race detector it is in the heap, which other tests measure
	})
	return tb
}

func TestAReleasedTableGivesItsMemoryToTheNextOne(t *testing.T) {
	testkit.Long(t)
	pool := NewMemory()
	defer pool.Trim(0)
	lent := int64(0)
	for round := range 3 {
		tb := NewIn(pool, nil, 200_000, 8<<20)
		value := fmt.Sprint("value of round ", round)
		for i := range 30_000 {
			add(tb, fmt.Sprint("key", i*7919%30_000), ikey.Seq(i+1), ikey.Set, value)
		}
		large := make([]byte, 3<<20)
		tb.Add([]byte("large"), bloomblock.HashKey([]byte("large")), 50_000, ikey.Set, large)
		for i := range 30_000 {
			if got := get(tb, fmt.Sprint("key", i), ikey.MaxSeq); got != "SET "+value {
				t.Fatalf("round %d: key %d is %q", round, i, got)
			}
			if got := get(tb, fmt.Sprint("other", i), ikey.MaxSeq); got != "none" {
				t.Fatalf("round %d: absent key %d is %q", round, i, got)
			}
		}
		if lent == 0 {
			lent = pool.Lent()
		}
		// In addition to what is lent, a chunk may be prepared.
		if bytes := tb.Bytes(); pool.Lent() != lent || pool.Idle() > maxChunk || bytes < lent*2/3 || bytes > lent*3/2 {
			t.Errorf("round %d: %d bytes are lent, before %d, and %d idle; the table says %d",
				round, pool.Lent(), lent, pool.Idle(), bytes)
		}
		tb.Freeze()
		tb.Hold()
		tb.Hold()
		if tb.Release() || pool.Lent() != lent {
			t.Error("the table was released with a reference left")
		}
		kept := lent - int64(len(large)) - 4<<10 // with its header, the large one has a page more
		if !tb.Release() || pool.Lent() != 0 || pool.Idle() < kept || pool.Idle() > kept+maxChunk {
			t.Errorf("after the last reference %d bytes are lent, %d idle, want 0 and %d to %d",
				pool.Lent(), pool.Idle(), kept, kept+maxChunk)
		}
	}
}

// TestMemoryIsPreparedForATable looks at what is ready before a table needs it: its last index, then its next chunk.
func TestMemoryIsPreparedForATable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewMemory()
		tb := NewIn(pool, nil, 0, 64<<20)
		n := 0
		fill := func(to int) {
			for ; n < to; n++ {
				add(tb, fmt.Sprint("key", n*7919%23_000), ikey.Seq(n+1), ikey.Set, "a value of thirty or more bytes")
				synctest.Wait()
			}
		}
		fill(growFrom - 3000)
		prepared := pool.Idle()
		if prepared < 2<<20 || pool.Lent() >= prepared {
			t.Errorf("%d bytes are prepared and %d lent, want the index of all keys and less", prepared, pool.Lent())
		}
		fill(growFrom + 3000)
		if got := int64(len(tb.index.Load().slots)) * bytesPerSlot; got != prepared || pool.Lent() < prepared {
			t.Errorf("the index has %d bytes, want those that were prepared: %d", got, prepared)
		}
		fill(23_000)
		if pool.Idle() != maxChunk {
			t.Errorf("%d bytes are idle, want the next chunk", pool.Idle())
		}
		for i := range n {
			if got := get(tb, fmt.Sprint("key", i), ikey.MaxSeq); got == "none" {
				t.Fatalf("key %d is lost", i)
			}
		}
		tb.Release()
		pool.Trim(0)
	})
}

// The filter, the range tombstones and the figures stay; versions do not, and looking for one panics.
func TestWhatIsLeftOfAReleasedTable(t *testing.T) {
	for name, tb := range map[string]*Table{
		"outside": NewIn(NewMemory(), nil, 0, 0), "in the heap": New(nil, 0, 0),
	} {
		add(tb, "k", 1, ikey.Set, "v")
		tb.AddRange([]byte("a"), []byte("c"), 2)
		tb.Freeze()
		bytes := tb.Bytes()
		tb.Release()
		if !tb.MayContain(bloomblock.HashKey([]byte("k"))) || tb.MayContain(bloomblock.HashKey([]byte("x"))) {
			t.Errorf("%s: the filter has changed", name)
		}
		if got := tb.RangeDels().Covering([]byte("b"), ikey.MaxSeq); got != 2 {
			t.Errorf("%s: the newest tombstone over b is %d, want 2", name, got)
		}
		if tb.Keys() != 1 || tb.Len() != 2 || tb.Bytes() != bytes {
			t.Errorf("%s: %d keys, %d versions, %d bytes, want 1, 2, %d", name, tb.Keys(), tb.Len(), tb.Bytes(), bytes)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: a version was read after the release", name)
				}
			}()
			tb.arena.version(firstRef)
		}()
	}
}

// TestATableTakesLittleMoreThanItsSize fills tables up to the size at which their owner freezes them, and one far
// beyond, as a batch may that is larger than the table.
func TestATableTakesLittleMoreThanItsSize(t *testing.T) {
	testkit.Long(t)
	for _, size := range []int64{1 << 20, 2 << 20, 8 << 20, 16 << 20} {
		pool := NewMemory()
		tb := NewIn(pool, nil, 0, size)
		value, n := string(make([]byte, 1000)), 0
		fill := func(to int64) {
			for ; tb.Bytes() < to; n++ {
				add(tb, fmt.Sprint("key", n), ikey.Seq(n+1), ikey.Set, value)
			}
		}
		fill(size)
		// The first chunk is half as large as the others. Another one may be prepared.
		most := size + max(size/8, minLent)
		if lent := pool.Lent(); lent > most || pool.Idle() > max(size/8, minLent) {
			t.Errorf("a table of %d bytes has %d, and %d are prepared, want at most %d", size, lent, pool.Idle(), most)
		}
		fill(20 * size)
		if chunks := len(*tb.arena.chunks.Load()) - 1; int64(chunks) > manyChunks+20*size/maxChunk {
			t.Errorf("a table of %d bytes in place of %d has %d chunks", tb.Bytes(), size, chunks)
		}
		for i := 0; i < n; i += 97 {
			if got := get(tb, fmt.Sprint("key", i), ikey.MaxSeq); got != "SET "+value {
				t.Fatalf("key %d of a table of %d bytes is lost", i, tb.Bytes())
			}
		}
		tb.Release()
		pool.Trim(0)
	}
}
