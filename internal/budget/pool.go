// Package budget divides memory and file descriptors among stores, and among the tables of each: how much of their
// filters and indexes is in memory, and how much is left for cached blocks.
package budget

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/pages"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// ErrMemoryBudget means that the memtables of one more store do not fit.
var ErrMemoryBudget = errors.New("no room for another store's memtables")

// A Pool is the memory and the file descriptors that several stores share, or that a single store has. It is safe for
// concurrent use.
//
// Two memtables are reserved for each open store, which never take more than half of the total. What they have not
// taken lately is lent to the rest: see Share.need. Of what they leave, filters get up to fifteen sixteenths, as much
// as their promised rates ask for. If that is not enough, the filters of all stores are reduced together, so that
// lookups of absent keys waste as few reads as this much memory allows: see filterplan.Fill. Indexes, in parts, and
// cached blocks get the rest.
//
// No store waits for another, neither for its locks nor for its file system: locks of other stores are only tried.
type Pool struct {
	// constant
	Memory int64             // bytes
	Blocks *cache.Pool       // of all stores
	Files  *tablefile.Pool   // of all stores
	Pieces *pages.Pieces     // memory of the filters of all stores
	Parts  *sstable.PartPool // of the indexes of all stores

	Held     Residents    // of all stores
	Reserved atomic.Int64 // bytes for memtables, not more than half of Memory; changed under mu
	lent     atomic.Int64 // bytes of these that memtables do not need now; changed while Balancing is held

	mu     step.Mutex // no calls out of this package while held; guards changes of the fields above, and shares
	shares []*member  // of the stores that are open, or being opened

	// Balancing is held while memory is divided anew. It is tried, never waited for.
	Balancing  step.Mutex
	unbalanced atomic.Bool // something has changed since the division that is in progress began, or the last one
	collecting atomic.Bool // collect is at work

	fitting  step.Mutex  // held while the rest is divided; tried, never waited for
	unfitted atomic.Bool // something has changed since that began, or since the last time

	whole     bool         // guarded by Balancing: the last plan had memory for all filters
	dropped   atomic.Bool  // a filter in a state has less memory than a plan may have for it: see LoadFresh
	fitted    atomic.Int64 // bytes of the parts of indexes at the last call of fit
	unplanned atomic.Bool  // a filter became known that the last plan did not know
}

// NewPool returns a pool with the given bytes of memory and number of descriptors.
func NewPool(memory int64, openFiles int) *Pool {
	p := &Pool{
		Memory: memory, Blocks: cache.NewPool(memory), Files: tablefile.NewPool(openFiles), Pieces: pages.NewPieces(),
		Parts: sstable.NewPartPool(memory),
	}
	p.Parts.Grown = p.partsGrown
	return p
}

// Shared returns what the tables of a new store share.
func (p *Pool) Shared(fsys vfs.FS, dir string) tree.Shared {
	d := new(epoch.Domain)
	return tree.Shared{
		Domain: d, Files: p.Files.NewDir(fsys, dir, d), Blocks: p.Blocks.NewCache(d), Parts: p.Parts, Pieces: p.Pieces,
	}
}

// HasRoom returns an error that matches ErrMemoryBudget if the memtables of a new store, of the given size, do not fit
// now.
func (p *Pool) HasRoom(memtableSize int64) error {
	if others := p.Reserved.Load(); others+2*memtableSize > p.Memory/2 {
		return fmt.Errorf("option MemtableSize: two of %d bytes and the %d of other stores, want at most %d for all, "+
			"half of the memory of Resources: %w", memtableSize, others, p.Memory/2, ErrMemoryBudget)
	}
	return nil
}

// join reserves memory for the memtables of a store.
func (p *Pool) join(b *member) error {
	p.mu.Lock()
	if err := p.HasRoom(b.reserved / 2); err != nil {
		p.mu.Unlock()
		return err
	}
	p.Reserved.Add(b.reserved)
	p.shares = append(p.shares, b)
	p.mu.Unlock()
	p.Rebalance()
	return nil
}

// leave takes back everything that a store had.
func (p *Pool) leave(b *member) {
	b.leave()
	p.mu.Lock()
	p.Reserved.Add(-b.reserved)
	p.shares = slices.DeleteFunc(p.shares, func(o *member) bool { return o == b })
	p.mu.Unlock()
	p.Rebalance()
}

// A Usage is what the stores of a pool hold together.
type Usage struct {
	Stores    int // open, or being opened
	Memtables int64
	Tables    tree.TableBytes
	Cached    int64 // bytes of cached blocks
	Spare     int64 // bytes of buffers kept for reuse
	OpenFiles int
}

// Usage returns what the stores hold now.
func (p *Pool) Usage() Usage {
	u := Usage{Tables: p.Held.Bytes()}
	u.OpenFiles, _ = p.Files.Usage()
	blocks := p.Blocks.Stats()
	u.Cached, u.Spare = blocks.Used, blocks.Spare
	for _, b := range p.members() {
		u.Stores++
		if s := b.Tree.Hold(); s != nil {
			u.Memtables += s.MemtableBytes()
			b.Tree.Release(s)
		}
	}
	return u
}

func (p *Pool) members() []*member {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.shares)
}

// Resident returns the bytes that the tables of all stores have in memory. This includes range tombstones, the tops of
// indexes and the descriptions of tables, which are never dropped: every read needs them.
func (p *Pool) Resident() int64 { return p.Held.Sum() + p.Parts.Bytes() }

// Free returns the bytes that memtables leave for filters, indexes and the cache.
func (p *Pool) Free() int64 { return p.Memory - p.Reserved.Load() + p.lent.Load() }

// filterSpace returns the bytes that filters may take, of the given bytes that memtables leave.
func (p *Pool) filterSpace(free int64) int64 {
	return filterplan.Space(free - p.Held.Bytes().Fixed())
}

// Rebalance divides memory anew. If another goroutine is already doing so, Rebalance leaves the work to it. It reads no
// file: the Room of a store whose filters may grow receives. No Table.Loading may be held.
func (p *Pool) Rebalance() {
	p.unbalanced.Store(true)
	p.rebalance()
}

// rebalance divides memory anew if something has changed since the last division began. Whoever has held Balancing
// calls it: Rebalance may have left its work to them.
func (p *Pool) rebalance() { inTurn(&p.unbalanced, &p.Balancing, p.balance) }

// inTurn calls do, which clears due first, if due is set and no other goroutine holds mu: the one that does looks at
// due again. What others ask for meanwhile is left to a new goroutine, since a caller might never be done with it.
func inTurn(due *atomic.Bool, mu *step.Mutex, do func()) {
	if !due.Load() || !mu.TryLock() {
		return
	}
	do()
	mu.Unlock()
	if due.Load() {
		step.Go(func() { inTurn(due, mu, do) })
	}
}

// balance plans the memory for filters, reduces those that have more, and gives the cache the rest. Balancing is held.
func (p *Pool) balance() {
	p.unbalanced.Store(false)
	p.unplanned.Store(false)
	dropped := p.dropped.Swap(false) // before the states: what is dropped from now on may be in none of them
	lent, now := int64(0), time.Now()
	states := map[*member]*tree.State{}
	all, fits := int64(0), true
	members := p.members() // in one order, for the division to last
	for _, b := range members {
		s := b.Tree.Hold()
		if s == nil {
			continue
		}
		defer b.Tree.Release(s)
		states[b] = s
		lent += b.reserved - b.need(s, now)
		bytes, ok := b.fits(s)
		all += bytes
		fits = fits && ok
	}
	p.lent.Store(lent)
	defer p.fit()
	if fits = fits && all <= p.filterSpace(p.Free()-lent); fits && p.whole && !dropped {
		for b, s := range states {
			p.promise(b, promiseFor(b.plans.Load().Now.FPR, nil, nil, nil), all)
			b.planned.Store(s.Version)
		}
		return
	}
	p.whole = fits
	var keys, prefixes wishes
	for _, b := range members {
		if s := states[b]; s != nil {
			b.wish(s, b.plans.Load().Now, &keys, &prefixes)
		}
	}
	space := p.filterSpace(p.Free())
	filled := keys.demands.FillEach(space, p.filterSpace(p.Free()-lent))
	chosen, full := filled[0], filled[1] // full: with memtables that take all that is reserved
	left := space - keys.plan(chosen)
	prefixes.plan(prefixes.demands.Fill(left))
	p.reduce(&keys)
	p.reduce(&prefixes)
	for _, w := range [...]*wishes{&keys, &prefixes} {
		for _, o := range w.of {
			if o.store.lacks(o.table) {
				o.store.owed.Add(1) // before the promise that depends on it
			}
		}
	}
	all = keys.demands.Most()
	i := 0 // of the first wish of b
	for _, b := range members {
		s := states[b]
		if s == nil {
			continue
		}
		n := i
		for n < len(keys.of) && keys.of[n].store == b {
			n++
		}
		p.promise(b, promiseFor(b.plans.Load().Now.FPR, keys.demands[i:n], chosen[i:n], full[i:n]), all)
		b.planned.Store(s.Version)
		i = n
	}
	for b := range states {
		if b.Owes() {
			b.offer()
		}
	}
}

// promise sets what a store promises. If the observer has to be told, Room receives. filters are the bytes of all
// filters of the pool.
func (p *Pool) promise(b *member, is *Promises, filters int64) {
	is.Now.Budget, is.Full.Budget = p.budgetFor(filters, false), p.budgetFor(filters, true)
	b.promise.Store(is)
	if is.Kept(is.Full) == b.told.Load() {
		b.offer()
	}
}

// budgetFor returns the memory that would hold the given bytes of filters, with memtables as they are or full.
func (p *Pool) budgetFor(filters int64, full bool) int64 {
	fixed, scaled := p.Held.Bytes().Fixed(), int64(0)
	for _, b := range p.members() {
		grows := b.reserved // the part of what memtables need that a larger memory enlarges
		if !full {
			grows /= tree.MemtableSteps
			fixed += max(max(b.water.now, b.water.before)-grows, 0)
		}
		if b.Scaled {
			scaled += grows
		} else {
			fixed += grows
		}
	}
	return filterplan.BudgetFor(filters, fixed, float64(scaled)/float64(p.Memory))
}

// reduce reduces filters that have more than their plans allow, as long as those that they replace do not take too much
// memory: collect goes on with the others. A filter that is being loaded is skipped: its loader reduces it.
func (p *Pool) reduce(w *wishes) {
	for _, o := range w.of {
		if !o.store.exceeds(o.table) {
			continue
		}
		if p.crowded() {
			return
		}
		if o.table.Loading.TryLock() {
			o.store.reduce(o.table)
			o.table.Loading.Unlock()
		}
	}
}

// crowded reports whether replaced filters take much memory, since the collector has not found yet that no lookup asks
// them any more.
func (p *Pool) crowded() bool { return p.Pieces.Lent()-p.Held.filterBytes() > p.mostReplaced() }

// mostReplaced returns the bytes of replaced filters for which the collector is urged: a sixteenth of the memory, or
// 2 MiB if that is more, since each of its runs takes some milliseconds, but at most a quarter.
func (p *Pool) mostReplaced() int64 { return min(max(p.Memory/16, 2<<20), p.Memory/4) }

// quickCollection is the processor time of a collection that takes so little that another one may follow at once.
const quickCollection = 50 * time.Millisecond

// collectorTime returns the processor time that collections have taken since the program began.
func collectorTime() time.Duration {
	s := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(s)
	return time.Duration(s[0].Value.Float64() * float64(time.Second))
}

// collect urges the collector, and then divides memory anew. In a program with a large heap, where collections take
// long, they take at most a tenth of the time of a processor.
func (p *Pool) collect() {
	if !p.collecting.CompareAndSwap(false, true) {
		return
	}
	step.Go(func() {
		began := collectorTime()
		runtime.GC()
		took := collectorTime() - began
		// The memory comes back on another goroutine, and later if something still asks the filters.
		for wait := time.Millisecond; p.crowded() && wait < time.Second; wait *= 2 {
			step.Poll(wait)
		}
		goOn := func() {
			p.collecting.Store(false)
			p.Rebalance()
		}
		if took > quickCollection {
			step.AfterFunc(9*took, goOn)
		} else {
			goOn()
		}
	})
}

// partsStep is the number of bytes by which the parts of indexes may grow before the cache gives way.
const partsStep = 64 << 10

// partsGrown makes the cache give way to parts of indexes that readers have loaded.
func (p *Pool) partsGrown() {
	if p.Parts.Bytes()-p.fitted.Load() >= partsStep {
		p.fit()
	}
}

// fit divides what memtables and filters leave between the parts of indexes and the cache, or leaves that to the
// goroutine that is doing so: of two that do it at a time, the later one might set what is no longer right.
func (p *Pool) fit() {
	p.unfitted.Store(true)
	inTurn(&p.unfitted, &p.fitting, p.fitRest)
	if p.crowded() {
		p.collect()
	}
}

// fitRest gives the parts of indexes what memtables and filters leave, without a sixteenth for blocks or at least three
// quarters, and the cache the rest. A part is needed for each of its blocks, and none of them is cached without it. A
// pool without stores keeps nothing. fitting is held.
func (p *Pool) fitRest() {
	p.unfitted.Store(false)
	free := p.Free()
	if len(p.members()) == 0 {
		free = 0
	}
	rest := max(free-p.Held.Sum(), 0)
	p.Parts.SetLimit(filterplan.PartsSpace(rest, free))
	parts := p.Parts.Bytes()
	p.fitted.Store(parts)
	p.Blocks.SetCapacity(max(free/16, rest-parts))
}
