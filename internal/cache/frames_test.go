package cache

import (
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"

	"github.com/bloomkv/bloomkv/internal/epoch"
)

// slabBytes is the size of a slab.
const slabBytes = 2 << 20

// framed returns a cache whose blocks of 4 to 32 KiB are all in frames.
func framed(capacity int64, d *epoch.Domain) *Cache {
	p := NewPool(0)
	p.framed, p.heapFirst = true, 0
	p.SetCapacity(capacity)
	return p.NewCache(d)
}

func TestABlockTakesOneCacheLine(t *testing.T) {
	if n := unsafe.Sizeof(Block{}); n > header || unsafe.Sizeof(uintptr(0)) == 8 && n != header {
		t.Errorf("%d bytes, want %d", n, header)
	}
}

func TestASmallerPoolGivesFramesBack(t *testing.T) {
	d := new(epoch.Domain)
	c := framed(64<<20, d)
	slots := make([]Slot, 100)
	for i := range slots {
		read(c, slots, i, 4000)
	}
	if blocks, _, inFrames := c.Held(); blocks != len(slots) || inFrames != blocks {
		t.Errorf("%d of %d blocks are in frames", inFrames, blocks)
	}
	c.pool.SetCapacity(300 << 10) // evicts most of them
	d.Wait()
	if lent, _ := c.pool.frames.Bytes(); lent > 300<<10 {
		t.Errorf("%d bytes are lent to a pool of 300 KiB", lent)
	}
	c = framed(64<<20, d)
	c.Free(c.Alloc(4000))
	if lent, _ := c.pool.frames.Bytes(); lent != 4096 || c.Stats().Spare == 0 {
		t.Errorf("%d bytes are lent for one spare block", lent)
	}
	c.pool.SetCapacity(0)
	if lent, slabs := c.pool.frames.Bytes(); lent != 0 || slabs != 0 {
		t.Errorf("%d bytes are lent to a pool without room, slabs have %d", lent, slabs)
	}
}

func TestABlockThatIsNotKeptLeavesItsFrame(t *testing.T) {
	c := framed(64<<20, new(epoch.Domain))
	b := c.Alloc(4000)
	fill(b, 1)
	c.Close()
	c.Insert(new(Slot), b)
	if lent, _ := c.pool.frames.Bytes(); lent != 0 || b.buf.Lent() || !intact(b, 1) {
		t.Errorf("%d bytes are lent, the block is in a frame: %v, its content is there: %v",
			lent, b.buf.Lent(), intact(b, 1))
	}
}

func TestASmallPoolTakesNoSlab(t *testing.T) {
	d := new(epoch.Domain)
	c := framed(64<<20, d)
	c.pool.heapFirst = heapFirst / shards
	slots := make([]Slot, 2000)
	g := d.Enter()
	for i := range 560 { // some 70 in each shard, where 126 fit
		read(c, slots, i, 4000)
	}
	if lent, _ := c.pool.frames.Bytes(); lent != 0 {
		t.Errorf("%d bytes are lent to a pool with %d", lent, c.Stats().Used)
	}
	for i := range slots {
		read(c, slots, i, 4000)
	}
	g.Leave()
	if lent, _ := c.pool.frames.Bytes(); lent < 2<<20 {
		t.Errorf("%d bytes are lent to a pool with %d", lent, c.Stats().Used)
	}
}

// TestFramesOfAPoolComeBack drops, evicts, holds and frees blocks, closes the cache while readers fill it, and lets
// some hold blocks beyond that.
func TestFramesOfAPoolComeBack(t *testing.T) {
	d := new(epoch.Domain)
	const capacity = 3 << 20
	c := framed(capacity, d)
	slots := make([]Slot, 1500)
	var wg sync.WaitGroup
	for reader := range uint64(4) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(reader, 2))
			var held []*Block
			var numbers []int
			for n := range 3000 {
				i := rng.IntN(len(slots))
				g := d.Enter()
				b := read(c, slots, i, 3500+i*5)
				if !intact(b, i) {
					t.Error("wrong content inside a guard")
				}
				if n%8 == 0 {
					b.Acquire()
					held, numbers = append(held, b), append(numbers, i)
				}
				g.Leave()
				if n%97 == 0 {
					c.Drop(slots[:400])
				}
				if n%101 == 0 {
					c.Free(c.Alloc(5000))
				}
				if n == 2500 {
					c.Close()
				}
				for len(held) > 30 || n == 2999 && len(held) > 0 {
					k := rng.IntN(len(held))
					if !intact(held[k], numbers[k]) {
						t.Error("wrong content of a held block")
					}
					held[k].Release()
					held[k], numbers[k] = held[len(held)-1], numbers[len(held)-1]
					held, numbers = held[:len(held)-1], numbers[:len(numbers)-1]
				}
				if lent, resident := c.pool.frames.Bytes(); lent > capacity || resident > capacity {
					t.Errorf("%d bytes are lent, %d in memory; the capacity is %d", lent, resident, capacity)
				}
			}
		})
	}
	wg.Wait()
	d.Wait()
	c.pool.SetCapacity(0)
	if s := c.Stats(); s.Used != 0 || s.Evictions == 0 {
		t.Errorf("%+v", s)
	}
	if lent, slabs := c.pool.frames.Bytes(); lent != 0 || slabs != 0 {
		t.Errorf("nothing is used, but %d bytes are lent, and slabs have %d", lent, slabs)
	}
}

// TestTheHeapAndFramesShareTheCapacity fills a cache with small blocks, drops half of them, and fills it with blocks
// that are too large for frames.
func TestTheHeapAndFramesShareTheCapacity(t *testing.T) {
	d := new(epoch.Domain)
	c := framed(16<<20, d)
	slots := make([]Slot, 4000)
	for _, i := range rand.New(rand.NewPCG(1, 3)).Perm(len(slots)) {
		g := d.Enter()
		read(c, slots, i, 4000)
		g.Leave()
	}
	c.Drop(slots[:len(slots)/2])
	d.Wait()
	if s := c.Stats(); s.Spare < s.Capacity/4 {
		t.Errorf("%d bytes are spare, want about half of %d", s.Spare, s.Capacity)
	}
	large := make([]Slot, 300)
	for i := range large {
		g := d.Enter()
		read(c, large, i, 60<<10)
		g.Leave()
		if s := c.Stats(); s.Used+s.Spare > s.Capacity {
			t.Fatalf("%d bytes are used and %d spare, want %d at most", s.Used, s.Spare, s.Capacity)
		}
	}
	c.Drop(slots[len(slots)*3/4:])
	d.Wait()
	for _, capacity := range []int64{15 << 20, 14 << 20, 13 << 20, 12 << 20} {
		c.pool.SetCapacity(capacity)
		if s := c.Stats(); s.Used+s.Spare > s.Capacity {
			t.Errorf("%d bytes are used and %d spare, want %d at most", s.Used, s.Spare, s.Capacity)
		}
	}
}

// TestNoSlabForOneBlock fills a cache with blocks that are too large for frames, and reads one that is not.
func TestNoSlabForOneBlock(t *testing.T) {
	d := new(epoch.Domain)
	c := framed(4*slabBytes, d)
	const large = 60 << 10
	slots := make([]Slot, 4*slabBytes/large)
	g := d.Enter()
	defer g.Leave()
	for i := range slots {
		read(c, slots, i, large)
	}
	var small Slot
	c.Insert(&small, c.Alloc(4000))
	if s := c.Stats(); s.Used+s.Spare > s.Capacity || s.Evictions == 0 {
		t.Errorf("%d bytes are used and %d spare, want %d at most", s.Used, s.Spare, s.Capacity)
	}
}

// TestAStuckReaderMakesThePoolUseTheHeap has a reader that stays in its guard while others fill the cache again and
// again.
func TestAStuckReaderMakesThePoolUseTheHeap(t *testing.T) {
	d := new(epoch.Domain)
	const capacity = 8 << 20
	c := framed(capacity, d)
	made := 0
	c.pool.limbo.spares.New = func() any { made++; return c.pool.newBatch() }
	slots := make([]Slot, 3000)
	stuck := d.Enter()
	first := read(c, slots, 0, 4000)
	if !first.buf.Lent() {
		t.Fatal("the first block is not in a frame")
	}
	c.Drop(slots[:1])
	for n := range 3 * len(slots) {
		i := n % len(slots)
		g := d.Enter()
		if !intact(read(c, slots, i, 4000), i) {
			t.Fatal("wrong content")
		}
		g.Leave()
		if lent, _ := c.pool.frames.Bytes(); lent > capacity {
			t.Fatalf("%d bytes are lent, want %d at most", lent, capacity)
		}
	}
	if !intact(first, 0) {
		t.Error("a block was overwritten under its reader")
	}
	stuck.Leave()
	d.Wait()
	if lent, _ := c.pool.frames.Bytes(); lent > capacity/4 {
		t.Errorf("%d bytes are lent after the reader has left", lent)
	}
	// Each frame that was evicted meanwhile was in a batch, most of them in batches of 64.
	if made == 0 || made >= batchLimit {
		t.Errorf("%d batches for %d evictions", made, c.Stats().Evictions)
	}
}
