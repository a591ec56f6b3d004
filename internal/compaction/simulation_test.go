package compaction

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// A simulation carries out what a policy picks for a load of random keys, without any key: a table has its keys spread
// evenly between its bounds. Time passes as writers put pairs, and as compactions merge one in 0.7 microseconds.
type simulation struct {
	outline
	workers int
	keys    float64 // different keys that are put; 0 means that no key is put twice
	pace    float64 // seconds for each pair that is put

	now     float64 // seconds
	running []merging
	cuts    [][]byte
	rng     *rand.Rand // for the sizes of memtables

	put, flushed, written float64 // bytes; log not counted
	most                  float64 // bytes of the tree at most, with what a compaction writes
	stopped               float64 // seconds that writers waited for level 0
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

func (s *simulation) table(lo, hi, size float64) *manifest.Table {
	s.next++
	from, to := uint64(lo*keySpace), uint64(hi*keySpace)
	return &manifest.Table{
		Number: s.next, ID: s.next, TailLen: 1, Size: uint64(size) + 1, Entries: uint64(size/pairBytes) + 1,
		Smallest: binary.BigEndian.AppendUint64(nil, from),
		Largest:  binary.BigEndian.AppendUint64(nil, max(from, to-1)), MinSeq: 1, MaxSeq: 1,
	}
}

func place(key []byte) float64 { return float64(binary.BigEndian.Uint64(key)) / keySpace }

// density returns the bytes per unit of the key space that tables, which all span a place, have there together.
func (s *simulation) density(tables []*manifest.Table) (d float64) {
	absent := 1.0
	for _, t := range tables {
		one := float64(t.Size) / (place(t.Largest) - place(t.Smallest))
		d += one
		absent *= 1 - min(1, one/(s.keys*pairBytes))
	}
	if s.keys > 0 {
		d = (1 - absent) * s.keys * pairBytes
	}
	return d
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
	return s.write(places, func(lo float64) float64 {
		return s.density(slices.DeleteFunc(slices.Clone(tables), func(t *manifest.Table) bool {
			return place(t.Smallest) > lo || place(t.Largest) <= lo
		}))
	})
}

// write returns the tables of a level, as a tableWriter divides keys among them. density returns the bytes per unit of
// the key space from a place to the next one.
func (s *simulation) write(places []float64, density func(lo float64) float64) (outputs []*manifest.Table) {
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
	from, size, most := 0.0, 0.0, float64(s.policy.TableSize)
	since := 0.0 // the last cut at which a table ended
	cut := func(at float64) {
		if size > 0 {
			outputs = append(outputs, s.table(from, at, size))
		}
		since, size = since+size, 0
	}
	for i, lo := range places[:len(places)-1] {
		if since+size >= most/smallPart && slices.Contains(cuts, lo) {
			cut(lo)
			since = 0
		}
		hi := places[i+1]
		d := density(lo)
		for d > 0 && hi-lo > 1e-12 {
			if size == 0 {
				from = lo
			}
			to := min(hi, lo+(most-size)/d)
			size += (to - lo) * d
			if lo = to; size >= most-1 {
				cut(lo)
			}
		}
	}
	cut(end)
	return outputs
}

func (s *simulation) RangeDels(*manifest.Table) rangedel.List { return nil }
func (s *simulation) Outdated(int, *manifest.Table) bool      { return false }

// Stale returns the share of the last level's keys that level 0 has too.
func (s *simulation) Stale() float64 {
	fresh := 1.0
	for _, r := range s.v.Levels[0] {
		if s.keys > 0 {
			fresh *= 1 - min(1, float64(r.Bytes())/(s.keys*pairBytes))
		}
	}
	return 1 - fresh
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

// load puts n pairs.
func (s *simulation) load(n float64) {
	s.t.Helper()
	for left := n; left > 0; {
		pairs := min(left, memtablePairs*(0.95+0.1*s.rng.Float64()))
		left -= pairs
		full := s.now + pairs*s.pace
		for s.end(full, false) {
		}
		for s.now = full; s.policy.Pressure(s.v).Stop && s.end(math.Inf(1), false); {
		}
		s.stopped += s.now - full
		size := pairs * pairBytes
		s.put += size
		if s.keys > 0 {
			size = s.keys * pairBytes * (1 - math.Exp(-pairs/s.keys))
		}
		s.flushed += size
		run := s.write([]float64{0, 1}, func(float64) float64 { return size })
		s.apply(&manifest.Edit{Added: NewRun(run)})
		s.begin(false)
	}
}

// settle carries out all that is due, first as while writers write, then as while nobody does.
func (s *simulation) settle(idle bool) {
	s.t.Helper()
	for s.begin(idle); s.end(math.Inf(1), idle); {
	}
}

// TestWriteAmplificationOfRandomLoads counts the bytes that compactions and flushes write per byte that is put, for
// nine sizes, since one hits or misses a large merge.
func TestWriteAmplificationOfRandomLoads(t *testing.T) {
	policy := Leveled{
		Trigger: 8, Slow: 12, Stop: 16, Ratio: 10, TableSize: 8 << 20, BaseLevelSize: 4 * 10 * 64 << 20,
	}
	for _, c := range []struct {
		name              string
		pairs, keys, pace float64
		loaded, idle      float64 // bytes written per byte put at most, when the load ends and once the tree is at rest
		most, runs, waits float64 // bytes of the tree per byte of its keys, runs at rest, and seconds of waits
	}{
		{"5 million keys", 5e6, 0, 1e-6, 1.95, 2.6, 1.4, 3, 0.1},
		{"20 million keys", 20e6, 0, 1e-6, 3.1, 3.5, 1.4, 4, 1.2},
		{"20 million puts of 5 million keys", 20e6, 5e6, 1e-6, 2.3, 2.5, 2.6, 3, 0.5},
		{"the same in ten times the time", 20e6, 5e6, 1e-5, 2.3, 2.5, 1.8, 3, 0.1},
		{"50 million puts of 10 million keys", 50e6, 10e6, 1e-5, 3.6, 3.7, 1.5, 3, 0.1},
	} {
		var loaded, idle, most, runs, waits float64
		for i := range 9 {
			s := &simulation{
				outline: newOutline(t, policy), workers: 2, keys: c.keys, pace: c.pace,
				rng: rand.New(rand.NewPCG(uint64(i), 0)),
			}
			s.load(c.pairs * (0.8 + 0.05*float64(i)))
			size := s.put
			if c.keys > 0 {
				size = c.keys * pairBytes
			}
			loaded += (s.flushed + s.written) / s.put / 9
			waits = max(waits, s.stopped)
			s.settle(false)
			s.settle(true)
			idle += (s.flushed + s.written) / s.put / 9
			most, runs = max(most, s.most/size), max(runs, float64(s.v.Runs()))
		}
		t.Logf("%s: %.2f loaded, %.2f at rest; at most %.2f of the data, %.0f runs at rest, writers waited %.1f s",
			c.name, loaded, idle, most, runs, waits)
		if loaded > c.loaded || idle > c.idle || most > c.most || runs > c.runs || waits > c.waits {
			t.Errorf("%s: want at most %+v", c.name, c)
		}
	}
}
