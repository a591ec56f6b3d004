package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/workload"
)

var must = testkit.Must

// runJSON runs the program and parses the JSON that it prints. It must not print anything else.
func runJSON(t *testing.T, into any, args ...string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), args, &cli.Streams{Out: &out, Err: &errs}); code != cli.ExitOK || errs.Len() > 0 {
		t.Fatalf("%q: exit code %d, %s", args, code, errs.String())
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		t.Fatalf("%q: %v in %s", args, err, out.String())
	}
}

func execute(ctx context.Context, args []string, s *cli.Streams) error {
	return s.Run(ctx, rootCommand(s, args), args)
}

// leftNothing checks that a directory for stores is empty.
func leftNothing(t *testing.T, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%d entries left in %s, %v", len(entries), dir, err)
	}
}

func (s *side) phase(t *testing.T, name string) *phase {
	t.Helper()
	i := slices.IndexFunc(s.Phases, func(p phase) bool { return p.Phase == name })
	if i < 0 {
		t.Fatalf("filters %s: no phase %q", s.Filters, name)
	}
	return &s.Phases[i]
}

func TestARunOfEachShapeIsRightAndCounted(t *testing.T) {
	for _, shape := range []string{"random", "prefixed", "decimal", "bigendian"} {
		t.Run(shape, func(t *testing.T) {
			if testing.Short() && shape != "prefixed" {
				t.Skip("one shape is enough")
			}
			args := []string{
				"--keys", "2000", "--shape", shape, "--json", "--memory", "64", "--load",
				"random,sequential,batched,sequential-batched", "--phases", strings.Join(phaseNames(), ","),
			}
			var r report
			runJSON(t, &r, args...)
			if r.Keys != 2000 || r.Shape != shape || r.Command != "go run ./bench "+strings.Join(args, " ") ||
				len(r.Sides) != 2 {
				t.Fatalf("%d keys, shape %s, command %q, %d sides", r.Keys, r.Shape, r.Command, len(r.Sides))
			}
			on, off := &r.Sides[0], &r.Sides[1]
			if on.Filters != "on" || on.FilterFPR != 0.01 || off.Filters != "off" || off.FilterFPR != 1 ||
				off.FilterBytes != 0 || on.FilterBitsPerKey < 8 {
				t.Errorf("sides %s with %v and %.1f bits per key, %s with %v and %d bytes",
					on.Filters, on.FilterFPR, on.FilterBitsPerKey, off.Filters, off.FilterFPR, off.FilterBytes)
			}
			want := []string{
				"load random", "flush", "settle", "warm-loaded", "absent-loaded", "present-loaded",
				"overwrite", "flush", "settle", "warm-overwritten", "absent-overwritten", "present-overwritten",
				"compact", "settle", "reopen", "warm", "absent", "present", "absent-many", "present-many", "seek-10",
				"seek-100", "scan", "95-5", "put-seek", "check-and-insert",
				"load sequential", "load batched", "load sequential-batched", "load queue", "flush", "queue-pop",
			}
			for i := range r.Sides {
				s := &r.Sides[i]
				var names []string
				for _, p := range s.Phases {
					names = append(names, p.Phase)
					if p.Wrong > 0 {
						t.Errorf("filters %s: %s: %d wrong answers: %s", s.Filters, p.Phase, p.Wrong, p.FirstWrong)
					}
				}
				if !slices.Equal(names, want) {
					t.Errorf("filters %s: phases %q, want %q", s.Filters, names, want)
				}
				if present := s.phase(t, "present").Cost; present == nil || present.Lookups != 2000 ||
					present.Blocks != 1 || present.BlocksRead != 0 || present.CacheHitRate != 1 {
					t.Errorf("filters %s: present: %+v", s.Filters, present)
				}
				if s.phase(t, "reopen").Cost != nil || s.phase(t, "scan").Cost != nil ||
					s.phase(t, "seek-10").Ops != 1000 || s.phase(t, "queue-pop").Ops != 200 {
					t.Errorf("filters %s: scan, seeks or queue: %+v", s.Filters, s.Phases)
				}
				// Each pair is written to the log and to a table, twice; a compaction writes it once more, and some
				// pairs are inserted at the end.
				if s.Tables == 0 || s.WriteAmplification < 2 || s.WriteAmplification > 4 ||
					s.SpaceAmplification < 0.7 || s.SpaceAmplification > 2 || s.Flushes < 3 {
					t.Errorf("filters %s: %d tables, amplification of writes %v and space %v, %d flushes",
						s.Filters, s.Tables, s.WriteAmplification, s.SpaceAmplification, s.Flushes)
				}
			}
			// With filters a rate of 0.01 is promised, about 20 of 1,999 lookups. Without filters, every run that may
			// hold the key is searched.
			absent := on.phase(t, "absent").Cost
			if absent.WastedReads > 0.02 || absent.WastedReads != absent.FalsePositives ||
				absent.Probes != absent.Negatives+absent.FalsePositives || absent.TruePositives != 0 {
				t.Errorf("absent with filters: %+v", absent)
			}
			if c := on.phase(t, "present-overwritten").Cost; c.TruePositives != 1 || c.Probes < c.TruePositives {
				t.Errorf("present with filters: %+v", c)
			}
			if c := off.phase(t, "absent-overwritten").Cost; c.Considered < 1.9 ||
				c.WastedReads != c.Considered || c.Probes != 0 {
				t.Errorf("absent without filters, over two runs: %+v", c)
			}
		})
	}
}

func TestTheSystemCountsTheReadsThatTheStoreCounts(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no counters of the system here")
	}
	var r report
	runJSON(t, &r, "--keys", "40000", "--memory", "8", "--phases", "absent-loaded,present",
		"--filters", "off", "--json")
	for _, name := range []string{"absent-loaded", "present"} {
		p := r.Sides[0].phase(t, name)
		used, reads := p.Cost.fileReads(), p.Cost.fileReads()-p.Cost.BlocksMapped
		if used < 0.1 || math.Abs(p.System.Reads-reads) > 0.001 || math.Abs(p.System.ReadBytes-p.Cost.BytesRead) > 1 {
			t.Errorf("%s: %v reads of %v bytes by the store, %v mapped blocks; %v and %v by the system", name,
				reads, p.Cost.BytesRead, p.Cost.BlocksMapped, p.System.Reads, p.System.ReadBytes)
		}
		if mb := p.System.PeakResident >> 20; mb < 8 || mb > 1000 {
			t.Errorf("%s: peak resident %d MiB", name, mb)
		}
	}
}

func TestOnlyWhatIsAskedForIsRun(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--phases absent", "load random,flush,settle,compact,settle,warm,absent"},
		{"--phases absent --load batched", "load batched,flush,settle,compact,settle,warm,absent"},
		{"--phases absent-loaded", "load random,flush,settle,warm-loaded,absent-loaded"},
		{"--phases overwrite", "load random,flush,settle,overwrite,flush,settle"},
		{
			"--phases present-overwritten,reopen",
			"load random,flush,settle,overwrite,flush,settle,warm-overwritten,present-overwritten,compact,settle," +
				"reopen",
		},
		{"--phases queue-pop", "load queue,flush,queue-pop"},
		{"--phases queue-pop --load sync", "load sync,load queue,flush,queue-pop"},
		{
			"--phases scan --load sequential,sync --choice zipf --workers 2",
			"load sequential,flush,settle,compact,settle,warm,scan,load sync",
		},
	} {
		var r report
		runJSON(t, &r, append(strings.Fields(test.args), "--keys", "300", "--filters", "on", "--json")...)
		var names []string
		for _, p := range r.Sides[0].Phases {
			names = append(names, p.Phase)
		}
		if got := strings.Join(names, ","); len(r.Sides) != 1 || got != test.want {
			t.Errorf("%s: %d sides, phases %s, want %s", test.args, len(r.Sides), got, test.want)
		}
	}
}

func TestWhatIsNotPrintedIsNotMeasured(t *testing.T) {
	for _, test := range []struct {
		all, json     bool
		phases, loads []string
	}{
		{phases: answerPhases, loads: []string{"random"}},
		{all: true, phases: phaseNames(), loads: loadNames()},
		{json: true, phases: phaseNames(), loads: loadNames()},
	} {
		c := config{
			data: data{value: 100}, workers: 1, fpr: 0.01, filters: "both", choice: "shuffled", all: test.all,
			json: test.json,
		}
		if err := c.check(); err != nil || !slices.Equal(c.phases, test.phases) || !slices.Equal(c.loads, test.loads) {
			t.Errorf("--all %v --json %v: phases %v and loads %v, %v; want %v and %v", test.all, test.json, c.phases,
				c.loads, err, test.phases, test.loads)
		}
	}
}

func TestKeysAreFewerWhereValuesAreLarge(t *testing.T) {
	for _, test := range []struct{ keys, value, want int }{
		{0, 100, 1_000_000},
		{0, 4096, 65280},
		{0, 256 << 10, 1023},
		{0, 64 << 20, 3},
		{7, 256 << 10, 7},
	} {
		c := config{
			data: data{keys: test.keys, value: test.value, memory: 64}, workers: 1, fpr: 0.01, filters: "both",
			choice: "shuffled",
		}
		if err := c.check(); err != nil || c.keys != test.want {
			t.Errorf("--keys %d --value %d: %d keys, %v, want %d", test.keys, test.value, c.keys, err, test.want)
		}
	}
}

// TestThePageHasWhatIsAskedFor runs the same phases with the tables of all, with the table of the phases that are asked
// for, and with the table of the lookups, which has at most six rows.
func TestThePageHasWhatIsAskedFor(t *testing.T) {
	for _, c := range []struct {
		args string
		rows int // of the first table
		also []string
	}{
		{"--phases absent,put-seek,seek-10", 3, nil},
		{"--phases queue-pop --load sequential --filters on", 2, nil},
		{"", 6, nil},
		{"--phases absent,put-seek,seek-10 --all", 3, []string{
			"p999 off", "system reads", "put alone on", "\nBenchmarkload-random/filters=on/shape=random 500 ",
			"\nBenchmarkabsent/filters=off/shape=random 499 ",
		}},
	} {
		var out, errs bytes.Buffer
		args := append(strings.Fields("--keys 500 --memory 64"), strings.Fields(c.args)...)
		if code := run(t.Context(), args, &cli.Streams{Out: &out, Err: &errs}); code != cli.ExitOK {
			t.Fatalf("%q: exit code %d: %s", c.args, code, errs.String())
		}
		for _, want := range append(c.also, "command: go run ./bench --keys 500", "go: go1.", "ns on") {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q: no %q in:\n%s", c.args, want, &out)
			}
		}
		_, table, _ := strings.Cut(out.String(), " runs on")
		table, _, _ = strings.Cut(table, "\n\n")
		if rows := strings.Count(table, "\n"); rows != c.rows {
			t.Errorf("%q: %d rows, want %d:\n%s", c.args, rows, c.rows, &out)
		}
		for line := range strings.Lines(table) {
			if n := len(line); n > 100 {
				t.Errorf("%q: a line of %d columns, want at most 100:\n%s", c.args, n, line)
			}
		}
		if all := strings.Contains(out.String(), "\nBenchmark"); all != strings.Contains(c.args, "--all") {
			t.Errorf("%q: lines for benchstat: %v:\n%s", c.args, all, &out)
		}
	}
}

func TestPicturesAndPageAreWritten(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		args     string
		pictures []string
		page     []string
	}{
		{
			"sweep fpr --keys 2000 --from 0.1 --to 0.1",
			[]string{"fpr-wasted", "fpr-absent", "fpr-present", "fpr-ns-absent", "fpr-ns-present"},
			[]string{"bits per key", "promised"},
		},
		{
			"sweep runs --keys 2000 --to 2",
			[]string{"runs-absent", "runs-present", "runs-ns-absent", "runs-ns-present"},
			[]string{"the number of runs"},
		},
		{"sweep keys --from 1000 --to 2000", []string{
			"keys-absent", "keys-present", "keys-ns-absent",
			"keys-ns-present",
		}, []string{"the number of keys"}},
	} {
		if testing.Short() && !strings.HasPrefix(test.args, "sweep runs") {
			continue // one sweep is enough
		}
		plots, page := filepath.Join(dir, "plots"), filepath.Join(dir, "page.html")
		var out, errs bytes.Buffer
		if code := run(t.Context(), append(strings.Fields(test.args), "--plot", plots, "--html", page),
			&cli.Streams{Out: &out, Err: &errs}); code != cli.ExitOK {
			t.Errorf("%s: exit code %d: %s", test.args, code, errs.String())
			continue
		}
		for _, name := range test.pictures {
			for _, ext := range []string{".svg", ".png"} {
				if info, err := os.Stat(filepath.Join(plots, name+ext)); err != nil || info.Size() < 1000 {
					t.Errorf("%s: picture %s: %v", test.args, name+ext, err)
				}
			}
		}
		html, err := os.ReadFile(page)
		if err != nil {
			t.Error(err)
		}
		for _, want := range append(test.page, "<svg", "<table", "go run ./bench "+test.args) {
			if !bytes.Contains(html, []byte(want)) {
				t.Errorf("%s: no %q on the page", test.args, want)
			}
		}
	}
}

// TestWriteAmplificationIsPerByteOfKeysAndValues puts keys of 8 bytes, each with 15 bytes around it in the log.
func TestWriteAmplificationIsPerByteOfKeysAndValues(t *testing.T) {
	var r report
	runJSON(t, &r, strings.Fields("--keys 2000 --shape bigendian --value 0 --memory 64 --phases absent --filters on "+
		"--json")...)
	if got := r.Sides[0].WriteAmplification; got < 23.0/8 {
		t.Errorf("write amplification %v, want more than that of the log alone, %v", got, 23.0/8)
	}
}

func TestStoresAreKeptWhereTheyAreAskedForAndNowhereElse(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	kept := filepath.Join(t.TempDir(), "kept")
	s := &cli.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}
	args := strings.Fields("--keys 100 --phases absent --dir " + kept)
	must(t, execute(t.Context(), args, s))
	must(t, execute(t.Context(), strings.Fields("--keys 100 --phases scan"), s))
	must(t, execute(t.Context(), strings.Fields("sweep runs --keys 100 --to 1"), s))
	for _, name := range []string{"filters-on/main/CURRENT", "filters-off/main/CURRENT"} {
		if _, err := os.Stat(filepath.Join(kept, filepath.FromSlash(name))); err != nil {
			t.Error(err)
		}
	}
	if entries, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(entries) != 0 {
		t.Errorf("%d entries left in the temporary directory, %v", len(entries), err)
	}
	if err := execute(t.Context(), args, s); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a second run in the same directory: %v", err)
	}
}

func TestAnInterruptionRemovesTheStoresAndIsNamed(t *testing.T) {
	for _, args := range []string{"--keys 1000000", "sweep fpr", "sweep runs", "sweep keys --from 100000"} {
		t.Setenv("TMPDIR", t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		errs := &cancelWriter{cancel: cancel}
		var out bytes.Buffer
		// The first drawing of a progress bar shows that a phase is running.
		if code := run(ctx, strings.Fields(args),
			&cli.Streams{Out: &out, Err: errs, ErrTerminal: true}); code != cli.ExitInterrupted {
			t.Errorf("%s: exit code %d, want %d: %s", args, code, cli.ExitInterrupted, &errs.printed)
		}
		if !strings.Contains(errs.printed.String(), "bench: interrupted: ") || out.Len() > 0 {
			t.Errorf("%s: printed %q and %q", args, &errs.printed, out.String())
		}
		if entries, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(entries) != 0 {
			t.Errorf("%s: %d entries left in the temporary directory, %v", args, len(entries), err)
		}
		cancel()
	}
}

// cancelWriter cancels at the first write.
type cancelWriter struct {
	printed bytes.Buffer
	cancel  context.CancelFunc
}

func (w *cancelWriter) Write(p []byte) (int, error) {
	w.cancel()
	return w.printed.Write(p)
}

func TestWrongUsageIsNamed(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--shape round", "round"},
		{"--keys -1", "-1"},
		{"--value -1", "-1"},
		{"--memory 1", "--memory 1"},
		{"--choice best", "best"},
		{"--workers 17", "1 to 16"},
		{"--workers 0", "1 to 16"},
		{"--filters maybe", "maybe"},
		{"--load random,slow", "slow"},
		{"--load random,random", "twice"},
		{"--phases absent,lunch", "lunch"},
		{"extra", "extra"},
		{"--fpr 2", "2"},
		{"--fpr NaN", "NaN"},
		{"--fpr 1", "--filters off"},
		{"sweep sideways", "sideways"},
		{"sweep fpr --from 0.1 --to 0.5", "the larger first"},
		{"sweep fpr --to 0", "above 0"},
		{"sweep fpr --keys 1", "at least 2"},
		{"sweep runs --to 14", "1 to 13"},
		{"sweep keys --from 1", "2 keys"},
		{"sweep keys --fpr 1", "--fpr 1"},
		{"sweep keys --keys 5", "--keys"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), strings.Fields(test.args), &cli.Streams{Out: &out, Err: &errs})
		if code != cli.ExitTrouble {
			t.Errorf("%s: exit code %d, want %d", test.args, code, cli.ExitTrouble)
		}
		if printed := errs.String(); !strings.Contains(printed, test.want) || !strings.Contains(printed, "--help") ||
			strings.Count(printed, "\n") != 1 {
			t.Errorf("%s: %q, want a line with %q", test.args, printed, test.want)
		}
		if out.Len() > 0 {
			t.Errorf("%s: printed %q beside the error", test.args, &out)
		}
	}
	for _, args := range []string{"--help", "sweep", "sweep fpr --help"} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), &cli.Streams{Out: &out, Err: &errs}); code != cli.ExitOK ||
			!strings.Contains(out.String(), "Usage:") || errs.Len() > 0 {
			t.Errorf("%s: exit code %d\n%s%s", args, code, out.String(), errs.String())
		}
	}
}

func TestWrongAnswersAreTrouble(t *testing.T) {
	bad := func(n int, first string) phase {
		return phase{Figures: workload.Figures{Wrong: n, FirstWrong: first}}
	}
	mainRun := func(phases ...phase) figures {
		return &report{Sides: []side{{Phases: make([]phase, len(phases))}, {Phases: phases}}}
	}
	swept := func(points ...point) figures {
		r := newSweepReport(new(sweep), "")
		for _, p := range points {
			r.add(p)
		}
		return r
	}
	grew := func(rows ...grown) figures {
		r := newGrowthReport(new(growth), "")
		for _, row := range rows {
			r.add(row)
		}
		return r
	}
	for _, c := range []struct {
		name   string
		report figures
		want   string
	}{
		{"a run that is right", mainRun(phase{}, phase{}, phase{}), ""},
		{"a run", mainRun(phase{}, bad(2, "key a"), bad(1, "key b")), "3 wrong answers; the first: key a"},
		{"a sweep that is right", swept(point{}, point{}), ""},
		{"a sweep", swept(point{}, point{Present: bad(1, "key c")}), "1 wrong answers; the first: key c"},
		{"growth that is right", grew(grown{}, grown{}), ""},
		{
			"growth", grew(grown{}, grown{measured: measured{Absent: bad(4, "key d")}}),
			"4 wrong answers; the first: key d",
		},
	} {
		for _, asJSON := range []bool{false, true} {
			var out bytes.Buffer
			err := show(&cli.Streams{Out: &out}, asJSON, c.report)
			if errors.Is(err, errWrong) != (c.want != "") || err != nil && err.Error() != c.want {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
			if out.Len() == 0 {
				t.Errorf("%s: nothing is printed beside %v", c.name, err)
			}
		}
	}
}

func TestWhatCannotBePrintedIsAnError(t *testing.T) {
	full := errors.New("no space")
	err := execute(t.Context(), strings.Fields("--keys 100 --phases absent"),
		&cli.Streams{Out: failWriter{full}, Err: &bytes.Buffer{}})
	if !errors.Is(err, full) {
		t.Errorf("%v, want %v", err, full)
	}
}

type failWriter struct{ err error }

func (w failWriter) Write([]byte) (int, error) { return 0, w.err }
