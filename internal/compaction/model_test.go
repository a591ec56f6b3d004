package compaction

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

var long = flag.Int("long", 1, "how many times as many histories the model test goes through")

// plan returns a random plan that respects the order of the tree, or nil if a randomly chosen level is empty.
func (w *world) plan() *Plan {
	level := w.rng.IntN(manifest.NumLevels)
	v := w.shape()
	runs := v.Levels[level]
	if len(runs) == 0 {
		return nil
	}
	var in []Input
	if level == 0 { // all runs, the older ones, or some that stay in level 0
		from, stay := w.rng.IntN(len(runs)), w.rng.IntN(3) == 0
		for _, r := range runs[from:] {
			if in = append(in, Input{0, r.ID, r.Tables}); stay && w.rng.IntN(3) == 0 {
				break
			}
		}
		if stay {
			return &Plan{To: 0, Inputs: in}
		}
	} else {
		r := runs[len(runs)-1]
		from := w.rng.IntN(len(r.Tables))
		to := from + 1 + w.rng.IntN(len(r.Tables)-from)
		in = append(in, Input{level, r.ID, r.Tables[from:to]})
	}
	if level == last {
		return &Plan{To: last, Inputs: in}
	}
	to := level + 1 // as far as nothing comes in between
	for to < last && len(v.overlapping(to, boundsOf(in))) == 0 && w.rng.IntN(2) == 0 {
		to++
	}
	p := v.down(to, in...)
	p.Move = p.Move && w.rng.IntN(2) == 0
	return p
}

func (w *world) shape() Shape {
	s := Shape{Version: w.v, Snapshots: w.snapshots, Facts: resident{w.disk, w.rng.Float64()}}
	for _, j := range w.running {
		s.Running = append(s.Running, j.plan)
	}
	return s
}

// policy returns a policy with a random trigger.
func (w *world) policy() Policy {
	return Leveled{Trigger: 2 + w.rng.IntN(3), Slow: 8, Stop: 12, Ratio: 2, TableSize: 16000, BaseLevelSize: 4000}
}

// resident is a disk all of whose range tombstones are in memory.
type resident struct {
	*disk
	stale float64
}

func (r resident) RangeDels(m *manifest.Table) *rangedel.Index {
	return rangedel.NewIndex(r.readTable(m).dels)
}
func (resident) Outdated(int, *manifest.Table) bool { return false }
func (r resident) Stale() float64                   { return r.stale }

// A job is a plan. The outputs of its first slice that was not carried out are written; the edit is not made yet.
type job struct {
	plan    *Plan
	left    []*Plan
	run     uint64
	version *manifest.Version // that it was picked from
	above   [][]rangedel.List // range tombstones of the levels above each level, which the plan knows
	tables  []*manifest.Table
}

// begin begins a plan beside others, in slices of a few tables or of all.
func (w *world) begin(p *Plan) {
	w.t.Helper()
	w.run++
	w.note("plan: %s", p.text())
	j := job{plan: p, run: w.run, version: w.v}
	if w.rng.IntN(2) == 0 {
		shape := w.shape()
		shape.Hide(p)
		var lists []rangedel.List
		for _, runs := range w.v.Levels {
			j.above = append(j.above, slices.Clip(lists))
			for _, r := range runs {
				for _, m := range r.Tables {
					lists = append(lists, w.disk.readTable(m).dels)
				}
			}
		}
	}
	j.left = p.Slices([]uint64{0, 300, 1 << 20}[w.rng.IntN(3)])
	w.slice(&j)
	w.running = append(w.running, j)
}

// slice writes the first slice of a job and checks which inputs it read.
func (w *world) slice(j *job) {
	w.t.Helper()
	p, d := j.left[0], w.disk
	w.note("slice: %s; snapshots %d", p.text(), w.snapshots)
	var res Result
	if !p.Move {
		d.opened, d.asked = nil, nil
		var err error
		env := w.env()
		if p.Inputs[0].Level == p.To {
			env.TableSize = 1 << 20 // else what was joined could be cut again, for ever
		}
		if res, err = merged(w.t.Context(), j.version, p, d, env); err != nil {
			w.fail("%v", err)
		}
		w.checkRead(j, res)
		w.note("gives %s", d.text(res.Tables))
	}
	j.tables = res.Tables
}

// end ends the slice that one of the plans that run is at.
func (w *world) end(i int) {
	w.t.Helper()
	j := &w.running[i]
	w.note("end: %s", j.left[0].text())
	w.apply(Edit(j.version, j.left[0], j.tables, j.run))
	if j.left = j.left[1:]; len(j.left) > 0 {
		w.slice(j)
		return
	}
	w.running = slices.Delete(w.running, i, i+1)
}

// carryOut carries a plan out at once.
func (w *world) carryOut(p *Plan) {
	w.t.Helper()
	w.begin(p)
	for n := len(w.running); len(w.running) == n; {
		w.end(n - 1)
	}
}

// checkRead compares the inputs that were read with those that deleted returns false for.
func (w *world) checkRead(j *job, res Result) {
	w.t.Helper()
	p, d := j.left[0], w.disk
	var read, skipped, stayed uint64
	for i, in := range p.Inputs {
		for _, m := range in.Tables {
			var above []rangedel.List
			if j.above != nil {
				above = j.above[in.Level]
			}
			covered := w.deleted(m, above, p.Inputs[:i])
			if got, want := slices.Contains(d.opened, m.Number), !covered && m.Entries > 0; got != want {
				w.fail("table %d was opened: %v, want %v", m.Number, got, want)
			}
			if got, want := slices.Contains(d.asked, m.Number), !covered && m.RangeDeletes > 0; got != want {
				w.fail("table %d was asked for range tombstones: %v, want %v", m.Number, got, want)
			}
			if covered {
				skipped += m.Size
			} else {
				read += m.Entries
			}
		}
	}
	for _, m := range res.Tables {
		stayed += m.Entries
	}
	if res.Read != read || res.Skipped != skipped || res.Read-res.Dropped != stayed {
		w.fail("read %d, skipped %d bytes, dropped %d; want %d, %d, %d",
			res.Read, res.Skipped, res.Dropped, read, skipped, read-stayed)
	}
}

// deleted reports whether range tombstones above the inputs and those of newer inputs delete all of a table for all
// readers. It looks at each key where a tombstone begins or ends.
func (w *world) deleted(m *manifest.Table, above []rangedel.List, newer []Input) bool {
	lists := slices.Clip(above)
	for _, in := range newer {
		for _, n := range in.Tables {
			lists = append(lists, w.disk.readTable(n).dels)
		}
	}
	places := [][]byte{m.Smallest}
	for _, l := range lists {
		for _, f := range l {
			places = append(places, f.Start)
			if f.End != nil {
				places = append(places, f.End)
			}
		}
	}
	for _, key := range places {
		if bytes.Compare(m.Smallest, key) > 0 || m.EndsBefore(key) {
			continue
		}
		if !slices.ContainsFunc(lists, func(l rangedel.List) bool {
			return slices.ContainsFunc(l, func(f rangedel.Fragment) bool {
				if bytes.Compare(f.Start, key) > 0 || f.End != nil && bytes.Compare(key, f.End) >= 0 {
					return false
				}
				return slices.ContainsFunc(f.Seqs, func(t ikey.Seq) bool {
					between := func(s ikey.Seq) bool { return m.MinSeq <= s && s < t }
					return t > m.MaxSeq && !slices.ContainsFunc(w.snapshots, between)
				})
			})
		}) {
			return false
		}
	}
	return true
}

// compact merges everything into the last level. Without snapshots, one version of each live key is left there.
func (w *world) compact() {
	w.t.Helper()
	m := &Manual{UpTo: w.run + 1}
	if w.rng.IntN(2) == 0 {
		m.Lo, m.Hi = w.key(), w.key()
		if bytes.Compare(m.Lo, m.Hi) > 0 {
			m.Lo, m.Hi = m.Hi, m.Lo
		}
		if m.Lo != nil && m.Hi == nil {
			m.Hi = []byte{}
		}
	}
	w.note("compact %q to %q", m.Lo, m.Hi)
	for i := 0; ; i++ {
		shape := w.shape()
		p := m.Next(shape, w.policy())
		if p == nil {
			break
		}
		if i > 100 {
			w.fail("a manual compaction does not end")
		}
		if !shape.Allows(p) {
			w.end(w.rng.IntN(len(w.running)))
			continue
		}
		w.carryOut(p)
		m.Done(p)
		w.check()
	}
	b, v := manifest.Bounds{Lo: m.Lo, Hi: m.Hi}, w.shape()
	for level := range manifest.NumLevels {
		if level < last && len(v.overlapping(level, b)) > 0 {
			w.fail("level %d is not empty", level)
		}
	}
	for _, in := range v.overlapping(last, b) {
		for _, t := range in.Tables {
			if len(w.snapshots) == 0 && leftover(t) {
				w.fail("%v is left", t)
			}
		}
	}
}

// settle carries out what the policy picks, up to three plans at a time, until the tree is in shape.
func (w *world) settle() {
	w.t.Helper()
	policy := w.policy()
	for i := 0; ; i++ {
		p := policy.Pick(w.shape())
		if n := len(w.running); n > 0 && (p == nil || n == 3 || w.rng.IntN(2) == 0) {
			w.end(w.rng.IntN(n))
			continue
		}
		if p == nil {
			for level, runs := range w.v.Levels {
				if len(runs) > 1 && level > 0 {
					w.fail("level %d has %d runs, want at most 1", level, len(runs))
				}
			}
			return
		}
		if i > 300 {
			w.fail("the tree does not come into shape")
		}
		w.begin(p)
	}
}

// step does one random thing.
func (w *world) step() {
	switch n := w.rng.IntN(20); {
	case n < 6:
		w.flush()
	case n < 7:
		w.ingest()
	case n < 9:
		w.snapshots = append(w.snapshots, w.seq)
		w.note("snapshot at %d", w.seq)
	case n < 12:
		if len(w.snapshots) > 0 {
			i := w.rng.IntN(len(w.snapshots))
			w.snapshots = slices.Delete(slices.Clone(w.snapshots), i, i+1)
			w.note("snapshots left: %d", w.snapshots)
		}
	case n < 17:
		if p, shape := w.plan(), w.shape(); p != nil && shape.Allows(p) {
			w.begin(p)
		}
		for len(w.running) > 0 && w.rng.IntN(2) == 0 {
			w.end(w.rng.IntN(len(w.running)))
		}
	case n < 19:
		w.settle()
	default:
		w.compact()
	}
}

// TestEveryReaderSeesTheHistory runs random histories of writes, snapshots, flushes, ingested tables and compactions.
// After each step every reader must see the history, and every table must match the manifest.
func TestEveryReaderSeesTheHistory(t *testing.T) {
	testkit.LongUnderRace(t)
	n := 120 * *long
	if testing.Short() {
		n /= 5
	}
	for seed := range n {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			w := &world{
				t: t, rng: rand.New(rand.NewPCG(uint64(seed), 0)), disk: newDisk(t), v: &manifest.Version{},
			}
			for range 40 {
				w.step()
				w.check()
			}
			w.settle()
			w.snapshots = nil
			w.compact()
			m := &Manual{UpTo: w.run + 1}
			for p := m.Next(w.shape(), w.policy()); p != nil; p = m.Next(w.shape(), w.policy()) {
				w.carryOut(p)
				m.Done(p)
			}
			w.check()
			var live, entries uint64
			for _, key := range keys {
				if w.truth(key, w.seq) != absent {
					live++
				}
			}
			for level, m := range w.v.Tables() {
				entries += m.Entries
				if level != last || leftover(m) {
					w.fail("level %d still has %v", level, m)
				}
			}
			if entries != live {
				w.fail("%d versions are left of %d keys", entries, live)
			}
			p := w.policy().Pick(w.shape())
			if p != nil && (p.Inputs[0].Level != last || len(p.Inputs[0].Tables) == 1) {
				w.fail("after all that the tree wants %s", p.text()) // small tables may be joined
			}
		})
	}
}
