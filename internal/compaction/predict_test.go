package compaction

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
)

// predicting returns an env whose inputs have samples and filters.
func (d *disk) predicting(tableSize uint64, snapshots ...ikey.Seq) Env {
	env := d.env(tableSize, snapshots...)
	env.BlockSize = 4 << 10
	d.samples = map[uint64]*sstable.Reader{}
	return env
}

// A series is some of a run's keys, by number: every step-th from lo on, below hi. Multiples of dead are tombstones.
type series struct{ lo, hi, step, dead int }

// run adds a run made of parts, which must have no key in common, to a level.
func (d *disk) run(v *manifest.Version, level int, id uint64, seq ikey.Seq, env Env, in ...series) *manifest.Version {
	d.t.Helper()
	src := &versions{}
	var numbers []int
	dead := map[int]bool{}
	for _, p := range in {
		for i := p.lo; i < p.hi; i += p.step {
			numbers = append(numbers, i)
			if p.dead > 0 && i%p.dead == 0 {
				dead[i] = true
			}
		}
	}
	slices.Sort(numbers)
	value := []byte("twenty bytes of data")
	for _, i := range numbers {
		kind, v := ikey.Set, value
		if dead[i] {
			kind, v = ikey.Delete, nil
		}
		src.keys = append(src.keys, ikey.Key{User: fmt.Appendf(nil, "%09d", i), Trailer: ikey.MakeTrailer(seq, kind)})
		src.values = append(src.values, v)
	}
	res, err := Flush(d.t.Context(), src, nil, env)
	must(d.t, err)
	e := &manifest.Edit{NextFile: 1 << 20}
	for _, m := range res.Tables {
		e.Added = append(e.Added, manifest.Added{Level: level, Run: id, Table: m})
	}
	v, err = v.Apply(e)
	must(d.t, err)
	return v
}

// merge merges all runs of levels 0 and 6.
func (d *disk) merge(v *manifest.Version, in Inputs, env Env) Result {
	d.t.Helper()
	p := &Plan{To: last}
	for _, level := range []int{0, last} {
		for _, r := range v.Levels[level] {
			p.Inputs = append(p.Inputs, Input{level, r.ID, r.Tables})
		}
	}
	res, err := merged(d.t.Context(), v, p, in, env)
	must(d.t, err)
	return res
}

// mustPredict compares the prediction with what was written.
func mustPredict(t *testing.T, res Result) {
	t.Helper()
	var entries, bytes uint64
	for _, m := range res.Tables {
		entries += m.Entries
		bytes += m.Size - m.FilterLen
	}
	p := res.Predicted
	off := p.Keys/float64(res.Keys) - 1
	t.Logf("%d keys in %d tables: predicted %+.2f %% ± %.2f, bytes %+.2f %%",
		res.Keys, len(res.Tables), 100*off, 100*p.Err/float64(res.Keys), 100*(p.Bytes/float64(bytes)-1))
	if !p.Known || math.Abs(off) > 0.03 {
		t.Errorf("predicted %.0f keys ± %.0f, known %v; written %d, want within 3 %%", p.Keys, p.Err, p.Known, res.Keys)
	}
	if off := p.Bytes/float64(bytes) - 1; math.Abs(off) > 0.04 {
		t.Errorf("predicted %.0f bytes, written %d, want within 4 %%", p.Bytes, bytes)
	}
	if entries != res.Keys {
		t.Errorf("%d keys counted, want %d", res.Keys, entries)
	}
}

// TestACompactionIsPredicted merges two runs. The smaller one shares some of its keys with the larger one, spread
// evenly over it. Each of them is the newer one once.
func TestACompactionIsPredicted(t *testing.T) {
	testkit.Long(t)
	for _, c := range []struct{ small, ratio int }{{20_000, 1}, {6000, 10}, {2000, 100}} {
		for _, shared := range []int{0, 10, 50, 100} { // percent of the smaller one
			for _, newer := range []string{"smaller", "larger"} {
				if c.ratio == 1 && newer == "larger" {
					continue
				}
				t.Run(fmt.Sprintf("1 to %d, %d %% shared, the %s newer", c.ratio, shared, newer), func(t *testing.T) {
					d := newDisk(t)
					env := d.predicting(1 << 20)
					large := series{0, 200 * c.small * c.ratio, 200, 0} // multiples of 200
					in, step := c.small*shared/100, 200*c.ratio*100/max(shared, 1)
					small := []series{{0, in * step, step, 0}}
					if out := c.small - in; out > 0 {
						step := 200 * c.ratio * c.small / out / 2 * 2
						small = append(small, series{1, 1 + out*step, step, 0}) // odd numbers
					}
					smallLevel, largeLevel := 0, last
					if newer == "larger" {
						smallLevel, largeLevel = last, 0
					}
					v := d.run(&manifest.Version{}, smallLevel, uint64(20-smallLevel), 9, env, small...)
					v = d.run(v, largeLevel, uint64(20-largeLevel), 9, env, large)
					res := d.merge(v, d, env)
					if want := c.small*c.ratio + c.small - in; res.Keys != uint64(want) {
						t.Fatalf("%d keys were written, want %d", res.Keys, want)
					}
					mustPredict(t, res)
				})
			}
		}
	}
}

// TestACompactionOfManyRunsIsPredicted merges eight runs of random keys with a large one, as compactions of level 0 do.
func TestACompactionOfManyRunsIsPredicted(t *testing.T) {
	testkit.Long(t)
	d := newDisk(t)
	env := d.predicting(256 << 10)
	rng := rand.New(rand.NewPCG(3, 3))
	v := d.run(&manifest.Version{}, last, 1, 1, env, series{0, 400_000, 2, 0})
	for i := range 8 {
		var parts []series
		for _, n := range rng.Perm(400_000)[:20_000] {
			parts = append(parts, series{n, n + 1, 1, 0})
		}
		v = d.run(v, 0, uint64(10+i), ikey.Seq(10+i), env, parts...)
	}
	mustPredict(t, d.merge(v, d, env))
}

func TestTombstonesArePredicted(t *testing.T) {
	testkit.Long(t)
	for _, c := range []struct {
		name      string
		snapshots []ikey.Seq
		want      uint64
	}{
		{"with nothing under them they go, and what they hide", nil, 60_000},
		{"a snapshot keeps them", []ikey.Seq{5}, 80_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDisk(t)
			env := d.predicting(1<<20, c.snapshots...)
			v := d.run(&manifest.Version{}, last, 1, 1, env, series{0, 160_000, 2, 0})
			v = d.run(v, 0, 2, 9, env, series{0, 160_000, 4, 8})
			p := &Plan{To: last, Inputs: []Input{{0, 2, v.Levels[0][0].Tables}, {last, 1, v.Levels[last][0].Tables}}}
			res, err := merged(t.Context(), v, p, d, env)
			must(t, err)
			if off := res.Predicted.Keys/float64(c.want) - 1; res.Keys != c.want || math.Abs(off) > 0.03 {
				t.Errorf("predicted %.0f of %d keys, want %d", res.Predicted.Keys, res.Keys, c.want)
			}
		})
	}
	d := newDisk(t)
	env := d.predicting(1 << 20)
	v := d.run(&manifest.Version{}, last, 1, 1, env, series{0, 160_000, 2, 0})
	v = d.run(v, 0, 2, 9, env, series{0, 160_000, 4, 8})
	p := &Plan{To: 5, Inputs: []Input{{0, 2, v.Levels[0][0].Tables}}}
	if res, err := merged(t.Context(), v, p, d, env); err != nil || res.Keys != 40_000 || res.Predicted.Keys != 40_000 {
		t.Errorf("above keys they may hide: predicted %+v, written %d, want exactly 40,000; %v",
			res.Predicted, res.Keys, err)
	}
}

type withoutSamples struct{ *disk }

func (withoutSamples) Sample(*manifest.Table) *bloomblock.Sample { return nil }

type withoutFilters struct{ *disk }

func (withoutFilters) Filter(*manifest.Table) *bloomblock.Filter { return nil }

func TestWhatIsNotKnownIsNotPredicted(t *testing.T) {
	for name, in := range map[string]func(*disk) Inputs{
		"no samples": func(d *disk) Inputs { return withoutSamples{d} },
		"no filters": func(d *disk) Inputs { return withoutFilters{d} },
	} {
		d := newDisk(t)
		env := d.predicting(1 << 20)
		v := d.run(&manifest.Version{}, last, 1, 1, env, series{0, 2000, 1, 0})
		v = d.run(v, 0, 2, 2, env, series{1000, 3000, 1, 0})
		if res := d.merge(v, in(d), env); res.Predicted != (Prediction{}) || res.Keys != 3000 {
			t.Errorf("%s: predicted %+v of %d keys, want nothing", name, res.Predicted, res.Keys)
		}
	}
	d := newDisk(t)
	v := d.level(d.level(&manifest.Version{}, last, 1, "a@1=a b@1=b"), 0, 2, "b@2=b c~d@2")
	if res := d.merge(v, d, d.predicting(1<<20)); res.Predicted != (Prediction{}) || res.Keys != 2 {
		t.Errorf("a range tombstone: predicted %+v of %d keys, want nothing", res.Predicted, res.Keys)
	}
}

// A spacious file system has a number of free bytes.
type spacious struct {
	vfs.FS
	free uint64
}

func (s spacious) FreeSpace(string) (uint64, error) { return s.free, nil }

func TestACompactionThatDoesNotFitIsNotBegun(t *testing.T) {
	d := newDisk(t)
	env := d.predicting(1 << 20)
	v := d.run(&manifest.Version{}, last, 1, 1, env, series{0, 20_000, 1, 0})
	v = d.run(v, 0, 2, 2, env, series{10_000, 30_000, 1, 0})
	full := env.FS
	free := func(bytes uint64) { env.FS = spacious{full, bytes} }
	free(0)
	p := &Plan{To: last, Inputs: []Input{{0, 2, v.Levels[0][0].Tables}, {last, 1, v.Levels[last][0].Tables}}}
	next := d.next
	res, err := merged(t.Context(), v, p, d, env)
	if !errors.Is(err, vfs.ErrNoSpace) || len(res.Tables) > 0 || d.next != next {
		t.Errorf("%+v, %v; want nothing but the error", res, err)
	}
	env.FS = full // which does not say what is free
	res, err = merged(t.Context(), v, p, d, env)
	must(t, err)
	var written uint64
	for _, m := range res.Tables {
		written += m.Size
	}
	free(written)
	if _, err := merged(t.Context(), v, p, d, env); err != nil {
		t.Errorf("%d bytes are free and as many will be written: %v", written, err)
	}
	few := written*9/10 - 1
	free(few)
	if _, err := merged(t.Context(), v, p, d, env); !errors.Is(err, vfs.ErrNoSpace) {
		t.Errorf("%d bytes are free and %d will be written: %v, want %v", few, written, err, vfs.ErrNoSpace)
	}
	free(0)
	env.Recodes = true
	if _, err := merged(t.Context(), v, p, d, env); err != nil {
		t.Errorf("with a codec that may make less of it: %v", err)
	}
}

// TestOutputsAreEquallyLarge merges inputs that would leave a small last table if all others had the largest size; so
// would each half of them.
func TestOutputsAreEquallyLarge(t *testing.T) {
	testkit.Long(t)
	d := newDisk(t)
	env := d.predicting(64 << 10)
	v := d.run(&manifest.Version{}, last, 1, 1, env, series{0, 100_000, 1, 0})
	v = d.run(v, 0, 2, 2, env, series{0, 110_000, 2, 0})
	var all, inputs uint64
	for _, m := range v.Levels[last][0].Tables {
		all += m.Size - m.FilterLen - 8*m.Entries // the sequence number, which is not written
	}
	for _, m := range v.Tables() {
		inputs += m.Size
	}
	all += all / 20 // five thousand keys are not in it
	for parts, c := range map[uint64]struct {
		percent uint64
		tables  int
		even    float64
	}{1: {415, 5, 0.75}, 2: {900, 10, 0.5}} {
		env.TableSize = all * 100 / c.percent // each part has four full tables, and a rest
		env.PartSize = inputs / parts * 9 / 10
		res := d.merge(v, d, env)
		if len(res.Tables) != c.tables {
			t.Fatalf("%d tables of %d parts, want %d", len(res.Tables), parts, c.tables)
		}
		low, high := res.Tables[0].Size, res.Tables[0].Size
		for _, m := range res.Tables {
			low, high = min(low, m.Size), max(high, m.Size)
		}
		if float64(low) < c.even*float64(high) {
			t.Errorf("outputs of %d to %d bytes of %d parts, want about the same", low, high, parts)
		}
	}
	for _, c := range []struct {
		p    Prediction
		want uint64
	}{
		{Prediction{Keys: 10, Bytes: 500}, 100},
		{Prediction{Known: true, Keys: 10, Bytes: 99}, 100},
		{Prediction{Known: true, Keys: 10, Bytes: 101}, 51},
		{Prediction{Known: true, Keys: 100, Err: 1, Bytes: 150}, 77},
		{Prediction{Known: true, Keys: 100, Err: 90, Bytes: 101}, 64},
		{Prediction{Known: true, Keys: 100, Err: 1, Bytes: 200}, 100},
		{Prediction{Known: true}, 100},
	} {
		if got := c.p.tableSize(100); got != c.want {
			t.Errorf("%+v: tables of %d bytes, want %d", c.p, got, c.want)
		}
	}
}

// TestTombstonesThatStayArePredicted merges a run with tombstones of half its keys, which a snapshot may still need.
func TestTombstonesThatStayArePredicted(t *testing.T) {
	for snapshot, want := range map[ikey.Seq]int{0: 2000, 4: 4000, 5: 2000} {
		d := newDisk(t)
		env := d.predicting(1 << 20)
		v := d.run(&manifest.Version{}, 0, 20, 5, env, series{0, 4000, 1, 2})
		if snapshot > 0 {
			env.Snapshots = []ikey.Seq{snapshot}
		}
		res := d.merge(v, d, env)
		if got := res.Predicted.Keys; math.Abs(got/float64(want)-1) > 0.03 {
			t.Errorf("a snapshot at %d, tombstones of sequence 5: predicted %.0f keys, want %d", snapshot, got, want)
		}
		written := float64(res.Tables[0].Size - res.Tables[0].FilterLen)
		if share := res.Predicted.Bytes / written; share < 0.6 || share > 1.05 { // tombstones are shorter
			t.Errorf("a snapshot at %d: predicted %.2f of what is written", snapshot, share)
		}
	}
}

func TestNothingIsPredictedOfRangeTombstones(t *testing.T) {
	d := newDisk(t)
	v := d.run(&manifest.Version{}, 0, 20, 5, d.predicting(1<<20), series{0, 4000, 1, 0})
	if p := Predict(v, d); !p.Known || math.Abs(p.Keys/4000-1) > 0.03 {
		t.Errorf("predicted %+v, want 4000 keys", p)
	}
	m := v.Levels[0][0].Tables[0]
	m.MinSeq, m.MaxSeq = 0, 0 // then its sequence numbers take nothing that a merge would save
	if p, want := Predict(v, d), float64(m.Size-m.FilterLen); math.Abs(p.Bytes-want) > 1 {
		t.Errorf("predicted %.0f bytes, want %.0f", p.Bytes, want)
	}
	m.RangeDeletes = 1
	if p := Predict(v, d); p.Known {
		t.Errorf("predicted %+v of a table with a range tombstone, want nothing", p)
	}
}

// TestStaleKeysOfTheOldestRunAreEstimated overwrites and deletes keys in two runs of level 0 and one of level 3. New
// keys in them count for nothing.
func TestStaleKeysOfTheOldestRunAreEstimated(t *testing.T) {
	testkit.Long(t)
	d := newDisk(t)
	env := d.predicting(64 << 10)
	v := d.run(&manifest.Version{}, last, 1, 1, env, series{0, 200_000, 2, 0})
	if got := Stale(v, d); got != 0 {
		t.Errorf("below nothing newer %v are stale, want 0", got)
	}
	if got := Stale(new(manifest.Version), d); got != 0 {
		t.Errorf("of nothing %v are stale, want 0", got)
	}
	v = d.run(v, 3, 5, 5, env, series{0, 200_000, 20, 0})                             // a tenth
	v = d.run(v, 0, 10, 10, env, series{0, 200_000, 20, 0}, series{1, 50_000, 10, 0}) // the same
	v = d.run(v, 0, 11, 11, env, series{10, 200_000, 20, 3})                          // another tenth, some deleted
	if got := Stale(v, d); math.Abs(got-0.2) > 0.02 {
		t.Errorf("%.3f of the keys are stale, want 0.2", got)
	}
	e := &manifest.Edit{NextFile: 1 << 20}
	for _, m := range v.Levels[last][0].Tables {
		e.Deleted = append(e.Deleted, manifest.Deleted{Level: last, Number: m.Number})
	}
	newer, err := v.Apply(e)
	must(t, err)
	if got := Stale(newer, d); math.Abs(got-1) > 0.02 {
		t.Errorf("without the last level %.3f of the keys are stale, want 1", got)
	}
	d.samples = nil
	if got := Stale(v, d); got != 0 {
		t.Errorf("without samples %v are stale, want 0", got)
	}
}
