package main

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/workload"
)

func TestFloorsComparesEachStore(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var r floorsReport
	runJSON(t, &r, "floors", "--json", "--keys", "20k,5k", "--memory", "64", "--rounds", "2")
	if len(r.Stores) != 2 || r.Rounds != 2 || r.MostRatio != mostRatio || r.FilterFPR != promisedFPR ||
		r.MemoryBudget != 64<<20 {
		t.Fatalf("%d stores, %+v", len(r.Stores), r)
	}
	for i, keys := range []int{20_000, 5000} {
		s := r.Stores[i]
		if s.Keys != keys || s.Tables != 1 || s.Met != nil || s.Pairs == nil {
			t.Fatalf("store %d: %+v", i, s)
		}
		if s.FloorFences != s.Tables || math.Abs(float64(s.FloorBytes)/float64(s.FilterBytes)-1) > 0.1 {
			t.Errorf("store %d: a floor of %d fences and %d bytes for %d tables and %d bytes",
				i, s.FloorFences, s.FloorBytes, s.Tables, s.FilterBytes)
		}
		for _, f := range []comparison{s.Chained, s.Free, s.Pairs.Present, s.Pairs.Seek, s.Pairs.Scan} {
			if f.Ratio < f.Least || f.Ratio > f.Most || f.StoreNs < 1 || f.FloorNs < 1 || f.Wrong != 0 {
				t.Errorf("store %d: %+v", i, f)
			}
		}
		if s.Chained.Chain != "chained" || s.Free.Chain != "free" {
			t.Errorf("store %d: chains %q and %q", i, s.Chained.Chain, s.Free.Chain)
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

func TestFloorsPrintsAPage(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	args := []string{"floors", "--keys=1320", "--shape=decimal", "--memory=64", "--rounds=1", "--dir=" + dir}
	must(t, execute(t.Context(), args, &cli.Streams{Out: &out, Err: &out}))
	for _, want := range []string{
		"command: go run ./bench " + strings.Join(args, " ") + "\n",
		"decimal keys, values of 100 bytes, promised 0.01", "\n  1320 ", "per seek with ten pairs",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	leftNothing(t, dir)
}

func TestARatioIsJudgedWhereItIsPromised(t *testing.T) {
	yes, no := true, false
	r := floorsReport{
		MostRatio: 1.5,
		Stores:    []*floored{{Keys: 1_000_000, Met: &yes}, {Keys: 5_000_000, Met: &no}, {Keys: 1000}},
	}
	r.Stores[1].Chained = comparison{StoreNs: 160, FloorNs: 100, Ratio: 1.6, Least: 1.5, Most: 1.7}
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
	bad := workload.Figures{Wrong: 2, FirstWrong: "key is not found"}
	for _, c := range []struct {
		report figures
		n      int
		first  string
	}{
		{&floorsReport{Stores: []*floored{{}, {}}}, 0, ""},
		{&floorsReport{Stores: []*floored{{}, {Chained: comparison{Wrong: 3}}}}, 3, "absent key"},
		{&floorsReport{Stores: []*floored{{Free: comparison{Wrong: 3}}}}, 3, "absent key"},
		{&floorsReport{Stores: []*floored{{}, {Pairs: &pairFloors{Seek: comparison{Wrong: 4}}}}}, 4, "floors"},
		{&growthReport{Rows: []grown{{}, {}}}, 0, ""},
		{&growthReport{Rows: []grown{{}, {measured: measured{Absent: phase{Figures: bad}}}}}, 2, "not found"},
		{&growthReport{Rows: []grown{{}, {measured: measured{Present: phase{Figures: bad}}}}}, 2, "not found"},
		{&scaleReport{Checks: []workload.Figures{{}, bad}}, 2, "not found"},
		{&scaleReport{Points: []scalePoint{{}, {Lookup: "absent", Wrong: 2}}}, 2, ""},
	} {
		if n, first := c.report.wrong(); n != c.n || n > 0 && (first == "" || !strings.Contains(first, c.first)) {
			t.Errorf("%d wrong, first %q; want %d, %q", n, first, c.n, c.first)
		}
		if err := show(&cli.Streams{Out: io.Discard}, true, c.report); errors.Is(err, errWrong) != (c.n > 0) {
			t.Errorf("%d wrong: %v", c.n, err)
		}
	}
}
