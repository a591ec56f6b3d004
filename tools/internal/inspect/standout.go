package inspect

import (
	"cmp"
	"context"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
)

// fullTables is the number of tables of a store that are shown in full.
const fullTables = 12

// standOut returns the indexes of the tables that are shown in full: those with problems, those whose filters exceed
// their promise, the worst first, and the largest of each level, up to fullTables.
func (s *Store) standOut() []int {
	const above = 1.02 // a smaller excess over the promise may be chance
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
	rank := make([]int, len(s.Tables)) // rank by size within the level
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
		return cmp.Or(cmp.Compare(excess(b), excess(a)), cmp.Compare(rank[a], rank[b]),
			cmp.Compare(*s.Tables[a].Level, *s.Tables[b].Level))
	})
	all = all[:min(fullTables, len(all))]
	slices.Sort(all)
	return all
}

// readFull reads the filters of these tables, as many at a time as Options.Workers allows.
func (s *Store) readFull(ctx context.Context, dir string, o Options) error {
	tables := s.standOut()
	errs := make([]error, len(tables))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(o.workers(), len(tables)) {
		wg.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(tables) && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
				errs[n] = s.Tables[tables[n]].readFilters(dir)
			}
		})
	}
	wg.Wait()
	s.wrong = append(s.wrong, errs...)
	return ctx.Err()
}

// readFilters reads the table's complete filter blocks.
func (t *Table) readFilters(dir string) error {
	keys, prefixes, err := ReadFilters(filepath.Join(dir, t.File))
	if err != nil && t.Damage != nil {
		return nil // already reported
	}
	t.Filter = keys
	if t.Prefix != nil {
		t.Prefix.Filter = prefixes
	}
	return err
}
