package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// shortStore returns a store whose filters do not fit in the smallest memory: two million keys of 31 bits each.
func shortStore(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	db, err := bloomkv.Open(dir, &bloomkv.Options{FilterFPR: 1e-6})
	must(t, err)
	must(t, errors.Join(db.Ingest(t.Context(), func(yield func(bloomkv.KV, error) bool) {
		for i := 0; i < 2_200_000 && yield(bloomkv.KV{Key: fmt.Appendf(nil, "%09d", i)}, nil); i++ {
		}
	}, bloomkv.IngestOptions{}), db.Compact(t.Context(), bloomkv.CompactOptions{}), db.Close()))
	return dir
}

func TestInspectAndStatsSayWhatMemoryKeeps(t *testing.T) {
	testkit.Long(t)
	dir := shortStore(t)
	t.Run("inspect", func(t *testing.T) { inspectSaysWhatMemoryKeeps(t, dir) })
	t.Run("stats", func(t *testing.T) { statsSaysWhatMemoryKeeps(t, dir) })
}

// inspectSaysWhatMemoryKeeps looks at a store with too little memory, and with enough, as text, JSON and a page.
func inspectSaysWhatMemoryKeeps(t *testing.T, dir string) {
	t.Helper()
	read := func(args ...string) (s inspect.Store) {
		t.Helper()
		out := tool{}.must(t, append([]string{"inspect", dir, "--json"}, args...)...)
		must(t, json.Unmarshal([]byte(out), &s))
		return s
	}
	const little = "a MemoryBudget of 8 MiB is too little for the filters that a rate of 1e-06 takes: while the "
	enough := read()
	if p := enough.Promise; len(enough.Flags) != 0 || p.MemoryBudget != 64<<20 || p.Writing.FPR != 1e-6 ||
		p.Writing.Budget <= p.Idle.Budget {
		t.Errorf("%+v, %+v, want no flags", p, enough.Flags)
	}
	if out := (tool{}).must(t, "inspect", dir); !strings.Contains(out, "No problems found.") ||
		strings.Contains(out, "memory-short") {
		t.Errorf("with enough memory:\n%s", out)
	}
	short := read("--budget", "8")
	needs := fmt.Sprintf("; %d MiB would hold all filters", short.Promise.Writing.Budget>>20)
	if f := short.Flags; len(f) != 1 || f[0].Name != inspect.MemoryShort || !strings.HasPrefix(f[0].Meaning, little) ||
		!strings.HasSuffix(f[0].Meaning, needs) || short.Promise.Writing.Budget != enough.Promise.Writing.Budget {
		t.Errorf("flags %+v, want %q … %q", f, little, needs)
	}
	page, _ := pageOf(t, dir, "--budget", "8")
	for what, text := range map[string]string{
		"text": oneLine((tool{}).must(t, "inspect", dir, "--budget", "8")), "page": oneLine(page),
	} {
		for _, want := range []string{
			"A" + little[1:], needs,
			"No data is lost: filters only save reads. Open the store with Options.MemoryBudget of ",
			fmt.Sprintf("%.3g", short.Promise.Writing.FPR), fmt.Sprintf("%.3g", short.Promise.Idle.FPR),
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%.4000s", what, want, text)
			}
		}
		if what == "text" && strings.Contains(text, "No problems found") { // the page says it of single tables
			t.Errorf("%.4000s", text)
		}
	}
	w := read("--budget", "8", "--what-if", "kind=ribbon,fpr=0.0002", "--what-if", "kind=bloom").WhatIf
	if w[0].FPR != 2e-4 || w[1].FPR < 1e-5 || w[1].Bytes > 8<<20/2*15/16 {
		t.Errorf("%+v, want filters that fit, and some that do not", w)
	}
	for _, c := range []struct{ args, want string }{
		{dir + " --budget 7", "--budget 7, want 8 to 1048576"},
		{dir + " --budget NaN", "--budget NaN, want 8 to"},
		{glob(t, dir, "MANIFEST-*") + " --budget 64", "--budget is for stores, want a directory"},
	} {
		if r := (tool{}).run(t, append([]string{"inspect"}, strings.Fields(c.args)...)...); r.code != cli.ExitTrouble ||
			!strings.Contains(r.err, c.want) {
			t.Errorf("%s: exit %d, %q, want %q", c.args, r.code, r.err, c.want)
		}
	}
}

// statsSaysWhatMemoryKeeps opens the same store with too little memory, and with enough.
func statsSaysWhatMemoryKeeps(t *testing.T, dir string) {
	t.Helper()
	var short, enough storeStats
	must(t, json.Unmarshal([]byte((tool{}).must(t, "stats", dir, "--budget", "8", "--json")), &short))
	must(t, json.Unmarshal([]byte((tool{}).must(t, "stats", dir, "--json")), &enough))
	if short.Memory.Budget != 8<<20 || short.FPRPromised <= 1e-6 || short.FPRAsked != 1e-6 ||
		short.BudgetNeeded <= 8<<20 || short.InMemory != (filterParts{Whole: 1, Half: 1}) || short.FiltersShed != 1 {
		t.Errorf("%+v, want a promise that is not kept", short)
	}
	if enough.Memory.Budget != 64<<20 || enough.FPRPromised != 1e-6 || enough.InMemory != (filterParts{Whole: 2}) ||
		enough.BudgetNeeded != short.BudgetNeeded {
		t.Errorf("%+v, want a promise that is kept", enough)
	}
	text := oneLine(tool{}.must(t, "stats", dir, "--budget", "8", "--tables"))
	for _, want := range []string{
		fmt.Sprintf("fpr asked 1e-06, fpr promised %.4g,", short.FPRPromised),
		fmt.Sprintf("memory is too short for the rate that is asked: all filters need a MemoryBudget of %d MiB",
			short.BudgetNeeded>>20),
		"filters in memory: whole of 1 table, at least half of 1, less of 0, none of 0",
		"table level units memory promised",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if text := oneLine(tool{}.must(t, "stats", dir)); strings.Contains(text, "too short") ||
		strings.Contains(text, "filters in memory:") {
		t.Errorf("a promise that is kept:\n%s", text)
	}
	if r := (tool{}).run(t, "stats", dir, "--budget", "7"); r.code != cli.ExitTrouble ||
		!strings.Contains(r.err, "--budget 7, want 8 to") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
}

func TestTablesAreCountedByWhatTheyHaveInMemory(t *testing.T) {
	table := func(file uint64, memory int64, units int, shed bool) bloomkv.TableMetrics {
		return bloomkv.TableMetrics{
			FilterBytes: file, FilterBytesInMemory: memory, FilterUnits: units, FilterShed: shed,
		}
	}
	p := partsOf([]bloomkv.TableMetrics{
		table(0, 0, 0, false), table(1000, 900, 1, false), table(1000, 400, 1, false), table(1000, 500, 2, true),
		table(1000, 499, 1, true), table(1000, 1, 1, true), table(1000, 0, 0, true),
	})
	if want := (filterParts{Whole: 2, Half: 1, Less: 2, None: 1}); p != want {
		t.Errorf("%+v, want %+v", p, want)
	}
}
