package read

import (
	"math/bits"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/sstable"
)

// Counts are the costs of lookups. Loads of indexes and filters are counted separately.
type Counts struct {
	Gets            uint64 // lookups
	MemtableHits    uint64 // answered by a memtable
	TableHits       uint64 // a table held a version of the key, or a tombstone
	RunsInRange     uint64 // runs with a table whose bounds include the key
	FilterProbes    uint64 // filters queried
	FilterNegatives uint64 // filters that excluded the key
	// TruePositives are filters that did not exclude the key, and the table held a version of it.
	TruePositives uint64
	// FalsePositives are filters that did not exclude the key, but the table held no version of it.
	FalsePositives uint64
	TableSearches  uint64 // tables searched, with or without a filter
	WastedReads    uint64 // searches that found no version of the key
	AbsentWasted   uint64 // wasted reads by lookups of absent keys
	Blocks         uint64 // data blocks used
	BlocksRead     uint64 // data blocks among them that were not in the cache
	BlocksMapped   uint64 // data blocks among those that were used in a mapped file, without reading
	BytesRead      uint64 // bytes of the others, which were read
	IndexParts     uint64 // parts of indexes that were not in memory
	FilterParts    uint64 // pages of filters that were asked in files, for lack of memory
	// AbsentReads are the pages of filters, parts of indexes and data blocks that were not in memory, of lookups of
	// absent keys.
	AbsentReads uint64
	TailLoads   uint64 // indexes read
	TailBytes   uint64 // bytes of indexes and filters read
}

// Lookups returns the cost of all lookups; TailLoads and TailBytes are 0.
func (r *Reader) Lookups() Counts { return r.lookups.sum() }

// End keeps the sums of the counters, and drops the counters, which take 128 KiB. Lookups that are still in progress
// are not counted.
func (r *Reader) End() { r.lookups.end() }

// lookupCounts are the counters of lookups.
type lookupCounts struct {
	stripes atomic.Pointer[lookupStripes] // nil after end
	final   Counts                        // set by end, before stripes
}

// lookupStripes are the counters, striped so that goroutines on different processors do not share a cache line.
type lookupStripes [numStripes]lookupStripe

type lookupStripe struct {
	// The two common kinds of lookup have one counter each, indexed by the number of tables in range, all of whose
	// filters were queried. absent: no filter let the lookup through. present: one did, the table held the key, and
	// its block was in the cache; mapped: it was in a mapped file; inPlace: and the part of the index was not in
	// memory. A locked addition takes 5 ns.
	absent, present, mapped, inPlace [usualProbes]atomic.Uint64

	// All other lookups.
	gets, memtableHits, inRange, probes, passed, searches, wasted, falsePositives, truePositives atomic.Uint64

	tableHits, absentWasted, blocks, blocksRead, blocksMapped, bytesRead, indexParts atomic.Uint64

	filterParts, absentReads atomic.Uint64

	_ [112]byte
} // a multiple of two cache lines of 64 bytes

const (
	numStripes  = 256 // two goroutines on one stripe take twice as long for an absent key
	usualProbes = 8
)

// lookupCost is the cost of one lookup. Its caller keeps it.
type lookupCost struct {
	inRange, probes, passed, searches, found, falsePositives, truePositives uint64

	// See part.
	tableHits, absentWasted, absentAsked uint64

	tailLoads, tailBytes uint64 // of tables that were not loaded yet

	memtableHit bool
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

// add counts a lookup. It returns the lookup's number in its counter, for sampled, or 0 after end.
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
	if l.inRange > 0 {
		s.inRange.Add(l.inRange)
		s.probes.Add(l.probes)
	}
	if l.passed > 0 {
		s.passed.Add(l.passed)
	}
	s.filterParts.Add(l.reads.FilterParts)
	s.absentReads.Add(l.absentReads())
	if l.searches == 0 {
		return
	}
	s.searches.Add(l.searches)
	if l.tableHits > 0 {
		s.tableHits.Add(l.tableHits)
	}
	if l.absentWasted > 0 {
		s.absentWasted.Add(l.absentWasted)
	}
	s.wasted.Add(l.searches - l.found)
	s.falsePositives.Add(l.falsePositives)
	s.truePositives.Add(l.truePositives)
	s.blocks.Add(l.reads.Blocks)
	s.blocksRead.Add(l.reads.FileReads + l.reads.Mapped)
	s.blocksMapped.Add(l.reads.Mapped)
	s.bytesRead.Add(l.reads.FileBytes)
	s.indexParts.Add(l.reads.IndexParts)
}

// sum returns the sums over all stripes.
func (c *lookupCounts) sum() (l Counts) {
	stripes := c.stripes.Load()
	if stripes == nil {
		return c.final
	}
	for i := range stripes {
		stripes[i].addTo(&l)
	}
	return l
}

// end keeps the sums and drops the stripes.
func (c *lookupCounts) end() {
	c.final = c.sum()
	c.stripes.Store(nil)
}

// addTo adds the counters to l.
func (s *lookupStripe) addTo(l *Counts) {
	probes, passed := s.probes.Load(), s.passed.Load()
	for n := range uint64(usualProbes) {
		absent, inPlace := s.absent[n].Load(), s.inPlace[n].Load()
		mapped := s.mapped[n].Load() + inPlace
		present := s.present[n].Load() + mapped
		l.IndexParts += inPlace
		l.BlocksRead += mapped
		l.BlocksMapped += mapped
		l.Gets += absent + present
		l.RunsInRange += n * (absent + present)
		l.TableHits += present
		l.TableSearches += present
		l.TruePositives += present
		l.Blocks += present
		probes += n * (absent + present)
		passed += present
	}
	l.Gets += s.gets.Load()
	l.MemtableHits += s.memtableHits.Load()
	l.TableHits += s.tableHits.Load()
	l.AbsentWasted += s.absentWasted.Load()
	l.RunsInRange += s.inRange.Load()
	l.FilterProbes += probes
	l.FilterNegatives += probes - min(probes, passed) // min, since the counters are read one after the other
	l.TableSearches += s.searches.Load()
	l.WastedReads += s.wasted.Load()
	l.FalsePositives += s.falsePositives.Load()
	l.TruePositives += s.truePositives.Load()
	l.Blocks += s.blocks.Load()
	l.BlocksRead += s.blocksRead.Load()
	l.BlocksMapped += s.blocksMapped.Load()
	l.BytesRead += s.bytesRead.Load()
	l.IndexParts += s.indexParts.Load()
	l.FilterParts += s.filterParts.Load()
	l.AbsentReads += s.absentReads.Load()
}
