package read

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/digest"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

var must = testkit.Must

const seed = bloomblock.Seed(7)

// failing returns a function that must not be called.
func failing(t *testing.T, what string) func(error) {
	t.Helper()
	return func(err error) { t.Errorf("%s: %v", what, err) }
}

func newReader(t *testing.T) *Reader {
	t.Helper()
	r, _ := newReaderIn(t)
	return r
}

// newReaderIn returns a reader of an empty tree in a directory of an in-memory file system.
func newReaderIn(t *testing.T) (*Reader, vfs.FS) {
	t.Helper()
	mem, domain := vfstest.NewMem(), new(epoch.Domain)
	must(t, mem.Mkdir("db"))
	living := tree.New(tree.Config{
		FS: mem, Dir: "db", Failed: failing(t, "read-only"), Filters: manifest.Filters{FPR: 0.2, Ratio: 10},
		Shared: tree.Shared{
			Domain: domain, Files: tablefile.NewPool(8).NewDir(mem, "db", domain), Blocks: cache.New(1<<20, domain),
			Parts: sstable.NewPartPool(1 << 20),
		},
	})
	must(t, living.Create(1, uint64(seed)))
	living.Begin(living.FirstState(nil, 1<<16), 0)
	r := new(Reader)
	r.Init(Config{Tree: living, Tables: noTables{}, Seed: seed, Damaged: failing(t, "damage")})
	return r, mem
}

// noTables are the tables of a reader that has only memtables.
type noTables struct{ Tables }

func (noTables) Count(int64) {}

// A seek past one end of the range, after a move that failed, is not an error.
func TestASeekBehindTheRangeForgetsAnError(t *testing.T) {
	r := newReader(t)
	c, err := r.Open([]byte("k"), []byte("m"), false, Newest, nil)
	must(t, err)
	for _, seek := range []func() bool{
		func() bool { return c.SeekGE([]byte("z")) },
		func() bool { return c.SeekLT([]byte("a")) },
	} {
		c.at, c.err = broken, errors.New("damage")
		if seek() || c.Err() != nil {
			t.Errorf("error %v, want nil", c.Err())
		}
	}
	c.Close()
}

// TestAStemIsTheStartOfAllKeysWithinItsBounds checks all bounds of few bytes, and all keys of few bytes between them.
func TestAStemIsTheStartOfAllKeysWithinItsBounds(t *testing.T) {
	keys := [][]byte{{}}
	for i := 0; len(keys[i]) < 4; i++ {
		for _, c := range []byte{0, 1, 0xfe, 0xff} {
			keys = append(keys, append(slices.Clone(keys[i]), c))
		}
	}
	slices.SortFunc(keys, bytes.Compare)
	bounds := slices.DeleteFunc(slices.Clone(keys), func(k []byte) bool { return len(k) > 3 })
	for _, lower := range bounds {
		from, _ := slices.BinarySearchFunc(keys, lower, bytes.Compare)
		for _, upper := range append(slices.Clone(bounds), nil) {
			s := stem(lower, upper)
			for _, k := range keys[from:] {
				if upper != nil && bytes.Compare(k, upper) >= 0 {
					break
				}
				if !bytes.HasPrefix(k, s) {
					t.Fatalf("keys from %x to %x: stem %x, and there is %x", lower, upper, s, k)
				}
			}
		}
		if s := stem(lower, ikey.AfterPrefix(lower)); !bytes.Equal(s, lower) {
			t.Errorf("all keys that start with %x: stem %x", lower, s)
		}
	}
	for _, tt := range []struct{ lower, upper, want string }{
		{"user/17/a", "user/17/b\x00", "user/17/"},
		{"user/17/", "user/170", "user/17/"},
		{"user/17/", "user/18", "user/17"},
		{"user/17/", "user/19", "user/1"},
		{"user/17/a", "user/17/a/x", "user/17/a"},
		{"b", "a", ""},
		{"ab", "a", "a"},
	} {
		if s := stem([]byte(tt.lower), []byte(tt.upper)); string(s) != tt.want {
			t.Errorf("keys from %q to %q: stem %q, want %q", tt.lower, tt.upper, s, tt.want)
		}
	}
}

// TestFirstLookupsOfACounterAreInTheSampleToo checks the first lookups of each counter: there are thousands of
// counters, and goroutines with few lookups each use different ones.
func TestFirstLookupsOfACounterAreInTheSampleToo(t *testing.T) {
	r := &Reader{SamplingBits: samplingBits}
	sampled, lookups := 0, 0
	for n := range uint64(200) {
		for stripe := range numStripes {
			lookups++
			if r.firstSampled(firstNumber(stripe)+n+1) == 0 {
				sampled++
			}
		}
		if want := float64(lookups) / 64; n >= 9 && math.Abs(float64(sampled)-want) > 3*math.Sqrt(want) {
			t.Fatalf("of the first %d lookups of each counter %d are in the sample, want %.0f", n+1, sampled, want)
		}
	}
}

// TestPeriodicLookupsAreSampledAsOthersAre has periods that are near to those of multiples of the sample's constants.
func TestPeriodicLookupsAreSampledAsOthersAre(t *testing.T) {
	r := &Reader{SamplingBits: samplingBits}
	for _, period := range []uint64{1, 3951, 7048, 10999, 76139, 1493734} {
		sampled := 0
		for n := range uint64(6400) {
			if r.firstSampled(1+n*period) == 0 {
				sampled++
			}
		}
		if sampled < 70 || sampled > 130 {
			t.Errorf("each %d. lookup: %d of 6400 are in the sample, want 100", period, sampled)
		}
	}
}

// addRange adds a range tombstone to a memtable.
func addRange(m *memtable.Table, start, end []byte, seq ikey.Seq) {
	m.AddOps(seq, []memtable.Op{{Seq: seq, Kind: ikey.RangeDelete, Key: start, Value: end}})
}

// writeRun writes keys, and a range delete of [from, to) if it is not empty, to tables of a new run of level 0.
func writeRun(t *testing.T, r *Reader, fsys vfs.FS, keys []int, from, to int) *tree.Run {
	t.Helper()
	m := memtable.New(nil, 0, 1<<20)
	for i, k := range keys {
		m.Add(key(k), r.Hash(key(k)).Mixed, ikey.Seq(i+1), ikey.Set, []byte("0123456789"))
	}
	last := ikey.Seq(len(keys) + 1)
	var dels rangedel.List
	if from < to {
		addRange(m, key(from), key(to), last)
		dels = m.RangeDels().List(nil)
	}
	m.Freeze()
	params, err := bloomblock.ParamsFor(0.2)
	must(t, err)
	res, err := compaction.Flush(t.Context(), m.Flush(), dels, compaction.Env{
		FS: fsys, Dir: "db", Numbers: r.Tree, TableSize: 4 << 10, BlockSize: 512, Filter: params, Seed: seed,
	})
	must(t, err)
	var tables []*tree.Table
	for _, meta := range res.Tables {
		table := r.Tree.NewTable(meta)
		must(t, table.Reader.Load(0))
		tables = append(tables, table)
	}
	return tree.NewRun(0, res.Tables[0].Number, tables)
}

func key(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }

// TestManyKeysHaveTheCandidatesOfEachAlone queries the fences and filters of trees of one run to dozens, with and
// without range tombstones, for keys together and one by one: the tables to be searched and the counts are the same.
func TestManyKeysHaveTheCandidatesOfEachAlone(t *testing.T) {
	testkit.Long(t)
	for _, ranges := range []bool{false, true} {
		r, fsys := newReaderIn(t)
		var whole []*tree.Run // newest first
		for round := range 5 {
			var keys []int
			for i := range 1500 {
				keys = append(keys, (i*7919+round*100)%4000*2)
			}
			from, to := 0, 0
			if ranges && round%2 == 1 {
				from, to = round*1000, round*1000+700
			}
			whole = append([]*tree.Run{writeRun(t, r, fsys, keys, from, to)}, whole...)
		}
		// One table is not loaded: neither its filter nor its range tombstones can be queried.
		last := whole[len(whole)-1]
		tables := slices.Clone(last.Tables)
		tables[len(tables)/2] = r.Tree.NewTable(tables[len(tables)/2].Meta)
		whole[len(whole)-1] = tree.NewRun(last.Level, last.ID, tables)
		var walked, counted runCounts
		for _, times := range []int{1, 2, 7, 20} {
			s := &tree.State{Mem: r.Tree.Load().Mem, Runs: slices.Repeat(whole, times)}
			for first := 0; first < 8000; first += 61 {
				n := 1 + first%manyKeys
				var keys [][]byte
				below := uint64(0)
				m := new(manyLookup)
				for i := range n {
					keys = append(keys, key(first+i*37))
					m.hashes[i] = r.Hash(keys[i])
					if (first+i)%5 > 0 {
						below |= 1 << i
					}
				}
				m.findCandidates(s, keys, ikey.MaxSeq, below)
				cost, sampled := lookupCost{}, lookupCost{sample: 3}
				for i, k := range keys {
					var want []candidate
					if below>>i&1 != 0 {
						want = candidatesIn(s, nil, k, m.hashes[i], ikey.MaxSeq, &cost)
						candidatesIn(s, nil, k, m.hashes[i], ikey.MaxSeq, &sampled)
						walked.add(s, k, m.hashes[i].Hash)
					}
					if got := m.candidates[m.keys[i].next:m.keys[i].last]; !slices.Equal(got, want) {
						t.Fatalf("%d runs, key %q: candidates %v, alone %v", len(s.Runs), k, got, want)
					}
				}
				if !reflect.DeepEqual(m.cost, cost) {
					t.Fatalf("%d runs, %d keys from %d on: cost %+v, one by one %+v",
						len(s.Runs), n, first, m.cost, cost)
				}
				counted.inRange += cost.inRange
				counted.probes += cost.probes
				counted.negatives += cost.probes - cost.passed
			}
		}
		if walked != counted || walked.negatives == 0 {
			t.Errorf("range tombstones %v: counted %+v, want %+v", ranges, counted, walked)
		}
		sampled := uint64(0)
		for _, r := range whole {
			for _, table := range r.Tables {
				sampled += table.Negatives.Load()
			}
		}
		if want := 3 * walked.negatives; sampled != want {
			t.Errorf("range tombstones %v: the tables have %d negatives, want %d", ranges, sampled, want)
		}
	}
}

// runCounts are the numbers of runs in range, filters queried and their negatives.
type runCounts struct{ inRange, probes, negatives uint64 }

// add asks one run after the other, up to a range tombstone over the key.
func (c *runCounts) add(s *tree.State, key []byte, h bloomblock.Hash) {
	for _, r := range s.Runs {
		i := r.Find(key)
		if i < 0 {
			continue
		}
		maybe, probed := r.Readers[i].Keys.MayContain(h)
		c.inRange++
		c.probes += uint64(bit(probed))
		c.negatives += uint64(bit(probed && !maybe))
		if r.Readers[i].RangeDels().Covering(key, ikey.MaxSeq) > 0 {
			return
		}
	}
}

func TestATraceOfAnAbsentKeyHasNoValue(t *testing.T) {
	r := newReader(t)
	if v, trace, err := r.GetTraced([]byte("k")); v != nil || !errors.Is(err, ErrNotFound) || trace.Gets != 1 {
		t.Errorf("%q, %+v, %v; want no value", v, trace, err)
	}
}

func TestLargeCopiesAreNotKept(t *testing.T) {
	for size, want := range map[int]int{keepCopy: keepCopy, keepCopy + 1: 0} {
		m := &manyLookup{size: 1, copies: make([]byte, 10, size), searches: []sstable.Lookup{{Key: key(1)}}}
		m.candidates = []candidate{{table: new(tree.Table)}}
		if m.end(); cap(m.copies) != want || len(m.copies) != 0 {
			t.Errorf("of %d bytes %d are kept, want %d", size, cap(m.copies), want)
		}
		if m.searches[0].Key != nil || m.candidates[0].table != nil {
			t.Error("a search is kept")
		}
	}
}

func TestPrefixesAreCountedWhetherTheyWereAskedOrNot(t *testing.T) {
	var c prefixCounts
	for _, p := range []PrefixCounts{{}, {Probes: 1, Unasked: 1}, {Probes: 2, Negatives: 1}, {Unasked: 3}} {
		c.add(&p)
	}
	if p, n, u := c.probes.Load(), c.negatives.Load(), c.unasked.Load(); p != 3 || n != 1 || u != 4 {
		t.Errorf("%d probes, %d negatives, %d unasked, want 3, 1, 4", p, n, u)
	}
}

// noFilters are tables whose filters cannot be read, for a reason or for none.
type noFilters struct {
	noTables

	err error
}

func (n noFilters) LoadTail(*tree.Table) (loads, bytes uint64, err error) { return 0, 0, n.err }
func (n noFilters) LoadPrefixes(*tree.Table) error                        { return n.err }
func (n noFilters) Load(*tree.Table) error                                { return n.err }
func (n noFilters) CopyFilter(*tree.Table, float64) (f sstable.FilterCopy, err error) {
	return f, n.err
}

func TestATableThatCannotBeLoadedIsAnError(t *testing.T) {
	r, fsys := newReaderIn(t)
	run := writeRun(t, r, fsys, []int{1, 2, 3}, 0, 0)
	e := &manifest.Edit{LastSeq: 3, Added: []manifest.Added{{Run: run.ID, Table: run.Tables[0].Meta}}}
	_, s, _, err := r.Tree.Install(e, []*tree.Table{r.Tree.NewTable(run.Tables[0].Meta)}, tree.Change{})
	must(t, err)
	plan := new(filterplan.Plan)
	r.Tables = noFilters{err: syscall.EIO}
	prefixed := &runCursor{reader: r, run: s.Runs[0], to: 1, prefix: &prefixProbe{asking: true}}
	if _, err := prefixed.Open(0); !errors.Is(err, syscall.EIO) {
		t.Errorf("a prefix filter that cannot be read: %v, want %v", err, syscall.EIO)
	}
	_, get := r.Get(key(1), Newest)
	many := r.GetMany([][]byte{key(1), key(2)}, AsOf{Held: s}, func(int, []byte, bool) error { return nil })
	_, whole := r.Digest(t.Context(), plan)
	_, from := r.ApproximateSize(key(2), nil)
	_, to := r.ApproximateSize(nil, key(2))
	now := tree.Moment{State: s, Seq: 3}
	_, same := r.SameKey(key(1), now, now)
	_, all := r.SameRange(nil, nil, now, now)
	for what, err := range map[string]error{
		"Get": get, "GetMany": many, "Digest": whole, "ApproximateSize from a key on": from,
		"ApproximateSize up to a key": to, "SameKey": same, "SameRange": all,
	} {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s returns %v, want %v", what, err, syscall.EIO)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.Tables = noFilters{}
	if _, err := r.Digest(ctx, plan); !errors.Is(err, context.Canceled) {
		t.Errorf("Digest returns %v, want that it was canceled", err)
	}
}

func TestReadsAfterTheEndOfATreeAreRefused(t *testing.T) {
	r := newReader(t)
	r.Tree.End()
	params, err := bloomblock.ParamsFor(0.1)
	must(t, err)
	for what, f := range map[string]func() error{
		"Get":             func() error { _, err := r.Get(key(1), Newest); return err },
		"Has":             func() error { _, err := r.Has(key(1), Newest); return err },
		"View":            func() error { return r.View(key(1), Newest, nil) },
		"GetTraced":       func() error { _, _, err := r.GetTraced(key(1)); return err },
		"GetMany":         func() error { return r.GetMany([][]byte{key(1)}, Newest, nil) },
		"Open":            func() error { _, err := r.Open(nil, nil, false, Newest, nil); return err },
		"ApproximateSize": func() error { _, err := r.ApproximateSize(nil, nil); return err },
		"Digest":          func() error { _, err := r.Digest(t.Context(), new(filterplan.Plan)); return err },
		"Rebuild":         func() error { _, err := r.Rebuild(t.Context(), params, nil); return err },
		"SameKey":         func() error { _, err := r.SameKey(key(1), tree.Moment{}, tree.Moment{}); return err },
		"SameRange":       func() error { _, err := r.SameRange(nil, nil, tree.Moment{}, tree.Moment{}); return err },
		"any read":        func() error { return r.failed(syscall.EIO) },
	} {
		if err := f(); !errors.Is(err, tree.ErrClosed) {
			t.Errorf("%s returns %v, want ErrClosed", what, err)
		}
	}
	if !r.MayContain(key(1)) {
		t.Error("a key is excluded")
	}
}

func TestAReadAsOfASnapshotThatIsClosedIsRefused(t *testing.T) {
	r := newReader(t)
	p, err := r.Tree.Pin()
	must(t, err)
	must(t, r.Tree.Unpin(p))
	at := AsOf{Seq: p.Seq, Pin: p}
	_, get := r.Get(key(1), at)
	_, open := r.Open(nil, nil, false, at, nil)
	for what, err := range map[string]error{"Get": get, "Open": open, "GetMany": r.GetMany([][]byte{key(1)}, at, nil)} {
		if !errors.Is(err, tree.ErrClosed) {
			t.Errorf("%s returns %v, want ErrClosed", what, err)
		}
	}
	mem := r.Tree.Load().Mem
	mem.Hold()
	if r.Tree.End(); !mem.Release() {
		t.Error("the state is held")
	}
}

// TestDeadKeysOfAFlushedMemtableMayHaveBeenWritten asks about keys behind the moment of a cursor.
func TestDeadKeysOfAFlushedMemtableMayHaveBeenWritten(t *testing.T) {
	r := newReader(t)
	c, err := r.Open(nil, nil, false, Newest, nil)
	must(t, err)
	expect := func(when string, want bool) {
		t.Helper()
		if got := c.written(key(3), key(7)); got != want {
			t.Errorf("%s: written is %v, want %v", when, got, want)
		}
	}
	put := func(i int, seq ikey.Seq) {
		r.Tree.Load().Mem.Add(key(i), r.Hash(key(i)).Mixed, seq, ikey.Set, nil)
	}
	put(2, 1)
	put(7, 2)
	expect("a key on each side was written", false)
	put(3, 3)
	expect("the first key was written", true)
	c.dead.view.Seq = 3
	expect("the first key was written before", false)
	r.Tree.Freeze(nil, 3, batch.Mark{}, 1<<16)
	expect("the memtable waits for a flush", false)
	put(6, 4)
	expect("the last key was written to another one", true)
	c.dead.view.Seq = 4
	_, _, _, err = r.Tree.Install(&manifest.Edit{LastSeq: 3}, nil, tree.Change{Flushed: true})
	must(t, err)
	expect("the memtable was flushed", true)
	r.Tree.End()
	expect("the tree has ended", true)
	c.Close()
}

func TestLookupsThatAMemtableAnswersAreItsHits(t *testing.T) {
	r := newReader(t)
	r.Tree.Load().Mem.Add(key(1), r.Hash(key(1)).Mixed, 1, ikey.Set, nil)
	r.Tree.Publish(1)
	must(t, r.GetMany([][]byte{key(1), key(2)}, Newest, func(int, []byte, bool) error { return nil }))
	_, err := r.Get(key(1), Newest)
	must(t, err)
	if n := r.Lookups(); n.Gets != 3 || n.MemtableHits != 2 {
		t.Errorf("of %d lookups %d are answered by a memtable, want 2 of 3", n.Gets, n.MemtableHits)
	}
}

// loadable are tables that can be loaded, but not at first.
type loadable struct {
	noTables

	first error
}

func (l *loadable) Load(t *tree.Table) error {
	if err := l.first; err != nil {
		l.first = nil
		return err
	}
	return t.Reader.Load(0)
}

func TestACursorFailsWithoutTheTombstonesOfItsOnlyRun(t *testing.T) {
	r, fsys := newReaderIn(t)
	meta := writeRun(t, r, fsys, []int{1, 2, 3}, 2, 3).Tables[0].Meta
	s := &tree.State{Mem: r.Tree.Load().Mem, Runs: []*tree.Run{tree.NewRun(0, 1, []*tree.Table{r.Tree.NewTable(meta)})}}
	s.Hold()
	r.Tree.Publish(4)
	r.Tables = &loadable{first: syscall.EIO}
	c, err := r.Open(nil, nil, false, AsOf{Seq: ikey.MaxSeq, Held: s}, nil)
	must(t, err)
	if c.SeekGE(key(1)) || !errors.Is(c.Err(), syscall.EIO) {
		t.Errorf("at %q, error %v; want that the tombstones cannot be read", c.Key(), c.Err())
	}
	if !c.SeekGE(key(1)) || c.Err() != nil {
		t.Errorf("at the second attempt: %v", c.Err())
	}
	c.Close()
}

func TestAMemtableHasAFilterInADigest(t *testing.T) {
	r := newReader(t)
	mem := r.Tree.Load().Mem
	for i := range 100 {
		mem.Add(key(i), r.Hash(key(i)).Mixed, ikey.Seq(i+1), ikey.Set, nil)
	}
	for rate, units := range map[float64]bool{0.01: true, 1: false} {
		p, err := r.memtablePart(t.Context(), mem, 100, rate)
		must(t, err)
		bounds := bytes.Equal(p.Lo, key(0)) && bytes.Equal(p.Hi, key(99))
		if len(p.Units) > 0 != units || p.Keys != 100 || !bounds {
			t.Errorf("rate %v: %d units, %d keys from %s to %s", rate, len(p.Units), p.Keys, p.Lo, p.Hi)
		}
	}
}

// TestAMemtableInADigestHasTheBoundsOfItsTombstonesToo has at most one key and one range tombstone.
func TestAMemtableInADigestHasTheBoundsOfItsTombstonesToo(t *testing.T) {
	for _, c := range []struct{ key, start, end, want string }{
		{"", "", "", ""},
		{"k", "", "", "[k, k]"},
		{"", "c", "e", "[c, e)"},
		{"k", "c", "e", "[c, k]"},
		{"k", "m", "o", "[k, o)"},
		{"k", "c", "o", "[c, o)"},
		{"k", "k", "∞", "[k, ∞)"},
		{"", "c", "∞", "[c, ∞)"},
	} {
		r := newReader(t)
		mem := r.Tree.Load().Mem
		if c.key != "" {
			mem.Add([]byte(c.key), r.Hash([]byte(c.key)).Mixed, 1, ikey.Set, nil)
		}
		switch {
		case c.end == "∞":
			addRange(mem, []byte(c.start), nil, 2)
		case c.end != "":
			addRange(mem, []byte(c.start), []byte(c.end), 2)
		}
		p, err := r.memtablePart(t.Context(), mem, 2, 0.1)
		must(t, err)
		got := ""
		switch {
		case p != nil && p.Hi == nil:
			got = fmt.Sprintf("[%s, ∞)", p.Lo)
		case p != nil && p.Exclusive:
			got = fmt.Sprintf("[%s, %s)", p.Lo, p.Hi)
		case p != nil:
			got = fmt.Sprintf("[%s, %s]", p.Lo, p.Hi)
		}
		if got != c.want || p != nil && (len(p.Units) > 0 != (c.key != "") || p.Hi == nil && p.Exclusive) {
			t.Errorf("key %q, deleted from %q to %q: %s, want %s", c.key, c.start, c.end, got, c.want)
		}
	}
}

// TestADigestKnowsATableAgainIfItHasTheSameTombstones has the sequence of the tombstone, and the one before.
func TestADigestKnowsATableAgainIfItHasTheSameTombstones(t *testing.T) {
	r, fsys := newReaderIn(t)
	r.Tables = noFilters{}
	table := writeRun(t, r, fsys, []int{1, 2, 3}, 2, 3).Tables[0]
	for seq, want := range map[ikey.Seq]uint64{3: 0, 4: table.Meta.ID} {
		p, err := r.tablePart(table, seq, 1)
		must(t, err)
		if p.ID != want || len(p.Deleted) != int(seq)-3 {
			t.Errorf("at %d: id %x, want %x; deleted are %v", seq, p.ID, want, p.Deleted)
		}
		if _, err := r.newDigest([][]*digest.Part{{p, p}}, batch.Mark{}); err == nil {
			t.Error("a digest has a part twice")
		}
	}
}

func TestADigestOfNothingIsMadeUnlessItIsCanceled(t *testing.T) {
	r := newReader(t)
	params, err := bloomblock.ParamsFor(0.1)
	must(t, err)
	r.Tree.Load().Mem.Add(key(1), r.Hash(key(1)).Mixed, 1, ikey.Delete, nil)
	r.Tree.Publish(1)
	for _, canceled := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		if canceled {
			cancel()
		}
		whole, first := r.Digest(ctx, new(filterplan.Plan))
		rebuilt, second := r.Rebuild(ctx, params, nil)
		if errors.Is(first, context.Canceled) != canceled || errors.Is(second, context.Canceled) != canceled {
			t.Errorf("canceled %v: %v and %v", canceled, first, second)
		}
		if !canceled && len(whole.Runs())+len(rebuilt.Runs()) > 0 {
			t.Errorf("runs %v and %v, want none", whole.Runs(), rebuilt.Runs())
		}
		cancel()
	}
}

// TestRangesOfADigestAreTheUnionOfTombstones has tombstones that touch, overlap, or have no end.
func TestRangesOfADigestAreTheUnionOfTombstones(t *testing.T) {
	del := func(start, end string, seqs ...ikey.Seq) rangedel.Fragment {
		f := rangedel.Fragment{Start: []byte(start), Seqs: seqs}
		if end != "" {
			f.End = []byte(end)
		}
		return f
	}
	for _, tt := range []struct {
		dels rangedel.List
		want string
	}{
		{nil, ""},
		{rangedel.List{del("a", "c", 5)}, "a-c "},
		{rangedel.List{del("a", "c", 11)}, ""}, // newer than the reader
		{rangedel.List{del("a", "c", 3, 11)}, "a-c "},
		{rangedel.List{del("a", "c", 5), del("c", "e", 3)}, "a-e "},
		{rangedel.List{del("a", "c", 5), del("d", "e", 3)}, "a-c d-e "},
		{rangedel.List{del("a", "f", 5), del("b", "d", 3)}, "a-f "},
		{rangedel.List{del("a", "c", 5), del("b", "", 3)}, "a- "},
		{rangedel.List{del("a", "", 5), del("b", "d", 3), del("e", "f", 3)}, "a- "},
	} {
		var got strings.Builder
		for _, r := range deleted(tt.dels, 10) {
			fmt.Fprintf(&got, "%s-%s ", r.Start, r.End)
		}
		if got.String() != tt.want {
			t.Errorf("%v: ranges %q, want %q", tt.dels, &got, tt.want)
		}
	}
}

// Quadratic time would be minutes.
func TestManyRangesThatOverlapAreOneOfADigest(t *testing.T) {
	const n = 200_000
	var l rangedel.List
	for i := range n {
		l = append(l, rangedel.Fragment{Start: fmt.Appendf(nil, "%06d", i), Seqs: []ikey.Seq{5}})
	}
	if got := deleted(l, 10); len(got) != 1 || string(got[0].Start) != "000000" || got[0].End != nil {
		t.Errorf("%d ranges, want one without end", len(got))
	}
}

func TestAReadOfAHeldStateLetsThePresentOneGo(t *testing.T) {
	r := newReader(t)
	held := r.Tree.Hold()
	r.Tree.Freeze(nil, 0, batch.Mark{}, 1<<16)
	mem := r.Tree.Load().Mem
	mem.Hold()
	if _, err := r.Get(key(1), AsOf{Held: held}); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	must(t, r.GetMany([][]byte{key(1)}, AsOf{Held: held}, func(int, []byte, bool) error { return nil }))
	_, err := r.Digest(t.Context(), new(filterplan.Plan))
	must(t, err)
	r.Tree.Release(held)
	r.Tree.End()
	if !mem.Release() {
		t.Error("the present state is held")
	}
}

// closable are tables that can be loaded.
type closable struct{ loadable }

func (c *closable) LoadTail(t *tree.Table) (loads, bytes uint64, err error) { return 0, 0, c.Load(t) }

// TestTombstonesOfATableThatIsClosedAreNotMissed closes the tables of one run while readers hold their state, as Close
// of a store does, before those of an older run.
func TestTombstonesOfATableThatIsClosedAreNotMissed(t *testing.T) {
	for _, what := range []string{"a cursor", "many keys", "many keys with a filter"} {
		r, fsys := newReaderIn(t)
		older := writeRun(t, r, fsys, []int{1, 2, 3}, 0, 0)
		newer := writeRun(t, r, fsys, []int{0, 1, 9}, 2, 4)
		s := &tree.State{Mem: r.Tree.Load().Mem, Runs: []*tree.Run{newer, older}}
		s.Hold()
		r.Tree.Publish(4)
		r.Tables = &closable{}
		at := AsOf{Seq: ikey.MaxSeq, Held: s}
		c, err := r.Open(nil, nil, false, at, nil)
		must(t, err)
		if !c.SeekGE(key(1)) {
			t.Fatal(c.Err())
		}
		newer.Tables[0].Reader.Close()
		switch what {
		case "a cursor":
			for c.Next() && !bytes.Equal(c.Key(), key(2)) {
			}
			err = c.Err()
		case "many keys with a filter":
			must(t, newer.Tables[0].Reader.Keys.Load(0))
			fallthrough
		default:
			err = r.GetMany([][]byte{key(2), key(3)}, at, func(i int, _ []byte, found bool) error {
				if found {
					t.Errorf("%s: key %d, which is deleted, is found", what, 2+i)
				}
				return nil
			})
		}
		if !errors.Is(err, tree.ErrClosed) {
			t.Errorf("%s: error %v, want ErrClosed", what, err)
		}
		c.Close()
	}
}

// reported are tables that keep the damage of filters that was reported.
type reported struct {
	closable

	damage []error
}

func (r *reported) Damaged(t *tree.Table) { r.damage = append(r.damage, t.Keys.State().Damage) }

// TestDamageOfAFilterInItsFileIsReported damages filters that lookups ask in their files.
func TestDamageOfAFilterInItsFileIsReported(t *testing.T) {
	for _, what := range []string{"one key", "many keys"} {
		r, fsys := newReaderIn(t)
		meta := writeRun(t, r, fsys, []int{1, 2, 3}, 0, 0).Tables[0].Meta
		table := r.Tree.NewTable(meta)
		b, err := vfs.ReadFile(fsys, "db/"+table.File.Name, 1<<20)
		must(t, err)
		for i := meta.Size - meta.TailLen - meta.FilterLen + bloomblock.HeaderSize; i < meta.Size-meta.TailLen; i++ {
			b[i] ^= 1
		}
		must(t, vfs.WriteFileAtomic(fsys, "db", "new", table.File.Name, b))
		must(t, table.Reader.LoadTail())
		table.Reader.AskInFile(true)
		table.Ready.Store(true)
		s := &tree.State{Mem: r.Tree.Load().Mem, Runs: []*tree.Run{tree.NewRun(0, 1, []*tree.Table{table})}}
		s.Hold()
		r.Tree.Publish(3)
		tables, at := &reported{}, AsOf{Seq: ikey.MaxSeq, Held: s}
		r.Tables = tables
		ask := func(i int) (found bool, err error) {
			if what == "one key" {
				return r.Has(key(i), at)
			}
			err = r.GetMany([][]byte{key(i)}, at, func(_ int, _ []byte, is bool) error {
				found = is
				return nil
			})
			return found, err
		}
		for i := 1; i <= 3; i++ {
			if found, err := ask(i); !found || err != nil {
				t.Errorf("%s: key %d is found: %v, %v", what, i, found, err)
			}
		}
		if len(tables.damage) != 1 || !errors.Is(tables.damage[0], corrupt.Err) {
			t.Errorf("%s: damage %v is reported, want one", what, tables.damage)
		}
	}
}
