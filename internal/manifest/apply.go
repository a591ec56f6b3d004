package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// Apply returns the version after e. It shares with v all runs that e leaves alone, and does not change v. The time is
// proportional to the number of tables in the levels that e changes. It is an error to delete a table that is not at
// that level, to add a number that exists, to move a table within its level or with changes, and to let tables of a run
// overlap.
func (v *Version) Apply(e *Edit) (*Version, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	next := &Version{Levels: v.Levels}
	gone, err := next.remove(e.Deleted)
	if err != nil {
		return nil, err
	}
	if err := next.checkNew(e.Added, gone); err != nil {
		return nil, err
	}
	if err := next.insert(e.Added); err != nil {
		return nil, err
	}
	return next, nil
}

// remove removes tables from v, whose runs are shared with another version. It returns them by number, with the places
// to which they once were added.
func (v *Version) remove(deleted []Deleted) (map[uint64]Added, error) {
	gone := make(map[uint64]Added, len(deleted)) // without a Table until it is found
	var touched [NumLevels]bool
	low, high := MaxNumber, uint64(0) // numbers outside need no lookup in the map
	for _, d := range deleted {
		if _, twice := gone[d.Number]; twice {
			return nil, fmt.Errorf("table %d is deleted twice", d.Number)
		}
		gone[d.Number] = Added{Level: d.Level}
		touched[d.Level] = true
		low, high = min(low, d.Number), max(high, d.Number)
	}
	for level, runs := range v.Levels {
		if !touched[level] {
			continue
		}
		kept := make([]Run, 0, len(runs))
		for _, r := range runs {
			tables := make([]*Table, 0, len(r.Tables))
			for _, t := range r.Tables {
				if t.Number >= low && t.Number <= high {
					if d, ok := gone[t.Number]; ok && d.Level == level {
						gone[t.Number] = Added{level, r.ID, t}
						continue
					}
				}
				tables = append(tables, t)
			}
			if len(tables) == len(r.Tables) {
				tables = r.Tables // shared
			}
			if len(tables) > 0 {
				kept = append(kept, Run{r.ID, tables})
			}
		}
		v.Levels[level] = kept
	}
	for _, d := range deleted {
		if gone[d.Number].Table == nil {
			return nil, fmt.Errorf("table %d is deleted from level %d, where it is not", d.Number, d.Level)
		}
	}
	return gone, nil
}

// checkNew checks that each added number is new in v, or of a table that just left another level.
func (v *Version) checkNew(added []Added, gone map[uint64]Added) error {
	if len(added) == 0 {
		return nil
	}
	fresh := make(map[uint64]bool, len(added))
	smallest := MaxNumber
	for _, a := range added {
		t := a.Table
		if fresh[t.Number] {
			return fmt.Errorf("table %d is added twice", t.Number)
		}
		fresh[t.Number] = true
		smallest = min(smallest, t.Number)
		if err := checkMove(a, gone); err != nil {
			return err
		}
	}
	for level, t := range v.Tables() {
		// Numbers ascend with time: most tables are older than the oldest added one and need no lookup in the map.
		if t.Number >= smallest && fresh[t.Number] {
			return fmt.Errorf("table %d is added, but is already at level %d", t.Number, level)
		}
	}
	return nil
}

// checkMove checks that a table that is both deleted and added is the same one at another level.
func checkMove(a Added, gone map[uint64]Added) error {
	d, moved := gone[a.Table.Number]
	switch {
	case !moved:
		return nil
	case d.Level == a.Level:
		return fmt.Errorf("table %d is both deleted from and added to level %d", a.Table.Number, a.Level)
	case d.Table.ID != a.Table.ID || d.Table.Size != a.Table.Size:
		return fmt.Errorf("table %d has id %x and %d bytes, but is moved with id %x and %d bytes",
			a.Table.Number, d.Table.ID, d.Table.Size, a.Table.ID, a.Table.Size)
	}
	return nil
}

// insert adds tables to v, whose runs are shared with another version.
func (v *Version) insert(added []Added) error {
	added = slices.Clone(added)
	slices.SortFunc(added, func(a, b Added) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(b.Run, a.Run),
			bytes.Compare(a.Table.Smallest, b.Table.Smallest), cmp.Compare(a.Table.Number, b.Table.Number))
	})
	own := -1 // the level whose runs are copied already: copying them for each of many new runs would be quadratic
	for len(added) > 0 {
		level, id := added[0].Level, added[0].Run
		n := slices.IndexFunc(added, func(a Added) bool { return a.Level != level || a.Run != id })
		if n < 0 {
			n = len(added)
		}
		runs := v.Levels[level]
		if own != level {
			runs, own = slices.Clone(runs), level
		}
		i, found := slices.BinarySearchFunc(runs, id, func(r Run, id uint64) int { return cmp.Compare(id, r.ID) })
		var old []*Table
		if found {
			old = runs[i].Tables
		}
		tables, err := merge(old, added[:n])
		if err != nil {
			return fmt.Errorf("level %d: run %d: %w", level, id, err)
		}
		if !found {
			runs = slices.Insert(runs, i, Run{})
		}
		runs[i] = Run{id, tables}
		v.Levels[level] = runs
		added = added[n:]
	}
	return nil
}

// merge returns the tables of a run and those added to it, both ascending by smallest key.
func merge(old []*Table, added []Added) ([]*Table, error) {
	tables := make([]*Table, 0, len(old)+len(added))
	for _, a := range added {
		n, _ := slices.BinarySearchFunc(old, a.Table.Smallest, compareSmallest)
		tables = append(tables, old[:n]...)
		old = old[n:]
		if len(tables) > 0 {
			if err := checkDisjoint(tables[len(tables)-1], a.Table); err != nil {
				return nil, err
			}
		}
		if len(old) > 0 {
			if err := checkDisjoint(a.Table, old[0]); err != nil {
				return nil, err
			}
		}
		tables = append(tables, a.Table)
	}
	return append(tables, old...), nil
}
