package main

import (
	"fmt"
	"io"
	"strconv"
)

// aboutFloors explains the columns of the table of absent keys.
const aboutFloors = `Nanoseconds per lookup of an absent key in the compacted tree, and of its floor: one hash,
one search of a flat array of fences, one filter of a single unit per run. In chained series lookups
cannot overlap, in free series they can. The cost of asking is subtracted.`

// absents returns the table of absent keys.
func (r *floorsReport) absents() *grid {
	g := &grid{head: []string{
		"keys", "tables", "chained", "floor", "ratio", "min", "max", "target", "free", "floor", "ratio",
	}}
	for _, s := range r.Stores {
		target := ""
		if s.Met != nil {
			target = fmt.Sprintf("≤ %g: %s", r.MostRatio, met(*s.Met))
		}
		c, f := &s.Chained, &s.Free
		g.add(countName(s.Keys), strconv.Itoa(s.Tables), ns(c.StoreNs), ns(c.FloorNs), ratio(c.Ratio),
			ratio(c.Least), ratio(c.Most), target, ns(f.StoreNs), ns(f.FloorNs), ratio(f.Ratio))
	}
	return g
}

// aboutPairs explains the table of floors of operations that find pairs.
const aboutPairs = `Nanoseconds per lookup of a present key, per seek with ten pairs, and per pair of a scan, in the
compacted tree, and of their floors: a loop over a sorted copy of the pairs, found by one filter and flat
arrays of the heads of keys. Lookups and seeks cannot overlap.`

// pairs returns the table of the operations that find pairs, next to their floors.
func (r *floorsReport) pairs() *grid {
	g := &grid{head: []string{"keys"}}
	for _, name := range []string{"present", "seek", "scan"} {
		g.head = append(g.head, name, "floor", "ratio", "min", "max")
	}
	for _, s := range r.Stores {
		if s.Pairs == nil {
			continue
		}
		cells := []string{countName(s.Keys)}
		for _, c := range []comparison{s.Pairs.Present, s.Pairs.Seek, s.Pairs.Scan} {
			cells = append(cells, ns(c.StoreNs), ns(c.FloorNs), ratio(c.Ratio), ratio(c.Least), ratio(c.Most))
		}
		g.add(cells...)
	}
	return g
}

// print prints the report as text.
func (r *floorsReport) print(w io.Writer) error {
	r.Machine.Header(w, r.Command, "bench")
	fmt.Fprintf(w, "\n%s keys, values of %d bytes, promised %g wasted reads per absent lookup, %d MiB of memory, "+
		"no compression; %d rounds\n\n%s\n\n",
		r.Shape, r.ValueBytes, r.FilterFPR, r.MemoryBudget>>20, r.Rounds, aboutFloors)
	err := r.absents().print(w)
	if pairs := r.pairs(); err == nil && len(pairs.rows) > 0 {
		fmt.Fprintf(w, "\n%s\n\n", aboutPairs)
		err = pairs.print(w)
	}
	return err
}
