package cache

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// sum compares the bytes and the blocks of a pool with those that its caches count.
func sum(t *testing.T, p *Pool, caches ...*Cache) {
	t.Helper()
	var used int64
	blocks := 0
	for _, c := range caches {
		s := c.Stats()
		used += s.Used
		if blocks += s.Blocks; s.Inserts-s.Evictions < uint64(s.Blocks) {
			t.Errorf("a cache has more blocks than were inserted and not evicted: %+v", s)
		}
	}
	published := 0
	for i := range p.shards {
		published += len(p.shards[i].published())
	}
	s := p.Stats()
	if used != s.Used || blocks != published {
		t.Errorf("the caches have %d bytes in %d blocks; the pool has %d blocks, %+v", used, blocks, published, s)
	}
	if s.Used+s.Spare > s.Capacity {
		t.Errorf("over capacity: %+v", s)
	}
}

func TestCachesShareACapacityAndCountApart(t *testing.T) {
	p := NewPool(1 << 20)
	var caches []*Cache
	var slots [][]Slot
	var domains []*epoch.Domain
	for range 3 {
		d := new(epoch.Domain)
		domains, caches, slots = append(domains, d), append(caches, p.NewCache(d)), append(slots, make([]Slot, 400))
	}
	fillWith := func(k int) {
		g := domains[k].Enter()
		defer g.Leave()
		for i := range slots[k] {
			if !intact(read(caches[k], slots[k], i, 4000), i) {
				t.Fatal("wrong content")
			}
		}
	}
	for k := range caches {
		fillWith(k)
		sum(t, p, caches...)
	}
	if s := caches[2].Stats(); s.Used < p.Stats().Capacity/2 {
		t.Errorf("the cache in use has %d of %d bytes, want most", s.Used, s.Capacity)
	}
	caches[2].Close()
	sum(t, p, caches...)
	if s := caches[2].Stats(); s.Used != 0 || s.Blocks != 0 {
		t.Errorf("after Close: %+v", s)
	}
	fillWith(2) // a reader after Close
	if s := caches[2].Stats(); s.Used != 0 || s.Blocks != 0 {
		t.Errorf("an insert after Close was kept: %+v", s)
	}
	fillWith(0)
	sum(t, p, caches...)
	if s := caches[0].Stats(); s.Used < p.Stats().Capacity/2 {
		t.Errorf("the cache in use has %d of %d bytes, want most", s.Used, s.Capacity)
	}
}

func TestAStuckReaderOfOneCacheDoesNotStopTheRecyclingOfAnother(t *testing.T) {
	p := NewPool(2 << 20)
	stuck, busy := new(epoch.Domain), new(epoch.Domain)
	a, b := p.NewCache(stuck), p.NewCache(busy)
	slots := make([]Slot, 2000)
	g := stuck.Enter() // a reader that stays
	own := make([]Slot, 20)
	for i := range own {
		read(a, own, i, 4000)
	}
	next := 0
	miss := func() {
		next = (next + 1) % len(slots)
		g := busy.Enter()
		read(b, slots, next, 4000)
		g.Leave()
	}
	for range 5000 { // the blocks of a are evicted, and wait
		miss()
	}
	if s := a.Stats(); s.Used != 0 {
		t.Fatalf("the idle cache still has blocks: %+v", s)
	}
	if got := testing.AllocsPerRun(3000, miss); got > 0.5 {
		t.Errorf("a miss allocates %v times: nothing is recycled", got)
	}
	sum(t, p, a, b)
	g.Leave()
}

func TestIdleCachesDoNotHoldUpTheRecycling(t *testing.T) {
	p := NewPool(4 << 20)
	d := new(epoch.Domain)
	busy := p.NewCache(d)
	slots := make([]Slot, 3000)
	var kept []*Block
	for range 40 { // each evicts a few blocks, too few for a batch, and keeps one
		idle := p.NewCache(new(epoch.Domain))
		own := make([]Slot, 4)
		for i := range own {
			read(idle, own, i, 4000)
		}
		idle.Drop(own[:3])
		kept = append(kept, own[3].Load())
	}
	next := 0
	miss := func() {
		for _, b := range kept {
			b.recent.Store(1)
		}
		next = (next + 1) % len(slots)
		g := d.Enter()
		read(busy, slots, next, 4000)
		g.Leave()
	}
	for range 5000 {
		miss()
	}
	if got := testing.AllocsPerRun(3000, miss); got > 0.5 {
		t.Errorf("a miss allocates %v times: nothing is recycled", got)
	}
}

func TestClosingDuringReadsLeavesNothing(t *testing.T) {
	p := NewPool(1 << 20)
	d := new(epoch.Domain)
	stays := p.NewCache(d)
	for range 10 {
		c := p.NewCache(d)
		slots, others := make([]Slot, 300), make([]Slot, 300)
		var wg sync.WaitGroup
		for reader := range uint64(2) {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(reader, 1))
				for range 500 {
					g := d.Enter()
					i := rng.IntN(len(slots))
					if !intact(read(c, slots, i, 3000), i) || !intact(read(stays, others, i, 3000), i) {
						t.Error("wrong content")
					}
					g.Leave()
				}
			})
		}
		c.Close()
		wg.Wait()
		if s := c.Stats(); s.Used != 0 || s.Blocks != 0 {
			t.Fatalf("after Close: %+v", s)
		}
		for i := range slots {
			if slots[i].Load() != nil {
				t.Fatalf("slot %d still has a block", i)
			}
		}
		stays.Drop(others)
	}
	if s := p.Stats(); s.Used != 0 || s.Spare > s.Capacity {
		t.Errorf("all dropped: %+v", s)
	}
}

// TestPoisonedPoolsSpoilEachDroppedBlock drops blocks of all sizes, including those that the pool does not keep, inside
// and outside of a guard, and held.
func TestPoisonedPoolsSpoilEachDroppedBlock(t *testing.T) {
	poisoned(t, TestMode{Most: 100 << 10})
	d := new(epoch.Domain)
	c := New(1<<30, d)
	if s := c.Stats(); s.Capacity > 100<<10 {
		t.Errorf("the pool may keep %d bytes, want 100 KiB at most", s.Capacity)
	}
	for _, n := range []int{500, 4000, 60 << 10, maxRecycle + 1} {
		var slots [2]Slot
		g := d.Enter()
		free, held := read(c, slots[:], 0, n), read(c, slots[:], 1, n)
		held.Acquire()
		freed, kept := free.Bytes(), held.Bytes() // in the heap, so that they can be looked at later
		c.Drop(slots[:])
		d.Collect()
		if !intact(free, 0) || !intact(held, 1) {
			t.Errorf("%d bytes: spoiled while a reader is inside", n)
		}
		g.Leave()
		d.Wait()
		if binary.LittleEndian.Uint64(freed) == 0 {
			t.Errorf("%d bytes: not spoiled, though nobody may see it", n)
		}
		if !intact(held, 1) {
			t.Errorf("%d bytes: spoiled while it is held", n)
		}
		held.Release()
		if len(held.Bytes()) != 0 {
			t.Errorf("%d bytes: a block has bytes after its last Release", n)
		}
		if binary.LittleEndian.Uint64(kept) == 1_000_003 {
			t.Errorf("%d bytes: not spoiled by the last Release", n)
		}
	}
	b := c.Alloc(100)
	calls := 0
	poisoned(t, TestMode{Acquire: func() {
		if calls++; b.holds.Load() != 0 {
			t.Error("called when the block is held already")
		}
	}})
	b.Acquire()
	Testing.Store(nil)
	b.Acquire()
	if calls != 1 || b.holds.Load() != 2 {
		t.Errorf("%d calls, %d holds, want 1 and 2", calls, b.holds.Load())
	}
}

// TestDropLeavesABlockThatWasReusedElsewhere evicts the block of a slot and reuses it in another one, after Drop has
// found it and before Drop has the lock.
func TestDropLeavesABlockThatWasReusedElsewhere(t *testing.T) {
	d := new(epoch.Domain)
	c := New(1<<20, d)
	slots, other := make([]Slot, 1), make([]Slot, 1)
	g := d.Enter()
	b := read(c, slots, 0, 100)
	g.Leave()
	h := &c.pool.shards[b.shard]
	h.mu.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Drop(slots)
	}()
	buf := make([]byte, 1<<16)
	testkit.Soon(t, "Drop waits for the lock", func() bool {
		s := string(buf[:runtime.Stack(buf, true)])
		return strings.Contains(s, "(*Cache).Drop") && strings.Contains(s, "[sync.Mutex.Lock")
	})
	var full batches
	c.pool.unlink(h, b, &full)
	other[0].Store(b) // as Insert does with a free buffer
	b.slot, b.owner = &other[0], c
	h.link(b, true)
	h.mu.Unlock()
	<-done
	if other[0].Load() != b || c.Stats().Blocks != 1 {
		t.Errorf("the block is not in its new slot; %d blocks", c.Stats().Blocks)
	}
}

// TestCloseRemovesTheBlocksOfItsOwnCacheOnly fills two caches of one pool and closes one.
func TestCloseRemovesTheBlocksOfItsOwnCacheOnly(t *testing.T) {
	p := NewPool(1 << 20)
	var d [2]epoch.Domain
	caches := [2]*Cache{p.NewCache(&d[0]), p.NewCache(&d[1])}
	slots := [2][]Slot{make([]Slot, 50), make([]Slot, 50)}
	for k, c := range caches {
		g := d[k].Enter()
		for i := range slots[k] {
			read(c, slots[k], i, 500)
		}
		g.Leave()
	}
	caches[0].Close()
	for i := range slots[0] {
		if closed, other := slots[0][i].Load() != nil, slots[1][i].Load() != nil; closed || !other {
			t.Fatalf("block %d exists in the closed cache: %v, in the other: %v", i, closed, other)
		}
	}
	if got, other := caches[0].Stats().Blocks, caches[1].Stats().Blocks; got != 0 || other != 50 {
		t.Errorf("%d and %d blocks, want 0 and 50", got, other)
	}
}

// TestABlockIsReusedAfterThePoolHasShrunk discards blocks of a pool whose limbo was filled when the pool was larger.
func TestABlockIsReusedAfterThePoolHasShrunk(t *testing.T) {
	var d epoch.Domain
	p := NewPool(64 << 20)
	c := p.NewCache(&d)
	discard := func() {
		g := d.Enter()
		c.Discard(c.Alloc(4000))
		g.Leave()
	}
	for range 200 {
		discard()
	}
	p.SetCapacity(300 << 10)
	for range 100 {
		discard()
	}
	var before, after runtime.MemStats
	const n = 2000
	runtime.ReadMemStats(&before)
	for range n {
		discard()
	}
	runtime.ReadMemStats(&after)
	if bytes := (after.TotalAlloc - before.TotalAlloc) / n; bytes > 500 {
		t.Errorf("a block of 4,000 bytes that is discarded takes %d new ones", bytes)
	}
}

// TestAPoolThatWasFullHasRoomAgain fills a pool until it evicts, and then makes room in it.
func TestAPoolThatWasFullHasRoomAgain(t *testing.T) {
	for name, makeRoom := range map[string]func(c, other *Cache, slots []Slot){
		"Drop":        func(c, _ *Cache, slots []Slot) { c.Drop(slots) },
		"Close":       func(_, other *Cache, _ []Slot) { other.Close() },
		"SetCapacity": func(c, _ *Cache, _ []Slot) { c.pool.SetCapacity(2 << 20) },
	} {
		d := new(epoch.Domain)
		p := NewPool(1 << 20)
		c, other := p.NewCache(d), p.NewCache(d)
		slots := make([]Slot, 1000)
		g := d.Enter()
		for i := range slots {
			if i%2 == 0 {
				read(c, slots, i, 4000)
			} else {
				read(other, slots, i, 4000)
			}
		}
		g.Leave()
		if c.HasRoom(4000) {
			t.Errorf("%s: the pool is full, and has room", name)
		}
		if makeRoom(c, other, slots); !c.HasRoom(4000) || c.HasRoom(1<<20) {
			t.Errorf("%s: no room after it, or for any block", name)
		}
	}
}

func TestACacheCountsItsOwnBlocks(t *testing.T) {
	p := NewPool(1 << 20)
	c, other := p.NewCache(new(epoch.Domain)), p.NewCache(new(epoch.Domain))
	slots := make([]Slot, 5)
	for i := range slots[:3] {
		read(c, slots, i, 4000)
	}
	for i := 3; i < len(slots); i++ {
		read(other, slots, i, 4000)
	}
	b := slots[0].Load()
	b.Acquire()
	for of, want := range map[*Cache][2]int{c: {3, 1}, other: {2, 0}} {
		if blocks, held, inFrames := of.Held(); blocks != want[0] || held != want[1] || inFrames != 0 {
			t.Errorf("%d blocks, %d held, %d in frames, want %d and none", blocks, held, inFrames, want)
		}
	}
	b.Release()
}

func TestBlocksThatWaitForAReaderTakeABoundedPartOfThePool(t *testing.T) {
	d := new(epoch.Domain)
	p := NewPool(1 << 20)
	c := p.NewCache(d)
	slots := make([]Slot, 2000)
	g := d.Enter()
	most := int64(0)
	for i := range slots {
		read(c, slots, i, 4000)
		most = max(most, p.limbo.bytes)
	}
	g.Leave()
	if limit := p.limbo.limit; most > limit || most < limit-5000 {
		t.Errorf("up to %d bytes wait, want nearly %d", most, limit)
	}
}

// TestAPoolThatIsEmptyAgainUsesNothing drops all blocks beside a reader, and then gives up its capacity.
func TestAPoolThatIsEmptyAgainUsesNothing(t *testing.T) {
	d := new(epoch.Domain)
	p := NewPool(1 << 20)
	c := p.NewCache(d)
	slots := make([]Slot, 30)
	g := d.Enter()
	for i := range slots {
		p.ghosts.Load().add(&slots[i]) // so it is in the main queue
		read(c, slots, i, 4000)
	}
	if used := p.Stats().Used; used == 0 || used != p.used.Load() {
		t.Errorf("%d bytes are used, counted %d", used, p.used.Load())
	}
	c.Drop(slots)
	if s := p.Stats(); p.used.Load() != 0 || s.Used != 0 || s.Spare != p.limbo.bytes || s.Spare == 0 {
		t.Errorf("%d bytes are used without a block, %+v; %d wait for a reader", p.used.Load(), s, p.limbo.bytes)
	}
	g.Leave()
	d.Wait()
	if s := p.Stats(); s.Spare == 0 || p.limbo.bytes != 0 {
		t.Errorf("%+v, %d bytes wait though the reader has left; want them spare", s, p.limbo.bytes)
	}
	p.SetCapacity(-1)
	if s := p.Stats(); s.Spare != 0 || s.Capacity != 0 {
		t.Errorf("a pool without a capacity: %+v", s)
	}
	for i := range p.shards {
		if h := &p.shards[i]; h.trial.blocks != nil || h.main.blocks != nil {
			t.Errorf("shard %d keeps its lists", i)
		}
	}
}
