package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/machine"
	"github.com/bloomkv/bloomkv/tools/workload"
)

var must = testkit.Must

// TestMain runs the program instead of the tests if the program has started the test binary as a worker.
func TestMain(m *testing.M) {
	stillness = 100 * time.Millisecond
	if os.Getenv(cli.AgainVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// testConfig requests some rows of a small store, or all rows if no names are given.
func testConfig(t *testing.T, args ...string) *config {
	t.Helper()
	c, cmd := &config{}, &cobra.Command{}
	c.flags(cmd)
	must(t, cmd.ParseFlags(append([]string{"--keys", "3000", "--puts", "3000", "--busy", "50ms"}, args...)))
	must(t, c.check())
	return c
}

func run(t *testing.T, args []string, out, errs *bytes.Buffer) error {
	t.Helper()
	s := &cli.Streams{Out: out, Err: errs}
	return s.Run(t.Context(), command(s, args), args)
}

// figure returns the value of a row and column.
func figure(results []result, row, column string) (v float64, ok bool) {
	i := slices.IndexFunc(results, func(r result) bool { return r.Row == row && r.Column == column })
	if i < 0 {
		return 0, false
	}
	return results[i].Value, true
}

func TestEveryEngineHasEveryRow(t *testing.T) {
	_, counted := machine.Read()
	for _, e := range engines {
		for _, shape := range []workload.Shape{workload.Decimal, workload.Prefixed} {
			t.Run(e.name+" with "+shape.String()+" keys", func(t *testing.T) {
				t.Parallel() // they wait for the trees to settle
				c := testConfig(t, "--ycsb", "--shape", shape.String())
				if shape != workload.Decimal { // what depends on the keys
					c = testConfig(t, "--rows", "load,absent,present,seek10,seek10-new,scan,load-seq",
						"--shape", shape.String())
				}
				dir := t.TempDir()
				var seen []result
				for i, s := range wantedStates(c) {
					c.dir = filepath.Join(dir, "store")
					if s.alone {
						c.dir = filepath.Join(dir, string(rune('a'+i)))
					}
					o, err := measureState(t.Context(), c, e.name, s, 0)
					if err != nil {
						t.Fatalf("%s: %v", s.name, err)
					}
					if o.Wrong > 0 {
						t.Errorf("%s: %d wrong answers; %s", s.name, o.Wrong, o.FirstWrong)
					}
					seen = append(seen, o.Results...)
					for _, r := range o.Results {
						in := slices.IndexFunc(lines, func(l line) bool { return l.id == r.Row })
						if in < 0 || states[lines[in].in].name != s.name || !slices.Contains(e.columns, r.Column) {
							t.Errorf("%s: row %s of column %s", s.name, r.Row, r.Column)
						}
						if r.Column == nativeName && r.Figures != nil && r.Figures.P50Ns > 0 {
							t.Errorf("%s: calls of column %s are timed one by one: not in a loop in C", r.Row, r.Column)
						}
					}
				}
				for _, l := range lines {
					v, ok := figure(seen, l.id, e.columns[0])
					want := c.wants(l.id)
					switch {
					case strings.HasPrefix(l.id, cacheMisses) &&
						slices.Contains([]string{ownName, pebbleName, pebbleTuned}, e.name):
					case l.unit == reads:
						want = want && counted && !e.mapped
					case l.id == rowFilters:
						want = want && e.name != bboltName
					case slices.Contains([]string{rowWriteAmp, rowPutsAmp, rowResident}, l.id):
						want = want && counted
					}
					if ok != want || ok && !(v > 0) && l.unit != reads && l.unit != count {
						t.Errorf("%s: %v, %v; want one: %v", l.id, v, ok, want)
					}
				}
				for _, column := range e.columns {
					if _, ok := figure(seen, "present", column); !ok {
						t.Errorf("no figures of present keys in column %s", column)
					}
				}
			})
		}
	}
}

func TestKeptIteratorsSeeWhatWasPut(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s, err := e.open(filepath.Join(t.TempDir(), "store"), settings{cache: 16 << 20, memtable: 8 << 20})
			must(t, err)
			for i, v := range s.lookups() {
				if frozen(e.columns[i]) {
					must(t, v.end())
					continue
				}
				for _, value := range []string{"one", "two", "three"} {
					must(t, v.Put([]byte("key"), []byte(value)))
					if got, found, err := v.AppendGet([]byte("+"), []byte("key")); string(got) != "+"+value || !found ||
						err != nil {
						t.Errorf("got %q, %v, %v, want +%s", got, found, err, value)
					}
				}
				must(t, v.end())
			}
			must(t, s.PutSync([]byte("synced"), []byte("five")))
			if opening, err := s.Reopen(); opening <= 0 || err != nil {
				t.Fatalf("reopened in %v, %v", opening, err)
			}
			got, found, err := s.AppendGet(nil, []byte("synced"))
			if string(got) != "five" || !found || err != nil {
				t.Errorf("after opening again: %q, %v, %v, want five", got, found, err)
			}
			enough := errors.New("enough")
			if err := s.Scan(nil, 0, func(_, _ []byte) error { return enough }); !errors.Is(err, enough) {
				t.Errorf("a scan that is ended returns %v", err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheFirstSortedLevelOfGoleveldbIsTheBaseLevel(t *testing.T) {
	e, err := openGoleveldb(filepath.Join(t.TempDir(), "store"), settings{cache: largeCache, memtable: memtableBytes})
	must(t, err)
	s, ok := e.(*goleveldbStore)
	if !ok {
		t.Fatalf("the engine is %T", e)
	}
	for level, want := range map[int]int64{1: baseLevelBytes, 2: baseLevelBytes * levelRatio} {
		// the setting is a whole number of bytes before it is multiplied
		if got := s.options.GetCompactionTotalSize(level); got > want || got < want-levelRatio*levelRatio {
			t.Errorf("level %d has %d bytes, want %d", level, got, want)
		}
	}
	must(t, s.Close())
}

func TestEnginesTakeTurnsInProcessesOfTheirOwn(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "table.txt")
	var out, errs bytes.Buffer
	args := []string{
		"--keys", "1000", "--rounds", "2", "--engines", "bloomkv,goleveldb", "--rows", "load,absent,load-batched",
		"--dir", dir, "--out", file, "--json",
	}
	must(t, run(t, args, &out, &errs))
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	var turns []string
	for _, result := range r.Results {
		turns = append(turns, result.Row+" "+result.Column)
	}
	want := []string{
		"load bloomkv", "load goleveldb", "absent goleveldb", "absent bloomkv", "load-batched bloomkv",
		"load-batched goleveldb",
		"load goleveldb", "load bloomkv", "absent bloomkv", "absent goleveldb",
		"load-batched goleveldb", "load-batched bloomkv",
	}
	if !slices.Equal(turns, want) {
		t.Errorf("turns %q\nwant  %q", turns, want)
	}
	if len(r.Table) != 6 || errs.Len() > 0 {
		t.Errorf("%d cells, want 6; on the error stream %q", len(r.Table), errs.String())
	}
	page, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(page, []byte("wrong answers: 0")) ||
		!bytes.Contains(page, []byte("command: "+program()+" --keys 1000")) {
		t.Errorf("the table: %v\n%s", err, page)
	}
	if object, err := os.ReadFile(strings.Replace(file, ".txt", ".json", 1)); err != nil ||
		!bytes.Equal(object, out.Bytes()) {
		t.Errorf("the object beside the table differs from what was printed: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d directories left, %v", len(left), err)
	}
}

func TestARatioIsTheMedianOfTheRounds(t *testing.T) {
	f := newFigures([]result{
		{Row: "absent", Column: "bloomkv", Round: 0, Value: 100},
		{Row: "absent", Column: "goleveldb", Round: 0, Value: 200},
		{Row: "absent", Column: "goleveldb", Round: 1, Value: 500},
		{Row: "absent", Column: "bloomkv", Round: 1, Value: 100},
		{Row: "absent", Column: "bloomkv", Round: 2, Value: 300},
		{Row: "absent", Column: "goleveldb", Round: 2, Value: 400},
	})
	table := tabulate(f, []string{"bloomkv", "goleveldb"})
	if len(table) != 2 || table[0] != (cell{"absent", "bloomkv", spread{100, 100, 300}, nil}) {
		t.Fatalf("got %+v", table)
	}
	if c := table[1]; c.Value != (spread{400, 200, 500}) || c.Ratio == nil || *c.Ratio != (spread{0.5, 0.2, 0.75}) {
		t.Errorf("got %+v, ratio %+v", c, c.Ratio)
	}
}

func TestBars(t *testing.T) {
	c := testConfig(t)
	for _, test := range []struct {
		name    string
		results []result
		must    string
		got     float64
		met     bool
	}{
		{
			"a share of RocksDB, met",
			[]result{{Row: "absent", Column: ownName, Value: 59}, {Row: "absent", Column: rocksdbName, Value: 100}},
			"< 0.6 × rocksdb", 0.59, true,
		},
		{
			"a share of RocksDB, not below",
			[]result{{Row: "absent", Column: ownName, Value: 60}, {Row: "absent", Column: rocksdbName, Value: 100}},
			"< 0.6 × rocksdb", 0.6, false,
		},
		{
			"the best peer",
			[]result{
				{Row: "present-ow", Column: ownName, Value: 9},
				{Row: "present-ow", Column: "bbolt", Value: 10},
				{Row: "present-ow", Column: bboltTx, Value: 5},
				{Row: "present-ow", Column: "badger", Value: 12},
			},
			"< the best peer", 0.9, true,
		},
		{
			"at most the best peer and a little",
			[]result{{Row: "fillsync", Column: ownName, Value: 105}, {Row: "fillsync", Column: "bbolt", Value: 100}},
			"≤ 1.05 × the best peer", 1.05, true,
		},
		{"a limit", []result{{Row: "misses-absent", Column: ownName, Value: 0.0116}}, "≤ 0.0115", 0.0116, false},
		{
			"a limit that is reached",
			[]result{{Row: "misses-present", Column: ownName, Value: 0.96}},
			"≤ 0.9600", 0.96, true,
		},
		{"nothing to compare with", []result{{Row: "absent", Column: ownName, Value: 1}}, "", 0, false},
		{"a limit for a million pairs", []result{{Row: rowResident, Column: ownName, Value: 1}}, "", 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReport(c, outcome{Results: test.results}, 0)
			if test.must == "" {
				if len(r.Musts) > 0 {
					t.Errorf("got %+v, want none", r.Musts)
				}
				return
			}
			if len(r.Musts) != 1 {
				t.Fatalf("got %+v, want one", r.Musts)
			}
			if v := r.Musts[0]; v.Must != test.must || math.Abs(v.Got-test.got) > 1e-9 || v.Met != test.met {
				t.Errorf("got %+v, want %s, %v, %v", v, test.must, test.got, test.met)
			}
		})
	}
}

func TestThePageHasFiguresRatiosAndTargets(t *testing.T) {
	r := newReport(testConfig(t, "--keys", "1000000"), outcome{Results: []result{
		{Row: "absent", Column: ownName, Value: 120},
		{Row: "absent", Column: pebbleL6, Value: 600},
		{Row: rowDisk, Column: ownName, Value: 119e6},
		{Row: rowResident, Column: ownName, Value: 200e6},
	}}, time.Minute)
	var page bytes.Buffer
	must(t, r.print(&page))
	text := strings.Join(strings.Fields(page.String()), " ")
	for _, want := range []string{
		"3 rounds in 1m0s", "absent, cached, compacted 120 (120–120) 600 (600–600) on disk, compacted (MB) 119 (",
		"absent, cached, compacted 0.20 (0.20–0.20) on disk, compacted (MB) ≤ 120 119 met", "≤ 160 200 not met",
		"wrong answers: 0",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, page.String())
		}
	}
}

func TestDiskBytesAreThoseThatTheDiskHas(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "sparse"))
	must(t, err)
	stop := watchDisk(dir)
	_, err = f.WriteAt(make([]byte, 100_000), 50<<20)
	must(t, errors.Join(err, f.Close()))
	must(t, syncFiles(dir))
	got, err := diskBytes(dir)
	if err != nil || got < 100_000 {
		t.Errorf("%d bytes, %v, want 100000 and what the end of a block adds", got, err)
	}
	if runtime.GOOS == "linux" && got > 1<<20 {
		t.Errorf("%d bytes: the hole of the file is counted", got)
	}
	if most, err := stop(); most != got || err != nil {
		t.Errorf("at most %d, %v, want %d", most, err, got)
	}
	if resting, err := restingBytes(t.Context(), dir); resting != got || err != nil {
		t.Errorf("at rest %d, %v, want %d", resting, err, got)
	}
	if _, err := diskBytes(filepath.Join(dir, "nothing")); err != nil {
		t.Errorf("of a directory that is not there: %v", err)
	}
}

// countingReader counts blocks as an engine with a mapping does: without a read call.
type countingReader struct {
	engine

	blocks uint64
}

func (r *countingReader) blockReads() uint64 { return r.blocks }

func (r *countingReader) AppendGet(dst, _ []byte) ([]byte, bool, error) {
	r.blocks += 2
	return dst, false, nil
}

func TestBlocksReadThroughAMappingAreThoseThatTheEngineCounts(t *testing.T) {
	r := new(countingReader)
	w := &worker{ctx: t.Context(), config: testConfig(t), engine: r}
	w.use(w.config.setOf(workload.Decimal, 3000))
	w.countIn("column", "absent", "", r, workload.Phase{Kind: workload.Absent})
	if blocks, _ := figure(w.outcome.Results, "misses-absent", "column"); blocks != 2 || w.err != nil {
		t.Errorf("%v blocks per lookup, %v; want 2", blocks, w.err)
	}
	calls, ok := figure(w.outcome.Results, "reads-absent", "column")
	if _, counted := machine.Read(); ok != counted || calls > 0.05 {
		t.Errorf("%v read calls per lookup, %v; want those of the runtime", calls, ok)
	}
}

// slowStore takes long for one put, and has no pairs.
type slowStore struct {
	workload.Store

	mu    sync.Mutex
	puts  int
	stall time.Duration
}

func (s *slowStore) Put(_, _ []byte) error {
	s.mu.Lock()
	s.puts++
	first := s.puts == 1
	s.mu.Unlock()
	if first {
		time.Sleep(s.stall)
	}
	return nil
}

func (s *slowStore) AppendGet(dst, _ []byte) ([]byte, bool, error) { return dst, false, nil }

func TestAStallCountsForEveryPutThatItDelays(t *testing.T) {
	c := testConfig(t)
	set, err := c.setOf(workload.Decimal, 3000)
	must(t, err)
	const stall = 250 * time.Millisecond
	s := &slowStore{stall: stall}
	crowd := &crowd{store: s, set: set, time: 2 * stall, seed: 1}
	must(t, crowd.run(t.Context()))
	puts := int(2 * stall / busyInterval)
	if all := crowd.put.Count(); all != uint64(puts) || s.puts > puts || s.puts < puts/2 {
		t.Fatalf("%d puts and %d times, want %d", s.puts, all, puts)
	}
	if longest := crowd.put.Largest(); longest < float64(stall) || crowd.call.Largest() < float64(stall) {
		t.Errorf("the longest put takes %v ns, want at least %v", longest, stall)
	}
	// The puts due during the stall waited for its end: half of them for at least a half of it.
	if got := crowd.put.Quantile(0.76); got < float64(stall)/2 {
		t.Errorf("a quarter of the puts take at least %v ns from their intended start, want %v", got, stall/2)
	}
	if got := crowd.call.Quantile(0.9); got > float64(stall)/10 {
		t.Errorf("a tenth of the puts take at least %v ns from their call, want less", got)
	}
	if crowd.wrong == 0 || !strings.Contains(crowd.firstWrong, "another value") {
		t.Errorf("%d wrong answers, %q, want some: the store finds no key", crowd.wrong, crowd.firstWrong)
	}

	// A store that cannot keep up: the puts that do not begin in twice the time count as well.
	crowd.time, crowd.put, crowd.call, s.puts, s.stall = stall/10, workload.Histogram{}, workload.Histogram{}, 0, stall
	must(t, crowd.run(t.Context()))
	want := uint64(stall / 10 / busyInterval)
	if all := crowd.put.Count(); all != want || s.puts != 1 || crowd.put.Quantile(0.01) < float64(stall)/2 {
		t.Errorf("%d puts begin and %d count, want 1 and %d", s.puts, all, want)
	}
}

func TestWrongFlagsAreNamed(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--shape round", "round"},
		{"--engines bloomkv,tape", `"tape"`},
		{"--engines bloomkv,bloomkv", `"bloomkv" is given twice`},
		{"--rows absent,tape", `"tape"`},
		{"--rows tape*", `"tape*"`},
		{"--rounds 0", "--rounds 0"},
		{"--puts 9", "--puts 9"},
		{"--busy 1us", "--busy 1µs"},
		{"--keys -1", "-1"},
		{"--cache 3", "--cache 3"},
		{"--worker tape", "--worker"},
		{"--worker 100000", "--worker 100000"},
		{"extra", "extra"},
	} {
		var out bytes.Buffer
		err := run(t, strings.Fields(test.args), &out, &out)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want an error with %q", test.args, err, test.want)
		}
	}
}

func TestRowsAskForTheStatesThatTheyNeed(t *testing.T) {
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"--rows", "absent"}, []string{"loaded", "compacted"}},
		{[]string{"--rows", "load,present-ow"}, []string{"loaded", "overwritten"}},
		{[]string{"--rows", "fillsync"}, []string{"synced"}},
		{[]string{"--rows", "puts-*"}, []string{"many puts"}},
		{[]string{"--rows", "busy-put-*,load-*"}, []string{
			"loaded", "busy", "loaded in batches", "loaded in order", "loaded in order and in batches",
		}},
		{[]string{"--rows", "fillsync", "--ycsb"}, []string{"synced", "serving"}},
	} {
		var got []string
		for _, s := range wantedStates(testConfig(t, test.args...)) {
			got = append(got, s.name)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%v: %v, want %v", test.args, got, test.want)
		}
	}
	if got := len(wantedStates(testConfig(t))); got != len(states)-1 {
		t.Errorf("%d states by default, want all %d but the last", got, len(states))
	}
}

// reader reads a file once for each lookup, and has no key.
type reader struct {
	workload.Store

	file *os.File
}

func (r reader) AppendGet(dst, _ []byte) ([]byte, bool, error) {
	var one [1]byte
	_, err := r.file.ReadAt(one[:], 0)
	return dst, false, err
}

func TestReadsOfFilesAreCounted(t *testing.T) {
	if _, counted := machine.Read(); !counted {
		t.Skip("this system counts none")
	}
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, []byte("x"), 0o600))
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	for _, mapped := range []bool{false, true} {
		w := &worker{ctx: t.Context(), config: testConfig(t), entry: engineEntry{mapped: mapped}}
		w.use(w.config.setOf(workload.Decimal, 3000))
		w.countIn("column", "absent", "absent-small", reader{nil, f},
			workload.Phase{Kind: workload.Absent})
		if w.err != nil || w.outcome.Wrong > 0 {
			t.Fatalf("%v, %+v", w.err, w.outcome)
		}
		if ns, _ := figure(w.outcome.Results, "absent-small", "column"); !(ns > 0) {
			t.Errorf("%v ns for a lookup", ns)
		}
		reads, ok := figure(w.outcome.Results, "reads-absent", "column")
		if ok == mapped || ok && (reads < 1 || reads > 1.05) { // the others of this process are few
			t.Errorf("mapped %v: %v reads, %v; want 1 of an engine that is not mapped", mapped, reads, ok)
		}
		if misses, also := figure(w.outcome.Results, "misses-absent", "column"); also != ok || misses != reads {
			t.Errorf("mapped %v: %v blocks, %v; want the read calls, since the engine counts no blocks",
				mapped, misses, also)
		}
	}
}
