package inspect

import (
	"cmp"
	"context"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// fullTables is how many tables of a store are drawn in full.
const fullTables = 12

// standOut are the tables that are drawn in full, by their places in the list: those with something wrong, those whose filter lets
// more through than it promises, the most first, and of each level the largest, until there are enough.
func (s *Store) standOut() (places []int) {
	const above = 1.02 // times the promised rate; less is chance
	excess := func(i int) float64 {
		t := &s.Tables[i]
		switch {
		case t.Wrong() != nil:
			return math.Inf(1)
		case t.FilterBytes > 0 && t.FPRFromBits > above*t.FPRPromised:
			return t.FPRFromBits / t.FPRPromised
		}
		return 0
	}
	all := make([]int, len(s.Tables))
	rank := make([]int, len(s.Tables)) // by size among its level
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(s.Tables[b].Bytes, s.Tables[a].Bytes) })
	seen := make(map[int]int)
	for _, i := range all {
		level := *s.Tables[i].Level
		rank[i] = seen[level]
		seen[level]++
	}
	slices.SortStableFunc(all, func(a, b int) int {
		return cmp.Or(cmp.Compare(excess(b), excess(a)), cmp.Compare(rank[a], rank[b]), cmp.Compare(*s.Tables[a].Level, *s.Tables[b].Level))
	})
	places = all[:min(fullTables, len(all))]
	slices.Sort(places)
	return places
}

// readFull reads the filters of the tables that stand out, as many at a time as there are processors. One that cannot be read has
// said so before.
func (s *Store) readFull(ctx context.Context, dir string) error {
	places := s.standOut()
	errs := make([]error, len(places))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(places)) {
		wg.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(places) && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
				errs[n] = s.Tables[places[n]].readFilters(dir)
			}
		})
	}
	wg.Wait()
	s.wrong = append(s.wrong, errs...)
	return ctx.Err()
}

// readFilters reads all of the table's filters.
func (t *Table) readFilters(dir string) error {
	keys, prefixes, err := ReadFilters(filepath.Join(dir, t.File))
	if err != nil && t.Damage != nil {
		return nil // the damage that is known
	}
	t.Filter = keys
	if t.Prefix != nil {
		t.Prefix.Filter = prefixes
	}
	return err
}
