package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/tools/picture"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Store contains the facts of a whole store, with their names in JSON.
type Store struct {
	Manifest string   `json:"manifest"`
	Torn     bool     `json:"manifest_torn"` // the last edit is incomplete and was never acknowledged
	NextFile uint64   `json:"next_file"`
	LastSeq  ikey.Seq `json:"last_seq"`
	MinLog   uint64   `json:"min_log"`
	Tree     Figures  `json:"tree"`              // all levels
	Levels   []Level  `json:"levels"`            // levels that have tables, newest first
	Plan     *Plan    `json:"plan,omitempty"`    // absent if it is not known
	Promise  *Promise `json:"promise,omitempty"` // likewise
	Memory   Memory   `json:"memory"`            // by part
	// absent with fewer than two runs; without the tables whose filters are too large to be compared
	Overlap *Overlap `json:"overlap,omitempty"`
	WhatIf  []WhatIf `json:"what_if,omitempty"` // with --what-if
	Flags   []Flag   `json:"flags"`             // problems
	Tables  []Table  `json:"tables"`            // newest data first, ascending in each run
	Logs    []Log    `json:"logs"`
	Others  []File   `json:"other_files"` // files that are not part of the store
	Missing []string `json:"missing"`     // files that the manifest names but that do not exist
	Opening Opening  `json:"opening"`
	Keys
	dir     string
	curves  []picture.Line // of memory against wasted reads, with Options.Full, as what follows
	rain    *Rain
	fallen  *Fallen
	samples []*Key // keys for a reader to begin with
	wrong   []error
}

// looks is the maximum number of times that a changing store is read. Without its lock it may change meanwhile.
const looks = 8

// ReadStore reads the manifest of a store, its tables and its logs. It returns an error if nothing is known of the
// store.
func ReadStore(ctx context.Context, dir string, o Options) (s *Store, err error) {
	for range looks {
		before := Stamp(dir)
		s, err = look(ctx, dir, o)
		seen := err == nil && s.Opening.Refused == nil && len(s.Missing) == 0 &&
			!errors.Is(s.Wrong(), fs.ErrNotExist)
		if seen || ctx.Err() != nil || Stamp(dir) == before {
			break
		}
	}
	if err == nil {
		s.forgive(ctx, dir)
	}
	return s, err
}

// Wrong returns the errors of damage, of keys that filters deny, and of files that could not be read, or nil.
func (s *Store) Wrong() error { return errors.Join(s.wrong...) }

func look(ctx context.Context, dir string, o Options) (*Store, error) {
	v, err := newView(dir)
	if err != nil {
		return nil, err
	}
	m, err := manifest.Load(recovery.Until(ctx, vfs.OS), dir)
	if err != nil {
		return nil, v.noManifest(err)
	}
	v.addNew(&m)
	s := &Store{dir: cmp.Or(o.Path, dir), Logs: []Log{}, Others: []File{}, Missing: []string{}}
	s.Manifest, s.Torn = filename.Base(filename.Manifest, m.ManifestNumber), m.Torn
	s.NextFile, s.LastSeq, s.MinLog = m.NextFile, m.LastSeq, m.MinLog
	s.Keys = newKeys(o.Keys)
	tables := newTree(&m, o.Memory, o.budget(&m))
	if err := tables.read(ctx, dir, &m, o); err != nil {
		return nil, err
	}
	tables.addTo(s)
	for _, q := range o.WhatIf {
		w, err := tables.ask(s, q, tables.space())
		if err != nil {
			return nil, fmt.Errorf("--what-if %s: %w", q.text, err)
		}
		s.WhatIf = append(s.WhatIf, w)
	}
	for _, t := range tables.members {
		s.wrong = append(s.wrong, t.facts.Wrong())
	}
	for _, r := range tables.runs {
		for _, k := range s.Keys.all() {
			s.wrong = append(s.wrong, k.askRun(dir, r.level, &r.run))
		}
	}
	_, denied := s.Keys.denials()
	s.wrong = append(s.wrong, denied)
	if o.Full {
		s.curves = tables.curves(s)
		if err := errors.Join(s.readFull(ctx, dir, o), s.readSearch(ctx, dir, tables, o.Served)); err != nil {
			return nil, err
		}
	}
	v.addFiles(ctx, s, &m, o)
	return s, nil
}

// noManifest returns the error of a directory whose manifest cannot be read.
func (v *view) noManifest(reason error) error {
	if errors.Is(reason, fs.ErrNotExist) {
		lost := v.found.Lost()
		if lost == nil {
			return fmt.Errorf("no store here: %w", reason) // the error names CURRENT
		}
		reason = lost
	}
	if len(v.found[filename.Table])+len(v.found[filename.Log]) == 0 {
		return fmt.Errorf("%s: %w", v.dir, reason)
	}
	return fmt.Errorf("%w; tables and logs can be inspected one by one", reason)
}

// The page of a store shows at most fullTables tables in full, whose maps have at most about fullCells cells.
const fullTables, fullCells = 12, 17 * mapCells

// standOut returns the indexes of the tables that are shown in full: those with problems, those whose filters exceed
// their promise, the worst first, and the largest of each level.
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
	left := uint64(fullCells)
	for n, i := range all {
		cells := s.Tables[i].mapCells()
		if n > 0 && cells > left {
			all = all[:n]
			break
		}
		left -= min(cells, left)
	}
	slices.Sort(all)
	return all
}

// mapCells returns about how many cells the maps of the filters of the table have.
func (t *Table) mapCells() (n uint64) {
	units := t.Units
	if t.Prefix != nil {
		units = slices.Concat(units, t.Prefix.Units)
	}
	for i := range units {
		n += min(units[i].Blocks, mapCells)
	}
	return n
}

// readFull reads the filters of these tables, as many at a time as Options.Workers allows.
func (s *Store) readFull(ctx context.Context, dir string, o Options) error {
	tables := s.standOut()
	errs := make([]error, len(tables))
	err := o.each(ctx, len(tables), func(i int) { errs[i] = s.Tables[tables[i]].readFilters(dir) })
	s.wrong = append(s.wrong, errs...)
	return err
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
