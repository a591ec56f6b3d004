package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

var must = testkit.Must

// Filters are measured exactly in the tests of filterexam.
func init() { filterexam.MostProbes = 1 << 19 }

// names returns the members of a JSON object, sorted.
func names(t *testing.T, text string) []string {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return slices.Sorted(maps.Keys(object))
}

// firstOf returns the first member of a list in a JSON object.
func firstOf(t *testing.T, text, list string) string {
	t.Helper()
	var object map[string]json.RawMessage
	must(t, json.Unmarshal([]byte(text), &object))
	var members []json.RawMessage
	if err := json.Unmarshal(object[list], &members); err != nil || len(members) == 0 {
		t.Fatalf("%s: %v, want members: %s", list, err, text)
	}
	return string(members[0])
}

func manyLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "key/%06d\tvalue %d\n", i, i*i)
	}
	return b.String()
}

// glob returns the only file of a store that matches a pattern.
func glob(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v; want one file", pattern, found, err)
	}
	return found[0]
}

// TestGoldenNamesInJSON keeps the names of the members of what commands print, which are promised.
func TestGoldenNamesInJSON(t *testing.T) {
	dir := newStore(t, manyLines(3000))
	var got strings.Builder
	for _, c := range []struct {
		args []string
		list string // the names in its first member too
	}{
		{[]string{"get", dir, "key/000007"}, ""},
		{[]string{"stats", dir}, "levels"},
		{[]string{"stats", dir, "--tables"}, "by_table"},
		{[]string{"check", dir}, ""},
		{[]string{"load", dir}, ""},
		{[]string{"ingest", dir}, ""},
		{[]string{"compact", dir, "--from", "x"}, ""},
		{[]string{"checkpoint", dir, dir + "-copy"}, ""},
		{[]string{"export", dir, dir + "-export"}, ""},
		{[]string{"import", dir + "-import", dir + "-export"}, ""},
		{[]string{"backup", dir, dir + "-target"}, ""},
		{[]string{"backups", dir + "-target"}, "generations"},
		{[]string{"restore", dir + "-target", dir + "-restored"}, ""},
		{[]string{"inspect", glob(t, dir, "*.sst")}, "units"},
		{[]string{"inspect", dir}, "tables"},
		{[]string{"inspect", glob(t, dir, "MANIFEST-*")}, ""},
	} {
		out := (tool{}).must(t, append(c.args, "--json")...)
		for i, arg := range c.args {
			if filepath.IsAbs(arg) {
				c.args[i] = filepath.Base(arg)
			}
		}
		fmt.Fprintf(&got, "%s\n  %s\n", strings.Join(c.args, " "), strings.Join(names(t, out), "\n  "))
		if c.list != "" {
			first := names(t, firstOf(t, out, c.list))
			fmt.Fprintf(&got, "  first of %s\n    %s\n", c.list, strings.Join(first, "\n    "))
		}
	}
	testkit.Golden(t, filepath.Join("testdata", "names.txt"), got.String())
}

func TestStatsShowWhatFiltersHaveAnswered(t *testing.T) {
	dir := newStore(t, manyLines(3000))
	if out := (tool{}).must(t, "stats",
		dir); !regexp.MustCompile(`\n +0 +3\.13e-05 +\S+\n`).MatchString(out) {
		t.Errorf("of a store that was never asked:\n%s", out)
	}
	db, err := bloomkv.Open(dir, nil)
	must(t, err)
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	for i := range 30000 {
		if _, err := db.Get(fmt.Appendf(nil, "key/%06d.%d", i%2999, i)); !errors.Is(err, bloomkv.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if err := errors.Join(db.Put([]byte("key"), nil), db.Close()); err != nil { // so that Close writes a manifest
		t.Fatal(err)
	}
	out := (tool{}).must(t, "stats", dir, "--tables")
	shown := regexp.MustCompile(`(?m)^ *0*\d+ +6 +1/3 +\S+ kB +0\.00855 +0\.00\d+ +0\.0\d+ +\d+ +(2|3)\d,\d{3}\n`)
	if !shown.MatchString(out) {
		t.Errorf("no table with a measured rate:\n%s", out)
	}
	tables, _, _ := strings.Cut(out, "\n2 tables")
	for line := range strings.Lines(tables) {
		if len(line) > 81 {
			t.Errorf("more than 80 columns: %s", line)
		}
	}
	if out := (tool{}).must(t, "inspect", glob(t, dir, "MANIFEST-*")); !strings.Contains(out,
		" negative, 0 true positive, ") {
		t.Errorf("the manifest without counts:\n%s", out)
	}
}

func TestCheckNamesFileAndOffsetOfDamage(t *testing.T) {
	dir := newStore(t, manyLines(3000))
	out := (tool{}).must(t, "check", dir)
	if !strings.HasPrefix(out, "ok: 1 table in 1 run on 1 level, 3,000 entries") {
		t.Errorf("of a whole store: %q", out)
	}
	table := glob(t, dir, "*.sst")
	whole := readFile(t, table)
	// A byte in the first data block, one in the filter (found by its magic number), one in the footer.
	filter := bytes.Index(whole, []byte("bloomblk"))
	for _, at := range []int{100, filter + bloomblock.HeaderSize + 3, len(whole) - 20} {
		broken := bytes.Clone(whole)
		broken[at] ^= 0x10
		writeFile(t, table, broken)
		r := tool{}.run(t, "check", dir)
		if r.code != cli.ExitTrouble || r.out != "" || !strings.Contains(r.err, filepath.Base(table)+": offset ") {
			t.Errorf("byte %d damaged: exit %d, %q, %q; want 2 and the address", at, r.code, r.out, r.err)
		}
		r = tool{}.run(t, "check", dir, "--json")
		var report struct {
			OK     bool
			Damage []damageReport
		}
		must(t, json.Unmarshal([]byte(r.out), &report))
		if r.code != cli.ExitTrouble || report.OK || len(report.Damage) != 1 ||
			report.Damage[0].File != filepath.Base(table) || report.Damage[0].Reason == "" {
			t.Errorf("byte %d damaged: exit %d, %+v; want 2 and one damage in the table", at, r.code, report)
		}
	}
	must(t, os.Remove(table))
	if r := (tool{}).run(t, "check", dir); r.code != cli.ExitTrouble || !strings.Contains(r.err, filepath.Base(table)) {
		t.Errorf("without its table: exit %d, %q", r.code, r.err)
	}
}

func TestInspectShowsADamagedFilterAndReadsGoOn(t *testing.T) {
	dir := newStore(t, manyLines(3000))
	table := glob(t, dir, "*.sst")
	b := readFile(t, table)
	b[bytes.Index(b, []byte("bloomblk"))+bloomblock.HeaderSize+3] ^= 1
	writeFile(t, table, b)
	for _, of := range []string{dir, table} {
		r := tool{}.run(t, "inspect", of)
		if r.code != cli.ExitTrouble || !strings.Contains(r.out, "3000") ||
			!strings.Contains(r.err, filepath.Base(table)+": offset ") {
			t.Errorf("inspect %s: exit %d, %q, %q; want 2, the facts, and the damage", filepath.Base(of), r.code, r.out,
				r.err)
		}
	}
	if out := (tool{}).must(t, "stats", dir); !strings.Contains(out, "1 table with a damaged filter") {
		t.Errorf("stats: %s", out)
	}
	if out := (tool{}).must(t, "stats", "--json", dir); !strings.Contains(out, `"filters_damaged": 1,`) {
		t.Errorf("stats --json: %s", out)
	}
	if out := (tool{}).must(t, "get", dir, "key/000007"); out != "value 49" {
		t.Errorf("get with a damaged filter: %q", out)
	}
	if r := (tool{}).run(t, "get", dir, "key/000007!"); r.code != exitAbsent {
		t.Errorf("get of an absent key: exit %d, %q; want 1", r.code, r.err)
	}
}

func TestInspectShowsADamagedSampleBesideTheFilter(t *testing.T) {
	dir := newStore(t, manyLines(3000))
	table := glob(t, dir, "*.sst")
	b := readFile(t, table)
	b[bytes.Index(b, []byte("bloomsmp"))+30] ^= 1
	writeFile(t, table, b)
	r := tool{}.run(t, "inspect", table)
	if r.code != cli.ExitTrouble || !strings.Contains(r.out, " blocked Bloom, ") ||
		strings.Contains(r.out, "\n  sample ") || !strings.Contains(r.err, filepath.Base(table)+": offset ") {
		t.Errorf("exit %d, %q, %q; want 2, the filter, and the damage", r.code, r.out, r.err)
	}
	if out := (tool{}).must(t, "get", dir, "key/000007"); out != "value 49" {
		t.Errorf("get with a damaged sample: %q", out)
	}
}

func TestInspectShowsAManifestUpToItsDamage(t *testing.T) {
	dir := newStore(t, manyLines(3000))
	db, err := bloomkv.Open(dir, nil)
	must(t, err)
	for range 3 { // each adds an edit, which confirms that the earlier ones were durable
		must(t, errors.Join(db.Put([]byte("key"), nil), db.Flush(t.Context())))
	}
	name := glob(t, dir, "MANIFEST-*")
	b, err := os.ReadFile(name)
	must(t, errors.Join(err, db.Close()))
	name = filepath.Join(t.TempDir(), filepath.Base(name))
	writeFile(t, name, b)
	_, number := filename.Parse(filepath.Base(name))
	whole, err := inspect.ReadManifest(t.Context(), name, number)
	if err != nil || len(whole.Offsets) < 4 {
		t.Fatal(err, whole.Offsets)
	}
	b[whole.Offsets[2]-1] ^= 1
	writeFile(t, name, b)
	for _, c := range []struct{ arg, want string }{
		{"--json=false", "edit 1: next file "},
		{"--json", `"records": 1,`},
	} {
		r := tool{}.run(t, "inspect", name, c.arg)
		if r.code != cli.ExitTrouble || !strings.Contains(r.out, c.want) || strings.Contains(r.out, "edit 2") ||
			!strings.Contains(r.err, fmt.Sprintf("offset %d: ", whole.Offsets[1])) {
			t.Errorf("%s: exit %d, %q, %q; want 2, one edit, and the damage at %d", c.arg, r.code, r.out, r.err,
				whole.Offsets[1])
		}
	}
}

func TestADamagedPrefixFilterIsShown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	var lines strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&lines, "user/%04d/%d\tvalue\n", i/2, i)
	}
	if r := (tool{in: lines.String()}).run(t, "load", dir, "--filter-prefix", "sep:/"); r.code != cli.ExitTrouble ||
		!strings.Contains(r.err, `prefix rule "sep:/"`) {
		t.Errorf("a rule that is none: exit %d, %q", r.code, r.err)
	}
	tool{in: lines.String()}.must(t, "load", dir, "--filter-prefix", "sep:/:2")
	table := glob(t, dir, "*.sst")
	b := readFile(t, table)
	b[bytes.LastIndex(b, []byte("bloomblk"))+bloomblock.HeaderSize+3] ^= 1
	writeFile(t, table, b)
	for _, c := range []struct{ of, format, want string }{
		{table, "--json=false", "! prefix filter damaged: "},
		{dir, "--tables", "prefix filter: sep:/:2: damaged"},
		{dir, "--json=false", "filter-damaged, 000003.sst: "},
		{table, "--json", `"error": "`},
		{dir, "--json", `"error": "`},
	} {
		if r := (tool{}).run(t, "inspect", c.of, c.format); r.code != cli.ExitTrouble ||
			!strings.Contains(oneLine(r.out), c.want) || !strings.Contains(r.err, filepath.Base(table)+": offset ") {
			t.Errorf("%s %s: exit %d, %q, want %q:\n%s", c.of, c.format, r.code, r.err, c.want, r.out)
		}
	}
	if out := (tool{}).must(t, "scan", dir, "--prefix",
		"user/0007/"); out != "user/0007/14\tvalue\nuser/0007/15\tvalue\n" {
		t.Errorf("scan: %q", out)
	}
}
