package compaction

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// A simulation carries out what a policy picks for a load, without any key: a table has its keys spread evenly between
// its bounds. Time passes as writers put pairs, and as compactions merge one in 0.7 microseconds.
type simulation struct {
	outline
	workload
	workers int
	ops     map[uint64]float64 // operations on the keys within each table's bounds that led to it
	space   float64            // level 0 goes down if it has 1/space of what is below; 0 means that the policy decides

	now     float64 // seconds
	running []merging
	cuts    [][]byte
	rng     *rand.Rand // for the sizes of memtables

	put, flushed, written float64 // bytes; log not counted
	most                  float64 // bytes of the tree at most, with what a compaction writes
	stopped               float64 // seconds that writers waited for level 0
	runs, flushes         float64 // sum over all flushes, and their number
}

// A workload puts and deletes keys.
type workload struct {
	name      string
	pace      float64                   // seconds for each operation
	distinct  func(ops float64) float64 // expected number of different keys of so many operations
	deletes   float64                   // share of the operations that delete
	ascending bool                      // the keys ascend
}

// all are new keys.
func all(ops float64) float64 { return ops }

// among returns the number of different keys of operations on n keys, all equally likely.
func among(n float64) func(float64) float64 {
	return func(ops float64) float64 { return n * (1 - math.Exp(-ops/n)) }
}

// zipf returns the number of different keys of operations on n keys, of which the i-th is 1/i as likely as the first.
// It counts keys of about equal likelihood together.
func zipf(n float64) func(float64) float64 {
	const width = 1.1
	sum := math.Log(n) + 0.577
	return func(ops float64) (keys float64) {
		for from := 1.0; from <= n; {
			to := min(max(from+1, math.Floor(from*width)), n+1)
			keys += (to - from) * (1 - math.Exp(-ops*2/(from+to-1)/sum))
			from = to
		}
		return keys
	}
}

// A merging is a plan that is carried out.
type merging struct {
	plan    *Plan
	left    []*Plan           // slices that were not carried out
	outputs []*manifest.Table // of the first
	run     uint64
	end     float64
}

const (
	pairBytes     = 116.0
	memtablePairs = 397_000 // in 64 MiB, about
	keySpace      = 1 << 62
)

// table makes a table with the results of operations on the keys from lo to hi.
func (s *simulation) table(lo, hi, size, ops float64) *manifest.Table {
	s.next++
	s.ops[s.next] = ops
	from, to := uint64(lo*keySpace), uint64(hi*keySpace)
	return &manifest.Table{
		Number: s.next, ID: s.next, TailLen: 1, Size: uint64(size) + 1, Entries: uint64(size/pairBytes) + 1,
		Smallest: binary.BigEndian.AppendUint64(nil, from),
		Largest:  binary.BigEndian.AppendUint64(nil, max(from, to-1)), MinSeq: 1, MaxSeq: 1,
	}
}

func place(key []byte) float64 { return float64(binary.BigEndian.Uint64(key)) / keySpace }

// bytes returns the size of the results of operations, in the last level or above. A tombstone has 20 bytes, and none
// is in the last level.
func (s *simulation) bytes(level int, ops float64) float64 {
	value, tombstone := 1-s.deletes, s.deletes*20
	if level == last {
		tombstone = 0
	}
	return s.distinct(ops) * (value*pairBytes + tombstone)
}

// merge returns the outputs of a plan.
func (s *simulation) merge(p *Plan) []*manifest.Table {
	var tables []*manifest.Table
	var places []float64
	for _, in := range p.Inputs {
		tables = append(tables, in.Tables...)
		for _, t := range in.Tables {
			places = append(places, place(t.Smallest), place(t.Largest))
		}
	}
	return s.write(p.To, places, func(lo float64) (density float64) {
		for _, t := range tables {
			if place(t.Smallest) <= lo && lo < place(t.Largest) {
				density += s.ops[t.Number] / (place(t.Largest) - place(t.Smallest))
			}
		}
		return density
	})
}

// write returns the tables of a level, as a tableWriter divides keys among them. density returns the operations per
// unit of the key space from a place to the next one.
func (s *simulation) write(
	level int, places []float64, density func(lo float64) float64,
) (outputs []*manifest.Table) {
	var cuts []float64
	end := slices.Max(places)
	s.cuts = s.policy.Cuts(s.v, s.cuts)
	for _, key := range s.cuts {
		if at := place(key); at > slices.Min(places) && at < end {
			cuts = append(cuts, at)
		}
	}
	places = append(places, cuts...)
	slices.Sort(places)
	most := float64(s.policy.TableSize)
	var from, size, ops, since float64 // since the last cut at which a table ended
	cut := func(at float64) {
		if size > 0 {
			outputs = append(outputs, s.table(from, at, size, ops))
		}
		since, size, ops = since+size, 0, 0
	}
	for i, lo := range places[:len(places)-1] {
		if since+size >= most/smallPart && slices.Contains(cuts, lo) {
			cut(lo)
			since = 0
		}
		hi, p := places[i+1], density(lo)
		scale := 1.0
		if s.ascending {
			scale = 1 / p // a key space of its own
		}
		d := s.bytes(level, p*scale) / scale
		for d > 0 && hi-lo > 1e-12 {
			if size == 0 {
				from = lo
			}
			to := min(hi, lo+(most-size)/d)
			size, ops = size+(to-lo)*d, ops+(to-lo)*p
			if lo = to; size >= most-1 {
				cut(lo)
			}
		}
	}
	cut(end)
	return outputs
}

func (s *simulation) RangeDels(*manifest.Table) *rangedel.Index { return nil }
func (s *simulation) Outdated(int, *manifest.Table) bool        { return false }

// Stale returns the share of the oldest run's keys that the others have too.
func (s *simulation) Stale() float64 {
	var newer, older float64
	for _, level := range s.v.Levels {
		for _, r := range level {
			newer, older = newer+older, s.opsOf(r)
		}
	}
	switch {
	case s.space > 0 && float64(s.v.Bytes(0))*s.space >= float64(s.v.Bytes(last)):
		return muchStale
	case s.space > 0:
		return 0
	}
	return (s.distinct(newer) + s.distinct(older) - s.distinct(newer+older)) / s.distinct(older)
}

func (s *simulation) opsOf(r manifest.Run) (ops float64) {
	for _, t := range r.Tables {
		ops += s.ops[t.Number]
	}
	return ops
}

// begin begins what the policy picks, until all workers are busy.
func (s *simulation) begin(idle bool) {
	s.t.Helper()
	for len(s.running) < s.workers {
		shape := Shape{Version: s.v, Idle: idle, Facts: s}
		for _, m := range s.running {
			shape.Running = append(shape.Running, m.plan)
		}
		p := s.policy.Pick(shape)
		if p == nil {
			return
		}
		s.next++
		m := merging{plan: p, left: p.Slices(4 * s.policy.TableSize), run: s.next, end: s.now}
		s.slice(&m)
		s.running = append(s.running, m)
	}
}

// slice begins the first slice of a plan that was not carried out.
func (s *simulation) slice(m *merging) {
	p := m.left[0]
	if p.Move {
		return
	}
	m.outputs = s.merge(p)
	m.end += float64(p.Bytes()) / pairBytes * 0.7e-6
	tree := 0.0
	for l := range s.v.Levels {
		tree += float64(s.v.Bytes(l))
	}
	var written float64
	for _, t := range m.outputs {
		written += float64(t.Size)
	}
	s.written, s.most = s.written+written, max(s.most, tree+written)
}

// end ends the compaction that ends first, if that is before a time.
func (s *simulation) end(before float64, idle bool) (ended bool) {
	s.t.Helper()
	if len(s.running) == 0 {
		return false
	}
	first := 0
	for i, m := range s.running {
		if m.end < s.running[first].end {
			first = i
		}
	}
	m := s.running[first]
	if m.end > before {
		return false
	}
	s.now = max(s.now, m.end)
	s.apply(Edit(s.v, m.left[0], m.outputs, m.run))
	if m.left = m.left[1:]; len(m.left) > 0 {
		s.slice(&m)
		s.running[first] = m
		return true
	}
	s.running = slices.Delete(s.running, first, first+1)
	s.begin(idle)
	return true
}

// load carries out n operations.
func (s *simulation) load(n float64) {
	s.t.Helper()
	at := 0.0
	for left := n; left > 0; {
		ops := min(left, memtablePairs*(0.95+0.1*s.rng.Float64()))
		from, to := 0.0, 1.0
		if s.ascending {
			from, to = at, at+ops/n
			at = to
		}
		left -= ops
		full := s.now + ops*s.pace
		for s.end(full, false) {
		}
		for s.now = full; s.policy.Pressure(s.v).Stop && s.end(math.Inf(1), false); {
		}
		s.stopped += s.now - full
		s.put += ops * pairBytes
		run := s.write(0, []float64{from, to}, func(float64) float64 { return ops / (to - from) })
		for _, t := range run {
			s.flushed += float64(t.Size)
		}
		s.apply(&manifest.Edit{Added: NewRun(run)})
		s.begin(false)
		s.runs, s.flushes = s.runs+float64(s.v.Runs()), s.flushes+1
	}
}

// settle carries out all that is due, first as while writers write, then as while nobody does.
func (s *simulation) settle(idle bool) {
	s.t.Helper()
	for s.begin(idle); s.end(math.Inf(1), idle); {
	}
}

// An outcome is what some loads of about the same size cost.
type outcome struct {
	loaded, idle float64 // bytes written per byte put, when the load ends and once the tree is at rest: means
	most         float64 // bytes of the tree per byte of its keys: the largest
	runs, rest   float64 // while loading, the mean; and at rest, the largest number
	waits        float64 // seconds for which writers wait, the longest
}

func (o outcome) String() string {
	return fmt.Sprintf("%.2f loaded, %.2f at rest; at most %.2f of the data; %.1f runs loaded, %.0f at rest; "+
		"writers waited %.1f s", o.loaded, o.idle, o.most, o.runs, o.rest, o.waits)
}

// simulate carries out nine loads of about n operations, since one size hits or misses a large merge.
func simulate(t *testing.T, policy Leveled, w workload, n, space float64) (o outcome) {
	t.Helper()
	for i := range 9 {
		s := &simulation{
			outline: newOutline(t, policy), workload: w, workers: 2, space: space, ops: map[uint64]float64{},
			rng: rand.New(rand.NewPCG(uint64(i), 0)),
		}
		ops := n * (0.8 + 0.05*float64(i))
		s.load(ops)
		o.loaded += (s.flushed + s.written) / s.put / 9
		o.runs += s.runs / s.flushes / 9
		o.waits = max(o.waits, s.stopped)
		s.settle(false)
		s.settle(true)
		o.idle += (s.flushed + s.written) / s.put / 9
		o.most, o.rest = max(o.most, s.most/s.bytes(last, ops)), max(o.rest, float64(s.v.Runs()))
	}
	return o
}

// The policy of a store with memtables of 64 MiB.
var usual = Leveled{
	Trigger: 8, Slow: 12, Stop: 16, Ratio: 10, TableSize: 8 << 20, BaseLevelSize: 4 * 10 * 64 << 20,
}

func TestWhatLoadsWrite(t *testing.T) {
	testkit.Long(t)
	for _, c := range []struct {
		workload
		ops  float64
		most outcome
	}{
		{workload{"new keys", 1e-6, all, 0, false}, 5e6, outcome{1.95, 2.6, 1.4, 8, 3, 0.1}},
		{workload{"more new keys", 1e-6, all, 0, false}, 20e6, outcome{3.1, 3.5, 1.4, 11, 4, 1.2}},
		{workload{"ascending keys", 1e-6, all, 0, true}, 20e6, outcome{1.01, 1.01, 1.1, 9, 8, 0}},
		{workload{"puts of 5 million keys", 1e-6, among(5e6), 0, false}, 20e6, outcome{2.3, 2.5, 2.9, 11, 3, 0.5}},
		{workload{"slow puts of 5 million keys", 1e-5, among(5e6), 0, false}, 20e6, outcome{2.3, 2.5, 1.8, 6, 3, 0.1}},
		{workload{"of a million keys", 1e-5, among(1e6), 0, false}, 5e6, outcome{1.9, 2, 2.5, 4, 2, 0}},
		{workload{"of 10 million keys", 1e-5, among(10e6), 0, false}, 50e6, outcome{3.6, 3.7, 1.6, 8, 3, 0.1}},
	} {
		got, want := simulate(t, usual, c.workload, c.ops, 0), c.most
		t.Logf("%s: %v", c.name, got)
		if got.loaded > want.loaded || got.idle > want.idle || got.most > want.most || got.runs > want.runs ||
			got.rest > want.rest || got.waits > want.waits {
			t.Errorf("%s: %v, want at most\n%v", c.name, got, want)
		}
	}
}

// TestALevelAboveItsTargetDoesNotStopWriters has level 5 at five times its target, as after an ingest of new versions
// of half of the keys. Merging it takes a minute or more, in which writers would fill level 0.
func TestALevelAboveItsTargetDoesNotStopWriters(t *testing.T) {
	testkit.Long(t)
	s := &simulation{
		outline: newOutline(t, usual), workload: workload{"new keys", 1e-6, all, 0, false}, workers: 2,
		ops: map[uint64]float64{}, rng: rand.New(rand.NewPCG(1, 0)),
	}
	for _, l := range []struct {
		level int
		keys  float64
	}{{6, 170e6}, {5, 85e6}} {
		e := &manifest.Edit{}
		tables := s.write(l.level, []float64{0, 1}, func(float64) float64 { return l.keys })
		s.next++
		for _, m := range tables {
			e.Added = append(e.Added, manifest.Added{Level: l.level, Run: s.next, Table: m})
		}
		s.apply(e)
	}
	if s.load(20e6); s.stopped > 5 {
		t.Errorf("writers are stopped for %.0f s", s.stopped)
	}
}

var table = flag.Bool("table", false, "print what loads write by the trigger, and by when level 0 goes down")

// TestTableOfPolicies prints the table in bench/results/NOTES.md.
func TestTableOfPolicies(t *testing.T) {
	if !*table {
		t.Skip("without -table")
	}
	for _, n := range []float64{1e6, 5e6, 20e6} {
		for _, w := range []workload{
			{"random", 1e-5, all, 0, false},
			{"zipf", 1e-5, zipf(n / 4), 0, false},
			{"overwrite", 1e-5, among(n / 4), 0, false},
			{"deletes", 1e-5, among(n / 4), 0.5, false},
			{"ascending", 1e-5, all, 0, true},
			{"mixed", 1e-5, func(ops float64) float64 { return ops/2 + zipf(n/4)(ops/2) }, 0, false},
		} {
			fmt.Printf("| %.0fM %s ", n/1e6, w.name)
			for _, trigger := range []int{4, 8, 12} {
				for _, space := range []float64{1, 2, 4, 0} {
					policy := usual
					policy.Trigger, policy.Slow, policy.Stop = trigger, trigger+4, trigger+8
					o := simulate(t, policy, w, n, space)
					fmt.Printf("| %.1f %.2f %.1f ", o.loaded, o.most, o.runs)
				}
			}
			fmt.Println("|")
		}
	}
}
