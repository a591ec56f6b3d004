package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/cli"
	"github.com/bloomkv/bloomkv/internal/workload"
)

func TestGrowthMeasuresEachStore(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var r growthReport
	runJSON(t, &r, "growth", "--json", "--keys", "20k,5k", "--tables", "40", "--memory", "64", "--rounds", "2")
	if len(r.Stores) != 3 || r.Rounds != 2 || r.MostRatio != mostRatio || r.FilterFPR != promisedFPR ||
		r.MemoryBudget != 64<<20 {
		t.Fatalf("%d stores, %+v", len(r.Stores), r)
	}
	for i, want := range []struct {
		keys, tables int
		tableSize    int64
	}{{20_000, 1, 0}, {5000, 1, 0}, {5280, 40, smallTable}} {
		s := r.Stores[i]
		if s.Keys != want.keys || s.TableSize != want.tableSize || s.Load.Ops != want.keys ||
			s.Present.Ops != want.keys {
			t.Errorf("store %d: %d keys in tables of %d bytes, %d loaded and %d looked up",
				i, s.Keys, s.TableSize, s.Load.Ops, s.Present.Ops)
		}
		for _, a := range []absence{s.Loaded, s.Compacted} {
			if a.Lookup.Ops != want.keys-1 || a.Runs != 1 ||
				math.Abs(float64(a.Tables-want.tables)) > float64(want.tables)/10 {
				t.Errorf("store %d: %d absent keys in %d runs and %d tables, want about %d tables",
					i, a.Lookup.Ops, a.Runs, a.Tables, want.tables)
			}
			if a.FloorFences != a.Tables || math.Abs(float64(a.FloorBytes)/float64(a.FilterBytes)-1) > 0.1 {
				t.Errorf("store %d: a floor of %d fences and %d bytes for %d tables and %d bytes",
					i, a.FloorFences, a.FloorBytes, a.Tables, a.FilterBytes)
			}
			for _, f := range []comparison{a.Chained, a.Free} {
				if f.Ratio < f.Least || f.Ratio > f.Most || f.StoreNs < 1 || f.FloorNs < 1 || f.Wrong != 0 {
					t.Errorf("store %d: %+v", i, f)
				}
			}
			if a.Chained.Chain != "chained" || a.Free.Chain != "free" {
				t.Errorf("store %d: chains %q and %q", i, a.Chained.Chain, a.Free.Chain)
			}
		}
		if s.Floors == nil {
			t.Fatalf("store %d: no floors", i)
		}
		for _, f := range []comparison{s.Floors.Present, s.Floors.Seek, s.Floors.Scan} {
			if f.Ratio < f.Least || f.Ratio > f.Most || f.StoreNs < 1 || f.FloorNs < 1 || f.Wrong != 0 {
				t.Errorf("store %d: %+v", i, f)
			}
		}
		if m := s.Memory; m.Filters < 1.2 || m.Filters > 3 || m.Indexes <= 0 || m.Cache < 100 {
			t.Errorf("store %d: memory %+v", i, m)
		}
		if perKey := float64(s.TableBytes) / float64(s.Keys); perKey < 116 || perKey > 160 {
			t.Errorf("store %d: %v bytes on disk for a key", i, perKey)
		}
		if o := s.Reopen; o.Open <= 0 || o.Warm < o.Open || o.Warm > time.Minute {
			t.Errorf("store %d: reopened in %v, warm in %v", i, o.Open, o.Warm)
		}
		if s.Met != nil {
			t.Errorf("store %d: judged, with %d keys", i, s.Keys)
		}
	}
	leftNothing(t, os.Getenv("TMPDIR"))
}

// leftNothing checks that a directory for stores is empty.
func leftNothing(t *testing.T, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%d entries left in %s, %v", len(entries), dir, err)
	}
}

func TestGrowthPrintsAPage(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	args := []string{"growth", "--tables=10", "--shape=decimal", "--memory=64", "--rounds=1", "--dir=" + dir}
	must(t, execute(t.Context(), args, &cli.Streams{Out: &out, Err: &out}))
	for _, want := range []string{
		"command: go run ./bench " + strings.Join(args, " ") + "\n",
		"decimal keys, values of 100 bytes, promised 0.01", "1320 as loaded", "1320 compacted",
		"per seek with ten pairs",
		"\nBenchmarkabsent/keys=1320/tables=1",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "1M") {
		t.Errorf("--tables alone has the default --keys too:\n%s", out.String())
	}
	leftNothing(t, dir)
}

func TestARatioIsJudgedWhereItIsPromised(t *testing.T) {
	yes, no := true, false
	r := growthReport{
		MostRatio: 1.5,
		Stores:    []*grown{{Keys: 1_000_000, Met: &yes}, {Keys: 5_000_000, Met: &no}, {Keys: 1000}},
	}
	r.Stores[1].Compacted.Chained = comparison{StoreNs: 160, FloorNs: 100, Ratio: 1.6, Least: 1.5, Most: 1.7}
	var b bytes.Buffer
	must(t, r.print(&b))
	page := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{"≤ 1.5: met", "160.0 100.0 1.60 1.50 1.70 ≤ 1.5: not met"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
	if n := strings.Count(b.String(), "met"); n != 2 {
		t.Errorf("%d judged, want 2:\n%s", n, b.String())
	}
}

func TestWrongAnswersAreCounted(t *testing.T) {
	figures := workload.Figures{Wrong: 2, FirstWrong: "key is not found"}
	for _, c := range []struct {
		store grown
		n     int
		first string
	}{
		{grown{}, 0, ""},
		{grown{Load: figures}, 2, "not found"},
		{grown{Loaded: absence{Lookup: figures}}, 2, "not found"},
		{grown{Compacted: absence{Lookup: figures}}, 2, "not found"},
		{grown{Present: figures}, 2, "not found"},
		{grown{Loaded: absence{Chained: comparison{Wrong: 3}}}, 3, asLoaded},
		{grown{Loaded: absence{Free: comparison{Wrong: 3}}}, 3, asLoaded},
		{grown{Floors: &pairFloors{Seek: comparison{Wrong: 4}}}, 4, "floors"},
		{grown{Compacted: absence{Chained: comparison{Wrong: 3}}}, 3, compacted},
		{grown{Compacted: absence{Free: comparison{Wrong: 3}}, Present: figures}, 5, "not found"},
	} {
		r := growthReport{Stores: []*grown{{}, &c.store}}
		if n, first := r.wrong(); n != c.n || n > 0 && !strings.Contains(first, c.first) {
			t.Errorf("%d wrong, first %q; want %d, %q", n, first, c.n, c.first)
		}
		if err := show(&cli.Streams{Out: io.Discard}, false, &r); errors.Is(err, errWrong) != (c.n > 0) {
			t.Errorf("%d wrong: %v", c.n, err)
		}
	}
	for _, r := range []scaleReport{
		{Checks: []workload.Figures{{}, figures}},
		{Points: []scalePoint{{}, {Lookup: "absent", Wrong: 2}}},
	} {
		if n, first := r.wrong(); n != 2 || first == "" {
			t.Errorf("scale: %d wrong, first %q", n, first)
		}
	}
}

func TestMemoryIsOfAKey(t *testing.T) {
	got := perKey(bloomkv.MemoryMetrics{Filters: 100, Indexes: 50, Cache: 1000, Memtables: 20, RangeDeletes: 30}, 2000,
		10)
	if want := (memoryPerKey{Filters: 10, Indexes: 5, Cache: 100, Memtables: 2, Other: 80}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestWrongFlagsOfGrowthAndScaleAreNamed(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"growth --keys 10", "--keys 10: want at least 1000"},
		{"growth --keys many", `"many"`},
		{"growth --tables 0", `"0"`},
		{"growth --rounds 0", "--rounds 0"},
		{"growth --memory 1", "--memory 1"},
		{"growth --value -1", "--value -1"},
		{"growth --shape round", "round"},
		{"growth extra", "extra"},
		{"growth --keys 1k --dir /dev/null/none", "/dev/null/none"},
		{"scale --keys 10", "--keys 10"},
		{"scale --ops 10", "--ops 10"},
		{"scale --workers 2,4", "--workers 2,4"},
		{"scale --workers 1,1", "--workers 1,1"},
		{"scale --workers 1,4,2", "--workers 1,4,2"},
		{"scale --workers 1,1000", "--workers 1,1k"},
		{"scale --rounds -1", "--rounds -1"},
		{"scale --dir /dev/null/none", "/dev/null/none"},
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
	for _, command := range []string{"growth", "scale"} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		var out, errs bytes.Buffer
		if code := run(ctx, []string{command, "--keys=1000000", "--dir=" + dir},
			&cli.Streams{Out: &out, Err: &errs}); code != cli.ExitInterrupted {
			t.Errorf("%s: exit code %d, %s", command, code, errs.String())
		}
		leftNothing(t, dir)
	}
}
