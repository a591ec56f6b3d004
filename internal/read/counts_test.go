package read

import (
	"testing"

	"github.com/bloomkv/bloomkv/internal/sstable"
)

// costs calls each for lookups of all common kinds, and of others.
func costs(each func(l lookupCost)) {
	for inRange := range uint64(usualProbes + 2) {
		for probes := inRange - min(inRange, 1); probes <= inRange; probes++ {
			for passed := range min(probes, 2) + 1 {
				searches := passed + inRange - probes // all that the filters do not exclude
				for found := range min(searches, 1) + 1 {
					for blocks := range searches + 1 {
						for n := range uint64(16) {
							l := lookupCost{
								inRange: inRange, probes: probes, passed: passed, searches: searches, found: found,
								truePositives: min(found, passed), falsePositives: passed - min(found, passed),
							}
							l.reads = sstable.Stats{
								Blocks: blocks, FileReads: min(n&1, blocks), IndexParts: min(n>>1&1, searches),
								FilterParts: min(n>>2&1, probes), Mapped: min(n>>3, blocks-min(n&1, blocks)),
							}
							l.reads.FileBytes = 4096 * l.reads.FileReads
							l.part(l.reads.FilterParts, searches, found)
							each(l)
						}
					}
				}
			}
		}
	}
}

// TestCountersAddUpToTheirLookups counts lookups of every kind, one by one: some kinds have one counter for all.
func TestCountersAddUpToTheirLookups(t *testing.T) {
	var c lookupCounts
	c.stripes.Store(new(lookupStripes))
	var want Counts
	add := func(counts Counts, gets, memtableHits uint64) {
		want.Gets += gets
		want.MemtableHits += memtableHits
		for i, n := range want.others() {
			*n += *counts.others()[i]
		}
	}
	lookups := uint64(0)
	check := func(l *lookupCost, number uint64) {
		lookups++
		low := uint32(number) // the rest is the stripe
		if got := c.Lookups(); got != want || low == 0 || low > 1<<20 {
			t.Fatalf("after lookup %d, number %d, %+v:\ngot  %+v\nwant %+v", lookups, number, *l, got, want)
		}
	}
	costs(func(l lookupCost) {
		add(l.counts(), 1, 0)
		check(&l, c.add(&l))
	})
	hit := lookupCost{memtableHit: true}
	add(Counts{}, 1, 1)
	check(&hit, c.add(&hit))
	many := lookupCost{inRange: 9, probes: 7, passed: 3, searches: 4, found: 2, tableHits: 2, truePositives: 2}
	add(many.counts(), 5, 3)
	check(&many, c.addMany(&many, 5, 3))
	c.End()
	if got := c.Lookups(); got != want || c.add(&many) != 0 || c.addMany(&many, 2, 1) != 0 || c.Lookups() != want {
		t.Errorf("after the end: %+v, want %+v and nothing counted", c.Lookups(), want)
	}
}

func TestReadsOfAbsentKeysAreSharedOutBySearches(t *testing.T) {
	l := lookupCost{searches: 4}
	l.part(3, 2, 0)
	l.part(2, 2, 1)
	l.reads = sstable.Stats{IndexParts: 2, FileReads: 4, Mapped: 6, FilterParts: 5}
	if got, want := l.absentReads(), uint64(3+12*2/4); got != want || l.tableHits != 1 || l.absentWasted != 2 {
		t.Errorf("%d reads, %d hits, %d wasted; want %d, 1, 2", got, l.tableHits, l.absentWasted, want)
	}
	l = lookupCost{}
	if l.part(3, 0, 0); l.absentReads() != 3 {
		t.Errorf("%d reads without a search, want 3", l.absentReads())
	}
}
