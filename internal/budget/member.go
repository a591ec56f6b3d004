package budget

import (
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A member is a store as the pool knows it: its tables, its plans, and what it has in memory.
type member struct {
	// constant
	Config
	reserved int64      // bytes for memtables
	all      *Residents // of all stores

	plans   atomic.Pointer[filterplan.Plans]
	promise atomic.Pointer[Promises]
	planned atomic.Pointer[manifest.Version] // of the state that memory was last divided for

	mu   step.Mutex // no calls out of this package while held
	held Residents  // changed under mu
	left bool       // guarded by mu: the store left; later loads are not counted

	room chan struct{} // capacity 1; holds an element if filters may grow, or the promise has changed
	told atomic.Bool   // the observer knows that the store does not keep what was asked

	owed   atomic.Uint64 // times at which filters had less in memory than their plans
	loaded atomic.Uint64 // those of them after which what was lacking has been loaded, or tried
	failed atomic.Bool   // the last time, something could not be loaded

	water highWater // guarded by Pool.Balancing; of the memtables
	pace  pace      // guarded by Pool.Balancing; of the memtables

	writes struct { // what busy knows
		seq  atomic.Uint64             // the newest sequence number at the last call
		last atomic.Pointer[time.Time] // of the call that saw it change; nil for never
	}
}

// Plans returns the current plans for building and keeping filters.
func (m *member) Plans() *filterplan.Plans { return m.plans.Load() }

// RateOf returns the rate that the plan asks of a table's filter.
func (m *member) RateOf(t *tree.Table) float64 { return m.plans.Load().Now.Levels[t.Level.Load()].Rate }

// Planned reports whether filters in memory follow a plan that was made since the tables of the store became those of
// s.
func (m *member) Planned(s *tree.State) bool {
	return m.planned.Load() == s.Version && !m.Owes() && !m.failed.Load()
}

// Owes reports whether filters have less in memory than their plans, and Restore has not tried to load them yet.
func (m *member) Owes() bool {
	loaded := m.loaded.Load() // first: it never exceeds owed
	return m.owed.Load() != loaded
}

// Loads returns a number that has changed after each time that Restore has loaded filters.
func (m *member) Loads() uint64 { return m.loaded.Load() }

// Bytes returns the bytes that the store's tables have in memory.
func (m *member) Bytes() tree.TableBytes { return m.held.Bytes() }

// Room returns a channel that receives when filters may grow: see Restore.
func (m *member) Room() <-chan struct{} { return m.room }

// offer makes Room receive.
func (m *member) offer() {
	select {
	case m.room <- struct{}{}:
	default: // it will receive
	}
}

// need returns the bytes that the memtables of s need, of those that are reserved for them, at the highest moment of
// the last minute or two: what they have, and two steps ahead. While they grow fast they need all. To reduce filters
// takes time and memory, until the collector has found that no lookup asks what they were, so they are reduced once,
// and not at each step. Pool.Balancing is held.
func (m *member) need(s *tree.State, at time.Time) int64 {
	need := m.ahead(s)
	if m.pace.fast(s.MemtableBytes(), m.reserved/tree.MemtableSteps/2, at) {
		need = m.reserved
	}
	return m.water.raise(need, at)
}

// ahead returns what the memtables of s have, and two steps more, of what is reserved.
func (m *member) ahead(s *tree.State) int64 {
	return min(s.MemtableBytes()+m.reserved/tree.MemtableSteps, m.reserved)
}

// busy reports whether the store was written to within the last minute, as far as earlier calls can tell.
func (m *member) busy(at time.Time) bool {
	w := &m.writes
	if seq := uint64(m.Tree.NewestSeq()); w.seq.Swap(seq) != seq {
		w.last.Store(&at)
		return true
	}
	last := w.last.Load()
	return last != nil && at.Sub(*last) < time.Minute
}

// StartSeq sets the newest sequence number of the store when it was opened, so that it is idle until it is written to.
func (m *member) StartSeq(seq uint64) { m.writes.seq.Store(seq) }

// count updates the accounts to what the table has in memory, and reports whether they changed. t.Loading is held.
func (m *member) count(t *tree.Table) (changed bool) {
	r, was := t.Reader, t.Counted
	t.Counted = tree.TableBytes{
		Filter: t.Keys.Bytes(), Prefix: t.Prefixes.Bytes(), Top: r.TopBytes(), RangeDeletes: r.RangeDelBytes(),
	}
	if t.Keys.Known() && !t.Released {
		t.Counted.Description = t.Meta.DescriptionBytes()
	}
	if t.Counted == was {
		return false
	}
	return m.add(t.Counted.Minus(was))
}

// Count adds bytes, which may be negative, to what the store knows beside its tables.
func (m *member) Count(bytes int64) { m.add(tree.TableBytes{Description: bytes}) }

// add adds bytes of tables to the accounts, unless the store has left.
func (m *member) add(more tree.TableBytes) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left {
		return false
	}
	m.all.Add(more)
	m.held.Add(more)
	return true
}

// leave takes all that was added off the account of all stores.
func (m *member) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	nothing := tree.TableBytes{}.Minus(m.held.Bytes())
	m.all.Add(nothing)
	m.held.Add(nothing)
	m.left = true
}

// fits reports whether all filters of a state fit whole into memory, and all keep what is asked: then there is nothing
// to divide. bytes is what they take at most.
func (m *member) fits(s *tree.State) (bytes int64, ok bool) {
	plan := m.plans.Load().Now
	for _, r := range s.Runs {
		bytes += int64(r.FilterBytes) //nolint:gosec // below the sizes of files
		if r.WorstRate > plan.Levels[r.Level].Rate {
			return bytes, false
		}
	}
	return bytes, m.Planner.Memory == 0 && plan.FPR < 1 // without filters, each run costs a read
}

// exceeds reports whether a table has more of its filters in memory than their plans allow.
func (m *member) exceeds(t *tree.Table) bool {
	rate := m.RateOf(t)
	return t.Keys.Bytes() > t.Keys.Want(rate) || t.Prefixes.Bytes() > t.Prefixes.Want(rate)
}

// lacks reports whether a table has less of its filters in memory than their plans have. A filter that is not known,
// because WarmUp could not read it, is left to lookups.
func (m *member) lacks(t *tree.Table) bool {
	rate := m.RateOf(t)
	return t.Keys.Bytes() < t.Keys.Want(rate) || t.Prefixes.Bytes() < t.Prefixes.Want(rate)
}

// reduce drops what the filters of a table have in memory beyond their plans. It reads no file. t.Loading is held.
func (m *member) reduce(t *tree.Table) {
	for _, f := range t.Filters() {
		f.Reduce(f.Allowed(f.Forms(m.RateOf(t)))) // a filter that is not known has no forms, and nothing in memory
	}
	if t.Keys.Forms(m.RateOf(t)) != nil {
		m.ready(t)
	}
	m.count(t)
}

// ready makes lookups use the filter of a table as it is in memory, and that in the file if it is worth it.
func (m *member) ready(t *tree.Table) {
	if forms := t.Keys.Forms(m.RateOf(t)); forms != nil {
		t.Reader.AskInFile(filterplan.WorthAsking(t.Keys.State().Form, forms[len(forms)-1].Rate))
	}
	t.Ready.Store(true)
}

// Short reports whether a table has less of its filter in memory than the promise that was asked takes.
func (m *member) Short(t *tree.Table) bool {
	rate := m.RateOf(t)
	if t.Meta.FilterLen == 0 || t.Meta.Entries == 0 || rate >= 1 {
		return false
	}
	forms := t.Keys.Forms(rate)
	return forms == nil || t.Keys.Bytes() < forms[len(forms)-1].Bytes
}

// Promises are the rates and reads that a store promises, with the memory that it has now and with less.
type Promises struct {
	Asked float64 // wasted reads for a lookup of an absent key, by the options
	Whole float64 // with all filters whole in memory: more than Asked if tables were written for another promise

	Now  filterplan.Promise // with the memory that memtables need now; Budget is for all stores of the pool
	Full filterplan.Promise // with memtables that take all that is reserved for them
}

// Kept reports whether memory suffices for a promise.
func (p *Promises) Kept(q filterplan.Promise) bool { return q.Passed <= p.Whole }

// promiseFor returns what a store promises by a plan for a rate, with its filters in the forms that they have now, and
// with full memtables. Without filters, it keeps what is asked.
func promiseFor(fpr float64, own filterplan.Demands, now, full []int) *Promises {
	return &Promises{
		Asked: fpr, Whole: own.Promise(fpr, own.All()).Passed,
		Now: own.Promise(fpr, now), Full: own.Promise(fpr, full),
	}
}
