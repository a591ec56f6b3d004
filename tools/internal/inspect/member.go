package inspect

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
)

// A member is a table of a tree that is inspected.
type member struct {
	meta  *manifest.Table
	level int
	run   *memberRun
	at    int   // index in its run
	facts Table // the facts of the table
	place Place

	keep   bool               // keep index, sample and filter, because they fit into memory
	reader *sstable.Reader    // with the index and the units that the level needs; nil if not kept or damaged
	sample *bloomblock.Sample // may be nil
	filter *bloomblock.Filter // with all units
	form   bloomblock.Form    // of the filter in memory
	header bloomblock.Header  // of the filter; without units if there is none, or if it is damaged
	index  int64              // bytes in memory, as below
	fixed  int64              // of what is never dropped: tops of indexes, range deletes, descriptions of tables
	tops   int64              // of these, the top of the index
	dels   int64
	prefix uint64  // bytes of the prefix filter in memory
	unread uint64  // bytes of the sample's hashes
	pieces []piece // where the keys lie that no older run has, ascending
}

// A memberRun is a run of members.
type memberRun struct {
	level   int
	id      uint64
	size    filterplan.Run // by entries
	run     manifest.Run
	members []*member
	before  []float64 // fresh keys before each member, and in all
}

// A tree contains all tables of a store, newest data first.
type tree struct {
	version *manifest.Version
	runs    []*memberRun
	members []*member
	plan    *treePlan // nil if it is not known
	budget  int64     // bytes of Options.MemoryBudget
	fixed   int64     // bytes in memory that are never dropped
	tops    int64     // of these, tops of indexes
}

// keptMemory is the number of bytes of filters and tails that are kept if the caller does not say how many.
const keptMemory = 1 << 30

func newTree(m *manifest.State, memory uint64, budget int64) *tree {
	t := &tree{version: m.Version, budget: budget}
	free := cmp.Or(memory, keptMemory)
	var sizes []filterplan.Run
	for level, runs := range m.Version.Levels {
		for _, r := range runs {
			run := &memberRun{level: level, id: r.ID, run: r}
			run.size = filterplan.Run{Level: level, Tables: len(r.Tables)}
			for i, meta := range r.Tables {
				run.size.Keys += meta.Entries
				n := &member{meta: meta, level: level, run: run, at: i}
				if need := meta.FilterLen + meta.TailLen; need <= free {
					n.keep, free = true, free-need
				}
				run.members = append(run.members, n)
			}
			t.runs = append(t.runs, run)
			t.members = append(t.members, run.members...)
			sizes = append(sizes, run.size)
		}
	}
	t.plan = planOf(m, sizes, budget)
	return t
}

// read reads all tables, as many at a time as Options.Workers allows. Problems of a table are among its facts.
func (t *tree) read(ctx context.Context, dir string, s *manifest.State, o Options) error {
	done := 0
	var calling sync.Mutex
	err := o.each(ctx, len(t.members), func(i int) {
		t.members[i].read(ctx, dir, t.rateOf(t.members[i].level), o)
		if o.Progress != nil {
			calling.Lock()
			defer calling.Unlock()
			done++
			o.Progress(done, len(t.members))
		}
	})
	if err != nil {
		return err
	}
	for _, m := range t.members {
		m.facts.Live = newLive(s, m.meta.Number)
		t.fixed += m.fixed
		t.tops += m.tops
	}
	t.fit()
	return nil
}

// rateOf returns the rate that filters on a level need, or 0, which loads all units, if the plan is not known.
func (t *tree) rateOf(level int) float64 {
	if t.plan == nil {
		return 0
	}
	return t.plan.now.Levels[level].Rate
}

// read reads the member's table.
func (m *member) read(ctx context.Context, dir string, rate float64, o Options) {
	name := filename.Make(dir, filename.Table, m.meta.Number)
	m.place = Place{FPR: 1}
	facts, r, sample, err := readTable(name)
	facts.Level, facts.Run, facts.Place, facts.fences = &m.level, &m.run.id, &m.place, m.meta.Bounds()
	facts.MinSeq, facts.MaxSeq = m.meta.MinSeq, m.meta.MaxSeq // an ingested table does not contain them
	if err != nil {
		facts.Damage, facts.unread = damageOf(err), true
	} else {
		m.take(r, sample, rate)
		if o.Verify {
			facts.verify(ctx, name)
		}
	}
	m.facts = facts
	prefixes := m.prefixHeader()
	m.prefix = prefixes.PrefixSize(prefixes.UnitsFor(rate)) - bloomblock.HeaderSize
}

// take keeps the parts of a table that the tree needs, and closes its reader unless that is kept. It trims the filter,
// whose units are all loaded, to those that a store has in memory.
func (m *member) take(r *sstable.Reader, sample *bloomblock.Sample, rate float64) {
	if m.keep {
		m.reader, m.sample, m.filter = r, sample, r.Filter()
	} else {
		defer r.Close()
	}
	forms := r.Keys.Forms(rate)
	r.Keys.Reduce(forms)
	m.form = forms[len(forms)-1]
	m.header, _ = r.Keys.Header()
	m.index, m.dels = r.IndexBytes(), r.RangeDelBytes()
	m.tops = r.TopBytes()
	m.fixed = m.tops + m.dels + m.meta.DescriptionBytes()
	m.place.Units, m.place.FilterBytes = r.Keys.State().Units, uint64(r.Keys.Bytes()) //nolint:gosec // a size
	if f := r.Filter(); f != nil {
		m.place.FPR = f.FalsePositiveRate()
	}
	if sample != nil {
		m.unread = 8 * uint64(sample.Len()) //nolint:gosec // at most 1024
	}
}

// keys returns the number of keys in the member's filter, or of its entries without a filter.
func (m *member) keys() uint64 {
	if m.facts.FilterKeys > 0 {
		return m.facts.FilterKeys
	}
	return m.meta.Entries
}

// touching returns the members of another run whose ranges overlap that of m.
func (m *member) touching(r *memberRun) []*member {
	tables := r.run.Touching(m.meta.Bounds())
	if len(tables) == 0 {
		return nil
	}
	first := slices.Index(r.run.Tables, tables[0])
	return r.members[first:][:len(tables)]
}
