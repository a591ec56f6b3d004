package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/bloomkv/bloomkv/internal/workload"
)

// intro returns the settings that all stores share.
func (r *growthReport) intro() string {
	return fmt.Sprintf("%s keys, values of %d bytes, promised %g wasted reads per absent lookup, %d MiB of memory, "+
		"no compression; %d rounds",
		r.Shape, r.ValueBytes, r.FilterFPR, r.MemoryBudget>>20, r.Rounds)
}

// aboutFloors explains the columns of the table of floors.
const aboutFloors = `Nanoseconds per lookup of an absent key, and of its floor: one hash, one search of a flat array of
fences, one filter of a single unit per run. In chained series lookups cannot overlap, in free series
they can. The cost of asking is subtracted.`

// floors returns the table of absent lookups.
func (r *growthReport) floors() *grid {
	g := &grid{head: []string{
		"keys, tree", "runs", "tables", "phase", "chained", "floor", "ratio", "min", "max",
		"target", "free", "floor", "ratio",
	}}
	for _, store := range r.Stores {
		for _, state := range []string{asLoaded, compacted} {
			a := store.absences()[state]
			target := ""
			if state == compacted && store.Met != nil {
				target = fmt.Sprintf("≤ %g: %s", r.MostRatio, met(*store.Met))
			}
			g.add(countName(store.Keys)+" "+state, strconv.Itoa(a.Runs), strconv.Itoa(a.Tables), ns(a.Lookup.MedianNs),
				ns(a.Chained.StoreNs), ns(a.Chained.FloorNs), ratio(a.Chained.Ratio),
				ratio(a.Chained.Least), ratio(a.Chained.Most), target,
				ns(a.Free.StoreNs), ns(a.Free.FloorNs), ratio(a.Free.Ratio))
		}
	}
	return g
}

// aboutPairs explains the table of floors of operations that find pairs.
const aboutPairs = `Nanoseconds per lookup of a present key, per seek with ten pairs, and per pair of a scan, in the
compacted tree, and of their floors: a loop over a sorted copy of the pairs, found by one filter and flat
arrays of the heads of keys. Lookups and seeks cannot overlap.`

// pairs returns the table of the operations that find pairs, next to their floors.
func (r *growthReport) pairs() *grid {
	g := &grid{head: []string{"keys"}}
	for _, name := range []string{"present", "seek", "scan"} {
		g.head = append(g.head, name, "floor", "ratio", "min", "max")
	}
	for _, s := range r.Stores {
		if s.Floors == nil {
			continue
		}
		cells := []string{countName(s.Keys)}
		for _, c := range []comparison{s.Floors.Present, s.Floors.Seek, s.Floors.Scan} {
			cells = append(cells, ns(c.StoreNs), ns(c.FloorNs), ratio(c.Ratio), ratio(c.Least), ratio(c.Most))
		}
		g.add(cells...)
	}
	return g
}

// others returns the table of everything else.
func (r *growthReport) others() *grid {
	g := &grid{head: []string{"keys", "tables", "load", "present", "compaction", "open", "warm"}}
	for _, s := range r.Stores {
		g.add(countName(s.Keys), strconv.Itoa(s.Compacted.Tables), ns(s.Load.MeanNs), ns(s.Present.MedianNs),
			s.Compact.Elapsed.Round(time.Millisecond).String(),
			s.Reopen.Open.Round(10*time.Microsecond).String(), s.Reopen.Warm.Round(10*time.Microsecond).String())
	}
	return g
}

// memory returns the table of bytes per key.
func (r *growthReport) memory() *grid {
	g := &grid{head: []string{
		"keys", "tables", "filters", "indexes", "cache", "memtables",
		"other", "resident", "on disk",
	}}
	for _, s := range r.Stores {
		perKey := func(bytes uint64) string { return fmt.Sprintf("%.1f", float64(bytes)/float64(s.Keys)) }
		m := &s.Memory
		row := []string{countName(s.Keys), strconv.Itoa(s.Compacted.Tables)}
		for _, part := range []float64{m.Filters, m.Indexes, m.Cache, m.Memtables, m.Other} {
			row = append(row, fmt.Sprintf("%.2f", part))
		}
		g.add(append(row, perKey(s.Resident), perKey(s.TableBytes))...)
	}
	return g
}

// print prints the report as text with lines for benchstat, which skips all others.
func (r *growthReport) print(w io.Writer) error {
	r.Machine.Header(w, r.Command, "bench")
	fmt.Fprintf(w, "\n%s\n\n%s\n\n", r.intro(), aboutFloors)
	if err := r.floors().print(w); err != nil {
		return err
	}
	if pairs := r.pairs(); len(pairs.rows) > 0 {
		fmt.Fprintf(w, "\n%s\n\n", aboutPairs)
		if err := pairs.print(w); err != nil {
			return err
		}
	}
	fmt.Fprint(w, "\nNanoseconds per put and per lookup of a present key; times of a whole compaction, "+
		"of Open, and from the start of Open until all filters and indexes are in memory:\n\n")
	if err := r.others().print(w); err != nil {
		return err
	}
	fmt.Fprint(w, "\nBytes per key, in memory by part and on disk:\n\n")
	if err := r.memory().print(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, s := range r.Stores {
		for _, f := range []workload.Figures{s.Load, s.Compacted.Lookup, s.Present} {
			if _, err := fmt.Fprintln(w,
				f.Benchmark(fmt.Sprintf("%s/keys=%d/tables=%d", f.Phase, s.Keys, s.Compacted.Tables))); err != nil {
				return err
			}
		}
	}
	return nil
}
