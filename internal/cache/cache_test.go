package cache

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// fill writes the content that intact expects in block i.
func fill(b *Block, i int) {
	buf := b.Bytes()
	for k := 0; k+8 <= len(buf); k += 8 {
		binary.LittleEndian.PutUint64(buf[k:], uint64(i)*1_000_003+uint64(k))
	}
}

// poisoned sets Testing for the duration of a test.
func poisoned(t *testing.T, mode TestMode) {
	t.Helper()
	Testing.Store(&mode)
	t.Cleanup(func() { Testing.Store(nil) })
}

func intact(b *Block, i int) bool {
	buf := b.Bytes()
	for k := 0; k+8 <= len(buf); k += 8 {
		if binary.LittleEndian.Uint64(buf[k:]) != uint64(i)*1_000_003+uint64(k) {
			return false
		}
	}
	return true
}

// read does what a table reader does: it hits, or fills and inserts.
func read(c *Cache, slots []Slot, i, n int) *Block {
	if b := c.Get(&slots[i]); b != nil {
		return b
	}
	b := c.Alloc(n)
	fill(b, i)
	return c.Insert(&slots[i], b)
}

func TestClassesHoldWhatTheyAreAskedFor(t *testing.T) {
	last := 0
	for n := 1; n <= maxRecycle; n++ {
		class := classOf(n)
		capacity := classBytes(class)
		if class < last || class >= classes || capacity < n || class > 0 && classBytes(class-1) >= n {
			t.Fatalf("%d bytes: class %d with a capacity of %d, after class %d", n, class, capacity, last)
		}
		last = class
	}
	for _, n := range []int{maxRecycle + 1, 8 * maxRecycle} {
		if got := classOf(n); got != classes {
			t.Fatalf("%d bytes: class %d, want %d", n, got, classes)
		}
	}
}

func TestTheCapacityIsABound(t *testing.T) {
	testkit.Long(t)
	for _, capacity := range []int64{0, 1, 100 << 10, 1 << 20, 8 << 20} {
		d := new(epoch.Domain)
		c := New(capacity, d)
		slots := make([]Slot, 2500)
		rng := rand.New(rand.NewPCG(1, 4))
		for range 6000 {
			i := rng.IntN(len(slots))
			g := d.Enter()
			if b := read(c, slots, i, 100+i*3); !intact(b, i) {
				t.Fatal("wrong content")
			}
			g.Leave()
			if s := c.Stats(); s.Used > capacity || s.Used+s.Spare > s.Capacity || s.Capacity > capacity {
				t.Fatalf("capacity %d: %+v", capacity, s)
			}
		}
		s := c.Stats()
		if capacity >= 1<<20 && s.Used < capacity*7/10 {
			t.Fatalf("capacity %d is not used: %+v", capacity, s)
		}
		cached := 0
		for i := range slots {
			if slots[i].Load() != nil {
				cached++
			}
		}
		if cached != s.Blocks || uint64(cached) != s.Inserts-s.Evictions {
			t.Fatalf("%d slots are full: %+v", cached, s)
		}
		c.pool.SetCapacity(capacity / 2)
		if s := c.Stats(); s.Used > capacity/2 {
			t.Fatalf("capacity halved to %d: %+v", capacity/2, s)
		}
		c.Drop(slots)
		if s := c.Stats(); s.Used != 0 || s.Blocks != 0 {
			t.Fatalf("all dropped: %+v", s)
		}
	}
}

func TestABlockTooLargeIsNotKept(t *testing.T) {
	d := new(epoch.Domain)
	c := New(1<<20, d)
	var s Slot
	for _, n := range []int{100 << 10, maxRecycle, 3 << 20} {
		b := c.Alloc(n)
		if len(b.Bytes()) != n {
			t.Fatalf("%d bytes, want %d", len(b.Bytes()), n)
		}
		at := &b.Bytes()[0]
		if got := c.Insert(&s, b); got != b || s.Load() != nil {
			t.Fatalf("a block of %d bytes is published", n)
		}
		if at != &b.Bytes()[0] {
			t.Errorf("a block of %d bytes in the heap is copied", n)
		}
	}
	large := New(256<<20, d)
	defer d.Enter().Leave()
	large.Discard(large.Alloc(maxRecycle + 1))
	if waits := large.pool.limbo.bytes; waits != 0 {
		t.Errorf("%d bytes of a block too large to be used again wait for its readers", waits)
	}
}

// TestTheLargestBlockThatIsKept takes half of what its shard may have. It begins as one that nobody has used.
func TestTheLargestBlockThatIsKept(t *testing.T) {
	c := New(1<<20, new(epoch.Domain))
	if n := int(c.pool.shards[0].limit/2 - header); !c.HasRoom(n) || c.HasRoom(n+1) {
		t.Errorf("room for %d bytes: %v, for one more: %v, want only the first", n, c.HasRoom(n), c.HasRoom(n+1))
	}
	for _, less := range []int64{0, 1} {
		var s Slot
		b := c.Alloc(4000)
		b.recent.Store(1) // as if it were used again
		c.pool.shards[b.shard].limit = 2*b.size() - less
		if c.Insert(&s, b); (s.Load() == b) != (less == 0) {
			t.Errorf("%d bytes less than twice the block: kept %v", less, s.Load() == b)
		}
		if less == 0 && b.recent.Load() != 0 {
			t.Error("a new block counts as used")
		}
	}
	if c.pool.SetCapacity(0); c.Stats().Used != 0 {
		t.Error("a block that is alone stays in a pool without a capacity")
	}
}

func TestTheLoserOfARaceGetsTheWinner(t *testing.T) {
	c := New(1<<20, new(epoch.Domain))
	var s Slot
	first, second := c.Alloc(100), c.Alloc(100)
	if c.Insert(&s, first) != first || c.Insert(&s, second) != first {
		t.Fatal("the second insert did not return the first block")
	}
	if s := c.Stats(); s.Blocks != 1 { // it takes the lock of each shard
		t.Errorf("%d blocks, want 1", s.Blocks)
	}
}

func TestRecentlyUsedBlocksStay(t *testing.T) {
	d := new(epoch.Domain)
	c := New(2<<20, d)
	slots := make([]Slot, 4000)
	for i := range slots {
		g := d.Enter()
		read(c, slots, i, 4000)
		for hot := range 20 {
			read(c, slots, hot, 4000)
		}
		g.Leave()
	}
	for hot := range 20 {
		if slots[hot].Load() == nil {
			t.Errorf("block %d was read all the time but evicted", hot)
		}
	}
}

func TestReadersNeverSeeARecycledBlock(t *testing.T) {
	d := new(epoch.Domain)
	c := New(300<<10, d)
	poisoned(t, TestMode{})
	slots := make([]Slot, 300)
	var wg sync.WaitGroup
	for reader := range uint64(4) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(reader, 5))
			var held *Block
			var heldNo int
			for n := range 2000 {
				i := rng.IntN(len(slots))
				g := d.Enter()
				b := read(c, slots, i, 1000+i)
				if !intact(b, i) {
					t.Error("wrong content inside a guard")
				}
				if n%16 == 0 {
					if held != nil {
						if !intact(held, heldNo) {
							t.Error("wrong content of a held block")
						}
						held.Release()
					}
					b.Acquire()
					held, heldNo = b, i
				}
				if n%1000 == 0 {
					c.Drop(slots[:50])
				}
				if !intact(b, i) {
					t.Error("the content changed inside a guard")
				}
				g.Leave()
			}
		})
	}
	wg.Wait()
	if s := c.Stats(); s.Used+s.Spare > s.Capacity || s.Evictions == 0 {
		t.Fatalf("%+v", s)
	}
}

func TestHitsAllocateNothingAndMissesReuse(t *testing.T) {
	d := new(epoch.Domain)
	c := New(1<<20, d)
	slots := make([]Slot, 1000)
	n := 0
	miss := func() {
		n = (n + 1) % len(slots)
		g := d.Enter()
		b := c.Get(&slots[n])
		if b == nil {
			c.Insert(&slots[n], c.Alloc(4000))
		}
		g.Leave()
	}
	for range 5000 {
		miss()
	}
	// The domain allocates a little for each batch; an allocation of 4 KiB for each miss would be at least 1.
	if got := testing.AllocsPerRun(5000, miss); got > 0.5 {
		t.Errorf("a miss allocates %v times", got)
	}
	hit := &slots[n]
	if got := testing.AllocsPerRun(1000, func() { c.Get(hit) }); got != 0 {
		t.Errorf("a hit allocates %v times", got)
	}
}

func BenchmarkHit(b *testing.B) {
	d := new(epoch.Domain)
	c := New(1<<20, d)
	var s Slot
	c.Insert(&s, c.Alloc(4000))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			g := d.Enter()
			if c.Get(&s) == nil {
				b.Error("miss")
			}
			g.Leave()
		}
	})
}

func BenchmarkMiss(b *testing.B) {
	d := new(epoch.Domain)
	c := New(8<<20, d)
	slots := make([]Slot, 10_000)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		i := rand.IntN(len(slots))
		for pb.Next() {
			i = (i + 1) % len(slots)
			g := d.Enter()
			if c.Get(&slots[i]) == nil {
				c.Insert(&slots[i], c.Alloc(4000))
			}
			g.Leave()
		}
	})
}

// TestADiscardedBlockIsGoneAfterItsReaders: a block that was in no slot is used again once nobody can see it.
func TestADiscardedBlockIsGoneAfterItsReaders(t *testing.T) {
	d := new(epoch.Domain)
	c := New(1<<20, d)
	poisoned(t, TestMode{})
	g := d.Enter()
	b, held := c.Alloc(1000), c.Alloc(1000)
	fill(b, 1)
	fill(held, 2)
	held.Acquire()
	c.Discard(b)
	c.Discard(held)
	if !intact(b, 1) || !intact(held, 2) {
		t.Error("a block changed before its reader left")
	}
	g.Leave()
	d.Wait()
	if intact(b, 1) {
		t.Error("a block that nobody sees is still there")
	}
	if !intact(held, 2) {
		t.Error("a block changed that is held")
	}
	held.Release()
	if s := c.Stats(); s.Blocks != 0 || s.Used != 0 || s.Spare == 0 {
		t.Errorf("%+v, want no blocks, and spare buffers", s)
	}
}
