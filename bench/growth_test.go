package main

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/machine"
	"github.com/bloomkv/bloomkv/tools/workload"
	"github.com/bloomkv/bloomkv/tools/workload/own"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestMain runs the program instead of the tests if the program has started the test binary to measure.
func TestMain(m *testing.M) {
	if os.Getenv(cli.AgainVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestGrowthMeasuresOneStoreAsItGrows(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	plot := t.TempDir()
	var r growthReport
	runJSON(t, &r, "growth", "--json", "--keys", "5k,300k", "--budget", "8", "--kind", "bloom,ribbon",
		"--lookups", "20000",
		"--plot", plot)
	_, counted := machine.Read()
	if len(r.Rows) != 8 || r.Lookups != 20_000 || r.PutsPerSecond != 20_000 || r.FilterFPR != promisedFPR ||
		r.Stopped+r.Skipped != "" {
		t.Fatalf("%d rows, %+v", len(r.Rows), r)
	}
	for i, s := range r.Rows {
		keys, state := []int{5000, 300_000}[i/2%2], []string{idleState, writingState}[i%2]
		if s.Kind != []string{"bloom", "ribbon"}[i/4] || s.Keys != keys || s.State != state || s.Budget != 8<<20 ||
			s.Absent.Ops != r.Lookups || s.Present.Ops != r.Lookups {
			t.Errorf("row %d: %s, %d keys, %s, %d absent and %d present keys", i, s.Kind, s.Keys, s.State, s.Absent.Ops,
				s.Present.Ops)
		}
		if perKey := float64(s.FileBytes) / float64(keys); perKey < 116 || perKey > 160 {
			t.Errorf("row %d: %v bytes on disk for a key", i, perKey)
		}
		if s.Promised < 0.0099 || s.Promised > 0.0101+1e-9 || s.Absent.cost().WastedReads > 0.02 ||
			s.Absent.cost().fileReads() > 0.1 || state == idleState && s.Present.cost().Blocks < 1 ||
			s.theory() != promisedFPR {
			t.Errorf("row %d: promised %v in theory %v, wasted %v, %v reads; a present key %v blocks", i, s.Promised,
				s.theory(), s.Absent.cost().WastedReads, s.Absent.cost().fileReads(), s.Present.cost().Blocks)
		}
		if (s.Puts > 0) != (state == writingState) || s.Open <= 0 || s.Memory.Budget != 8<<20 ||
			counted && (s.PeakAnonymous < 1<<20 || s.PeakAnonymous > 1<<30) {
			t.Errorf("row %d: %d puts, opened in %v, memory %v, %d bytes", i, s.Puts, s.Open, s.Memory, s.PeakAnonymous)
		}
	}
	for _, name := range []string{"growth-bloom-8.svg", "growth-ribbon-8.png"} {
		if _, err := os.Stat(filepath.Join(plot, name)); err != nil {
			t.Error(err)
		}
	}
	leftNothing(t, os.Getenv("TMPDIR"))
}

// TestGrowthPrintsRowsAndWhatIsMissing measures in a control group too, if the system has them.
func TestGrowthPrintsRowsAndWhatIsMissing(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	args := []string{
		"growth", "--keys=2k", "--kind=auto,bloom", "--state=quarter,loaded,unmapped,idle", "--lookups=2000",
		"--budget=8", "--dir=" + dir,
	}
	must(t, execute(t.Context(), args, &cli.Streams{Out: &out, Err: &out}))
	for _, want := range []string{
		"command: go run ./bench " + strings.Join(args, " ") + "\n", "values of 100 bytes", "\nauto, 8 MiB ", " 2k ",
		" loaded ", " idle ", " unmapped ", "quarter ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	group, err := newGroup(1 << 30)
	if err == nil {
		must(t, removeGroup(group))
	}
	for _, kind := range []string{"auto", "bloom"} {
		skipped := strings.Contains(out.String(), "\nquarter of "+kind+", 8 MiB, from 2k keys on is left out: ")
		if skipped != (err != nil) {
			t.Errorf("a control group: %v; the quarter of %s is left out: %v\n%s", err, kind, skipped, out.String())
		}
	}
	leftNothing(t, dir)
}

// TestAFewPutsPerSecondArePut counts them by the clock of a synctest bubble.
func TestAFewPutsPerSecondArePut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := own.Open("store", &bloomkv.Options{FS: vfstest.NewMem()})
		must(t, err)
		set, err := workload.NewGenerated(workload.Random, 100, 1, 10)
		must(t, err)
		w := writer{store: store, set: set, order: workload.NewPermutation(set.Len(), 1)}
		w.begin(5)
		time.Sleep(10 * time.Second)
		w.stop()
		if w.next < 49 || w.next > 50 || w.err != nil {
			t.Errorf("%d puts in ten seconds, want 50; %v", w.next, w.err)
		}
		must(t, store.Close())
	})
}

// TestOneStoreWithoutAQuarterIsNotAll measures two stores after the quarter of the first has failed.
func TestOneStoreWithoutAQuarterIsNotAll(t *testing.T) {
	w := &growth{Streams: &cli.Streams{Out: io.Discard, Err: io.Discard}, keys: counts{2000}, lookups: 2000, value: 100}
	w.states = []string{quarterState}
	w.report = newGrowthReport(w, "")
	w.report.Skipped = "quarter of auto, 8 MiB, from 1k keys on is left out: broken"
	for _, kind := range []string{"auto", "bloom"} {
		must(t, w.grow(t.Context(), filepath.Join(t.TempDir(), "store"), kind, 8<<20))
	}
	rows, skipped := w.report.Rows, w.report.Skipped
	measured := len(rows) == 1 && rows[0].Kind == "bloom"
	if !measured && !strings.Contains(skipped, "\nquarter of bloom, 8 MiB, from 2k ") {
		t.Errorf("%d rows, %q; want a quarter of bloom alone, or why there is none", len(rows), skipped)
	}
}

func TestTheoryIsTheBestRateOfTheMemory(t *testing.T) {
	for _, tt := range []struct {
		kind, state string
		keys        int
		want        float64
	}{
		{"bloom", idleState, 1_000_000, promisedFPR},
		{"bloom", idleState, 64 << 20, 0.0239},     // 8 bits a key
		{"bloom", writingState, 64 << 20, 0.148},   // 4 bits
		{"ribbon", writingState, 64 << 20, 0.0744}, // 4 bits
		{"ribbon", idleState, 64 << 20, promisedFPR},
		{"bloom", idleState, 1024 << 20, 0.816}, // half a bit
	} {
		g := grown{Kind: tt.kind, Budget: 64 << 20, Keys: tt.keys, State: tt.state}
		if got := g.theory(); math.Abs(got/tt.want-1) > 0.03 {
			t.Errorf("%s, %s, %d keys: %v, want %v", tt.kind, tt.state, tt.keys, got, tt.want)
		}
	}
}

func TestAChartHasALineForEachFigureAndState(t *testing.T) {
	var r growthReport
	for _, kind := range []string{"bloom", "ribbon"} {
		for i, state := range []string{idleState, quarterState, writingState} {
			g := grown{Kind: kind, Budget: 8 << 20, Keys: 1000, State: state}
			g.Reads = 0.01
			g.Absent = phase{Figures: workload.Figures{MedianNs: 100}, Cost: &costs{BlocksRead: float64(i)}}
			r.Rows = append(r.Rows, g)
		}
	}
	all := r.charts()
	if len(all) != 2 || all[0].Name != "growth-bloom-8" || all[1].Name != "growth-ribbon-8" {
		t.Fatalf("%d charts: %+v", len(all), all)
	}
	var names []string
	for _, l := range all[1].Lines {
		names = append(names, l.Name)
		if len(l.X) != 1 || len(l.Y) != 1 || l.X[0] != 1000 || l.Y[0] <= 0 {
			t.Errorf("line %q: %v, %v", l.Name, l.X, l.Y)
		}
	}
	if got, want := strings.Join(names, "; "), "µs, idle; promised, idle; theory, idle; µs, quarter; "+
		"µs, writing; reads, writing; promised, writing; theory, writing"; got != want {
		t.Errorf("lines %s\nwant  %s", got, want)
	}
	must(t, all[0].SVG(new(bytes.Buffer)))
}

func TestAMeasurementThatFailsIsAnError(t *testing.T) {
	job := growthJob{Dir: t.TempDir(), Keys: 1000, Value: 100, Budget: 8 << 20, Lookups: 1000}
	var m measured
	err := cli.Again(t.Context(), []string{measureName}, job, &m) // an empty store: every present key is missing
	if err != nil || m.Present.Wrong != 1000 || m.Absent.Wrong != 0 {
		t.Errorf("%v: %d of 1000 keys are not found", err, m.Present.Wrong)
	}
	job.Dir = filepath.Join(job.Dir, "none", "none\x00")
	if err := cli.Again(t.Context(), []string{measureName}, job, &m); err == nil ||
		!strings.Contains(err.Error(), "open") {
		t.Errorf("a store that cannot be opened: %v", err)
	}
}

func TestAMeasurementInAGroupTakesItsMemory(t *testing.T) {
	group, err := newGroup(1 << 30)
	if err != nil {
		t.Skip(err)
	}
	defer func() { must(t, removeGroup(group)) }()
	job := growthJob{Dir: t.TempDir(), Keys: 1000, Value: 100, Budget: 8 << 20, Lookups: 1000, Group: group}
	var m measured
	must(t, cli.Again(t.Context(), []string{measureName}, job, &m))
	peak, err := os.ReadFile(filepath.Join(group, "memory.peak"))
	if err != nil { // the first version of control groups
		peak, err = os.ReadFile(filepath.Join(group, "memory.max_usage_in_bytes"))
	}
	must(t, err)
	if n, err := strconv.Atoi(strings.TrimSpace(string(peak))); err != nil || n < 1<<20 || n > 1<<30 {
		t.Errorf("the group had %s bytes at most (%v), want 1 MiB to 1 GiB", peak, err)
	}
}

func TestWrongFlagsOfGrowthAreNamed(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"growth --keys 10", "--keys 10: want at least 1000"},
		{"growth --keys many", `"many"`},
		{"growth --keys 2k,1k", "--keys 2k,1k: want rising numbers"},
		{"growth --budget 4", "--budget 4: want at least 8"},
		{"growth --kind cuckoo", `"cuckoo"`},
		{"growth --lookups 10", "--lookups"},
		{"growth --puts 0", "--puts"},
		{"growth --state eighth", `"eighth"`},
		{"growth --value -1", "--value"},
		{"growth extra", "extra"},
		{"growth --keys 1k --dir /dev/null/none", "/dev/null/none"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), strings.Fields(c.args), &cli.Streams{Out: &out, Err: &errs})
		if code != cli.ExitTrouble || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit code %d, %q; want %d and %q", c.args, code, errs.String(), cli.ExitTrouble, c.want)
		}
		if out.Len() > 0 {
			t.Errorf("%s: printed %q beside the error", c.args, out.String())
		}
	}
}

func TestAnInterruptRemovesTheStores(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"growth", "--keys=1000000", "--dir=" + dir},
		&cli.Streams{Out: &out, Err: &errs}); code != cli.ExitInterrupted {
		t.Errorf("exit code %d, %s", code, errs.String())
	}
	leftNothing(t, dir)
}

func TestAClosedPipeRemovesTheStores(t *testing.T) {
	dir := t.TempDir()
	r, w, err := os.Pipe()
	must(t, err)
	must(t, r.Close())
	defer w.Close()
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0], "growth", "--keys=2k", "--budget=8", "--lookups=2000",
		"--dir="+dir)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), cli.AgainVariable+"=1"), w, &errs
	if err := cmd.Run(); err == nil {
		t.Errorf("no error of a closed pipe, %q", &errs)
	}
	leftNothing(t, dir)
}

// TestAnInterruptedGrowthKeepsItsRows interrupts it while the second size is measured.
func TestAnInterruptedGrowthKeepsItsRows(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out, errs := &cancelAt{text: "\nauto, 8 MiB", cancel: cancel}, &bytes.Buffer{}
	args := strings.Fields("growth --keys 2k,400k --budget 8 --lookups 2000 --dir " + t.TempDir())
	if code := run(ctx, args, &cli.Streams{Out: out, Err: errs}); code != cli.ExitInterrupted {
		t.Errorf("exit code %d, %s", code, errs)
	}
	if want := "stopped after 1 of 4 measurements: interrupted"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out)
	}
}
