package read

import (
	"math/bits"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/sstable"
)

// Counts are the costs of lookups, as bloomkv.LookupMetrics describes them. Loads of indexes and filters, TailLoads and
// TailBytes, are counted separately.
type Counts struct {
	Gets, MemtableHits, TableHits               uint64
	RunsInRange, FilterProbes, FilterNegatives  uint64
	TruePositives, FalsePositives               uint64
	TableSearches, WastedReads, AbsentWasted    uint64
	Blocks, BlocksRead, BlocksMapped, BytesRead uint64
	IndexParts, FilterParts, AbsentReads        uint64
	TailLoads, TailBytes                        uint64
}

// A Trace is what one lookup used.
type Trace struct {
	Counts

	Tables []TableTrace // in the order of the search: newest data first
}

// A TableTrace is the search of one table, as bloomkv.TableTrace describes it.
type TableTrace struct {
	Level                         int
	File                          string
	Filtered, Present             bool
	Blocks, BlocksRead, BytesRead uint64
}

func (t *Trace) add(c *candidate, present bool, before, after sstable.Stats) {
	t.Tables = append(t.Tables, TableTrace{
		Level: int(c.table.Level.Load()), File: c.table.File.Name, Filtered: c.probed, Present: present,
		Blocks:     after.Blocks - before.Blocks,
		BlocksRead: after.FileReads + after.Mapped - before.FileReads - before.Mapped,
		BytesRead:  after.FileBytes - before.FileBytes,
	})
}

// lookupCounts are the counters of lookups.
type lookupCounts struct {
	stripes atomic.Pointer[lookupStripes] // nil after End
	final   Counts                        // set by End, before stripes
}

// lookupStripes are the counters, striped so that goroutines on different processors do not share a cache line.
type lookupStripes [numStripes]lookupStripe

type lookupStripe struct {
	// The two common kinds of lookup have one counter each, indexed by the number of tables in range, all of whose
	// filters were queried. absent: no filter let the lookup through. present: one did, the table held the key, and
	// its block was in the cache; mapped: it was in a mapped file; inPlace: and the part of the index was not in
	// memory. A locked addition takes 5 ns.
	absent, present, mapped, inPlace [usualProbes]atomic.Uint64

	// All other lookups. others are the fields of their Counts.
	gets, memtableHits atomic.Uint64
	others             [numOthers]atomic.Uint64

	_ [112]byte
} // a multiple of two cache lines of 64 bytes

const (
	numStripes  = 256 // two goroutines on one stripe take twice as long for an absent key
	usualProbes = 8
	numOthers   = 16
)

// others returns the fields of c that have a counter each for lookups of any kind.
func (c *Counts) others() [numOthers]*uint64 {
	return [...]*uint64{
		&c.TableHits, &c.RunsInRange, &c.FilterProbes, &c.FilterNegatives, &c.TruePositives, &c.FalsePositives,
		&c.TableSearches, &c.WastedReads, &c.AbsentWasted, &c.Blocks, &c.BlocksRead, &c.BlocksMapped, &c.BytesRead,
		&c.IndexParts, &c.FilterParts, &c.AbsentReads,
	}
}

// lookupCost is the cost of one lookup. Its caller keeps it.
type lookupCost struct {
	inRange, probes, passed, searches, found, falsePositives, truePositives uint64

	// See part.
	tableHits, absentWasted, absentAsked uint64

	tailLoads, tailBytes uint64 // of tables that were not loaded yet

	memtableHit bool
	sample      uint32 // what each negative counts for on its table: see negatives.go
	reads       sstable.Stats
}

// ask counts tables in range, and those whose filter was queried, with one bit for each.
func (l *lookupCost) ask(inRange, probed uint32) {
	l.inRange += uint64(bits.OnesCount32(inRange)) //nolint:gosec // at most 32
	l.probes += uint64(bits.OnesCount32(probed))   //nolint:gosec // at most 32
}

// part counts the lookup of one key, which asked the given number of pages of filters and searched the given number of
// tables, and found a version of the key in found of them.
func (l *lookupCost) part(asked, searches, found uint64) {
	if found > 0 {
		l.tableHits++
	} else {
		l.absentWasted += searches
		l.absentAsked += asked
	}
}

// absentReads returns what lookups of absent keys used outside of memory. If some keys of many were present, parts of
// indexes and blocks are shared out by the searches of tables.
func (l *lookupCost) absentReads() uint64 {
	if l.absentWasted == 0 {
		return l.absentAsked
	}
	searched := l.reads.IndexParts + l.reads.FileReads + l.reads.Mapped
	return l.absentAsked + searched*l.absentWasted/l.searches
}

// counts returns the figures of lookups with this cost, without their number and that of the hits in memtables.
func (l *lookupCost) counts() Counts {
	return Counts{
		TableHits: l.tableHits, RunsInRange: l.inRange, FilterProbes: l.probes, FilterNegatives: l.probes - l.passed,
		TruePositives: l.truePositives, FalsePositives: l.falsePositives, TableSearches: l.searches,
		WastedReads: l.searches - l.found, AbsentWasted: l.absentWasted, Blocks: l.reads.Blocks,
		BlocksRead: l.reads.FileReads + l.reads.Mapped, BlocksMapped: l.reads.Mapped, BytesRead: l.reads.FileBytes,
		IndexParts: l.reads.IndexParts, FilterParts: l.reads.FilterParts, AbsentReads: l.absentReads(),
		TailLoads: l.tailLoads, TailBytes: l.tailBytes,
	}
}

// add counts a lookup. It returns the lookup's number in its counter, for firstSampled, or 0 after End.
func (c *lookupCounts) add(l *lookupCost) (number uint64) {
	stripes := c.stripes.Load()
	if stripes == nil {
		return 0
	}
	i := epoch.Stripe(numStripes)
	s, first := &stripes[i], firstNumber(i)
	if !l.memtableHit && l.probes == l.inRange && l.probes < usualProbes {
		if l.passed == 0 && l.searches == 0 && l.reads.FilterParts == 0 {
			return first + s.absent[l.probes].Add(1)
		}
		if l.passed == 1 && l.searches == 1 && l.found == 1 && l.reads.Blocks == 1 && l.reads.FileReads == 0 &&
			l.reads.FilterParts == 0 {
			switch {
			case l.reads.IndexParts == 0 && l.reads.Mapped == 0:
				return first + s.present[l.probes].Add(1)
			case l.reads.IndexParts == 0:
				return first + s.mapped[l.probes].Add(1)
			case l.reads.Mapped == 1:
				return first + s.inPlace[l.probes].Add(1)
			}
		}
	}
	number = first + s.gets.Add(1)
	if l.memtableHit {
		s.memtableHits.Add(1)
		return number
	}
	s.add(l)
	return number
}

// firstNumber returns the first lookup number of a stripe, so that the counters of different stripes use different
// numbers.
func firstNumber(stripe int) uint64 { return uint64(stripe) << 32 } //nolint:gosec // below numStripes

// addMany counts n lookups by their total cost; memtables answered memtableHits of them. It returns the number of the
// last one.
func (c *lookupCounts) addMany(l *lookupCost, n, memtableHits int) (number uint64) {
	stripes := c.stripes.Load()
	if stripes == nil {
		return 0
	}
	i := epoch.Stripe(numStripes)
	s := &stripes[i]
	number = firstNumber(i) + s.gets.Add(uint64(n)) //nolint:gosec // a length
	s.memtableHits.Add(uint64(memtableHits))        //nolint:gosec // a length
	s.add(l)
	return number
}

func (s *lookupStripe) add(l *lookupCost) {
	counts := l.counts()
	for i, n := range counts.others() {
		if *n > 0 {
			s.others[i].Add(*n)
		}
	}
}

// Lookups returns the cost of all lookups; TailLoads and TailBytes are 0.
func (c *lookupCounts) Lookups() (l Counts) {
	stripes := c.stripes.Load()
	if stripes == nil {
		return c.final
	}
	for i := range stripes {
		stripes[i].addTo(&l)
	}
	return l
}

// End keeps the sums of the counters, and drops the counters, which take 128 KiB. Lookups that are still in progress
// are not counted.
func (c *lookupCounts) End() {
	c.final = c.Lookups()
	c.stripes.Store(nil)
}

// addTo adds the counters to l.
func (s *lookupStripe) addTo(l *Counts) {
	for n := range uint64(usualProbes) {
		absent, inPlace := s.absent[n].Load(), s.inPlace[n].Load()
		mapped := s.mapped[n].Load() + inPlace
		present := s.present[n].Load() + mapped
		l.Gets += absent + present
		l.TableHits += present
		l.RunsInRange += n * (absent + present)
		l.FilterProbes += n * (absent + present)
		l.FilterNegatives += n*absent + (n-1)*present
		l.TruePositives += present
		l.TableSearches += present
		l.Blocks += present
		l.BlocksRead += mapped
		l.BlocksMapped += mapped
		l.IndexParts += inPlace
	}
	l.Gets += s.gets.Load()
	l.MemtableHits += s.memtableHits.Load()
	for i, n := range l.others() {
		*n += s.others[i].Load()
	}
}
