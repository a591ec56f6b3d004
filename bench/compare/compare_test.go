package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/workload"
)

// TestMain is the program itself where the program has started the test binary as its worker.
func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestEveryEngineAnswersRight(t *testing.T) {
	for _, name := range engineNames() {
		for _, shape := range []workload.Shape{workload.Random, workload.Prefixed} {
			t.Run(name+" with "+shape.String()+" keys", func(t *testing.T) {
				t.Parallel() // they wait for the trees to settle
				c := config{keys: 3000, value: 100, shape: shape}
				rows, err := measure(t.Context(), c, name, filepath.Join(t.TempDir(), "store"), 0, "")
				if err != nil {
					t.Fatal(err)
				}
				seen := make(map[string]bool)
				for _, r := range rows {
					seen[r.Figures.Phase] = true
					if r.Figures.Wrong > 0 || r.nsPerOp() <= 0 || r.Figures.Ops < 2999 || !slices.Contains(columns(), r.Column) {
						t.Errorf("%s: %+v", r.Column, r.Figures)
					}
				}
				for _, phase := range phases {
					if !seen[phase] {
						t.Errorf("no figures of %s", phase)
					}
				}
			})
		}
	}
}

func TestEnginesTakeTurnsInProcessesOfTheirOwn(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "table.txt")
	var out, errs bytes.Buffer
	args := []string{"--keys", "1000", "--rounds", "2", "--engines", "bloomkv,goleveldb", "--dir", dir, "--out", file, "--json"}
	if err := run(t.Context(), args, &out, &errs); err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	var turns []string
	for _, row := range r.Rows {
		if row.Figures.Phase == phaseLoad {
			turns = append(turns, row.Column)
		}
	}
	if want := []string{"bloomkv", "goleveldb", "goleveldb", "bloomkv"}; !slices.Equal(turns, want) {
		t.Errorf("turns %q, want %q", turns, want)
	}
	if len(r.Table) != 8 || errs.Len() > 0 {
		t.Errorf("%d cells, want 8; on the error stream %q", len(r.Table), errs.String())
	}
	page, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(page, []byte("wrong answers: 0")) || !bytes.Contains(page, []byte("command: go -C bench/compare run . --keys 1000")) {
		t.Errorf("the table: %v\n%s", err, page)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d directories left, %v", len(left), err)
	}
}

func TestARatioIsTheMedianOfTheRounds(t *testing.T) {
	figures := func(ns float64) workload.Figures {
		return workload.Figures{Phase: phaseAbsent, MedianNs: ns, MeanNs: 1e9}
	}
	table := tabulate([]row{
		{"bloomkv", 0, figures(100)},
		{"goleveldb", 0, figures(200)},
		{"goleveldb", 1, figures(500)},
		{"bloomkv", 1, figures(100)},
		{"bloomkv", 2, figures(300)},
		{"goleveldb", 2, figures(400)},
	})
	want := []cell{
		{Phase: phaseAbsent, Column: "bloomkv", Ns: 100, Least: 100, Most: 300},
		{Phase: phaseAbsent, Column: "goleveldb", Ns: 400, Least: 200, Most: 500, Ratio: 0.5}, // of 0.5, 0.2, 0.75
	}
	if !slices.Equal(table, want) {
		t.Errorf("got  %+v\nwant %+v", table, want)
	}
}

func TestWrongFlagsAreNamed(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--shape round", "round"},
		{"--engines bloomkv,tape", `"tape"`},
		{"--rounds 0", "--rounds 0"},
		{"--keys -1", "-1"},
		{"--worker tape", "--worker"},
		{"--worker tape/1", `"tape"`},
		{"extra", "extra"},
	} {
		var out bytes.Buffer
		err := run(t.Context(), strings.Fields(test.args), &out, &out)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want an error with %q", test.args, err, test.want)
		}
	}
}
