package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// demoLines returns a file of n lines whose keys look like paths.
func demoLines(t *testing.T, n int) string {
	t.Helper()
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "src/%03d/%02x/file_%d.go\t%d first line of the file\n", i%71, i%13, i, i*i)
	}
	name := filepath.Join(t.TempDir(), "lines.tsv")
	writeFile(t, name, b.Bytes())
	return name
}

func TestDemoKeepsItsPromise(t *testing.T) {
	testkit.Long(t)
	keep := filepath.Join(t.TempDir(), "kept")
	data := demoLines(t, 6000)
	const absents = 200_000
	out := (tool{}).must(t, "demo", "--data", data, "--keep", keep, "--json", "--absent", strconv.Itoa(absents))
	want := []string{
		"keys", "filter_bytes", "fpr_promised", "wasted_reads_per_absent", "wasted_reads_per_absent_without_filters",
		"blocks_per_present", "blocks_per_absent", "absent_ns", "present_ns", "wrong_answers",
		"absent_lookups", "absent_ns_without_filters", "absent_per_second", "bits_per_key",
		"blocks_per_absent_without_filters", "blocks_per_present_without_filters", "compactions", "flushes",
		"fpr_measured",
		"fpr_per_probe", "input", "kept", "levels", "moves", "present_ns_without_filters", "present_per_second", "runs",
		"seed", "table_reads", "table_reads_without_filters",
		"wasted_reads_per_overlapping_run_without_filters",
	}
	slices.Sort(want)
	if got := names(t, out); !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
	var f demoResult
	must(t, json.Unmarshal([]byte(out), &f))
	if f.Keys != 6000 || f.WrongAnswers != 0 || f.Absents != absents {
		t.Errorf("%d keys, %d absent lookups, %d wrong answers", f.Keys, f.Absents, f.WrongAnswers)
	}
	if len(f.Levels) < 3 && f.Runs < 4 {
		t.Errorf("%d levels with %d runs, want 3 or 4", len(f.Levels), f.Runs)
	}
	entries := uint64(0)
	for _, l := range f.Levels {
		entries += l.Entries
		if l.Level == 0 && l.Entries < uint64(l.Runs*demoRun) {
			t.Errorf("level 0 has %d runs of %d keys in all, want %d in each", l.Runs, l.Entries, demoRun)
		}
	}
	if entries != 6000 {
		t.Errorf("the levels hold %d entries", entries)
	}
	if f.FPRPromised != 0.01 || f.WastedReads > 1.15*f.FPRPromised {
		t.Errorf("%v wasted reads for an absent lookup, want at most 1.15 × %v", f.WastedReads, f.FPRPromised)
	}
	if f.WastedPerRun < 0.99 || f.WastedReadsWithout < 2 {
		t.Errorf("without filters %v wasted reads, %v for an overlapping run", f.WastedReadsWithout, f.WastedPerRun)
	}
	if f.BlocksPresent < 1 || f.BlocksPresent > 1.1 || f.BlocksAbsent > 0.02 || f.AbsentNs <= 0 || f.PresentNs <= 0 ||
		f.FilterBytes <= 0 {
		t.Errorf("figures out of range: %s", out)
	}

	lookups := float64(f.Absents)
	if got, want := float64(f.TableReadsWithout-f.TableReads)/lookups, f.WastedReadsWithout-f.WastedReads; got < want {
		t.Errorf("filters save %g reads for each absent lookup, want at least the %g that would be wasted", got, want)
	}

	// The kept directory is an ordinary store with its filters and the input.
	tool{}.must(t, "check", keep)
	lines := readFile(t, data)
	sorted := slices.Sorted(strings.Lines(string(lines)))
	if dump := (tool{}).must(t, "dump", keep); dump != strings.Join(sorted, "") {
		t.Error("the store that was kept does not hold the input")
	}
	if r := (tool{}).run(t, "demo", "--data", data, "--keep", keep); r.code != cli.ExitTrouble ||
		!strings.Contains(r.err, "is not empty") {
		t.Errorf("a second demo there: exit %d, %q", r.code, r.err)
	}
}

func TestDemoPageShowsTheFiguresAndAFilter(t *testing.T) {
	testkit.Long(t)
	t.Setenv("TMPDIR", t.TempDir())
	out := (tool{}).must(t, "demo", "--data", demoLines(t, demoFewest), "--absent", "20000")
	for _, want := range []string{
		"3,000 lines of ", fmt.Sprintf("(seed %d)", demoSeed), "level  runs", "promised 0.0100 wasted reads",
		"with filters", "without",
		"wasted reads per absent lookup", "blocks per present lookup", "absent lookups per second", "blocked Bloom, ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the page lacks %q:\n%s", want, out)
		}
	}
	last := oneLine(out[strings.LastIndex(out, "\n\n"):])
	if !regexp.MustCompile(`^An absent key cost 0\.0\d+ table reads instead of [1-9]\S*: filters saved [0-9,]+ of ` +
		`[0-9,]+\. To see it in a browser: bloomkv demo --keep DIR && bloomkv serve DIR$`).MatchString(last) {
		t.Errorf("the last sentence is %q", last)
	}
	keep := filepath.Join(t.TempDir(), "kept")
	out = (tool{}).must(t, "demo", "--data", demoLines(t, demoFewest), "--absent", "1000", "--keep", keep)
	if want := "To see it in a browser: bloomkv serve " + keep + "\n"; !strings.HasSuffix(out, want) {
		t.Errorf("of a store that is kept, the page does not end with %q:\n%s", want, out)
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDemoRefusesInputThatProvesNothing(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad")
	writeFile(t, bad, []byte("a\t1\nb\n"))
	for _, c := range []struct{ name, file, err string }{
		{"too few keys", demoLines(t, demoFewest-1), "2,999 keys, want at least 3000"},
		{"a line that is none", bad, "line 2: no TAB"},
		{"no file", bad + "x", "no such file"},
		{"a directory", t.TempDir(), "is a directory"},
	} {
		if r := (tool{}).run(t, "demo", "--data", c.file); r.code != cli.ExitTrouble ||
			!strings.Contains(r.err, c.err) {
			t.Errorf("%s: exit %d, %q; want 2 and %q", c.name, r.code, r.err, c.err)
		}
	}
}

func TestDemoSeesWrongAnswers(t *testing.T) {
	var pairs []workload.Pair
	for i := range demoFewest {
		pairs = append(pairs, workload.Pair{Key: fmt.Appendf(nil, "key/%05d", i), Value: []byte("right")})
	}
	set, err := workload.NewPairs(pairs)
	must(t, err)
	d := demo{app: &app{}, set: set, dir: filepath.Join(t.TempDir(), "store"), options: demoOptions(set), absents: 1000}
	must(t, d.fill(t.Context(), new(demoResult)))
	if c, err := d.measure(t.Context(), d.options, ""); err != nil || c.wrong != 0 {
		t.Fatalf("%d wrong answers, %v; want none", c.wrong, err)
	}
	// The store is correct, so the set is made wrong: a key with another value, and a missing key.
	pairs[7].Value = []byte("left")
	if d.set, err = workload.NewPairs(append(pairs, workload.Pair{Key: []byte("key/00007/not stored")})); err != nil {
		t.Fatal(err)
	}
	if c, err := d.measure(t.Context(), d.options, ""); err != nil || c.wrong != 4 ||
		!strings.Contains(c.firstWrong, "key/00007") {
		t.Errorf("%d wrong answers, the first %q, %v; want 2 in each of two passes", c.wrong, c.firstWrong, err)
	}
}

func TestARateByACoarseClockIsANumber(t *testing.T) {
	if got := perSecond(&workload.Figures{MedianNs: 50}); got != 2e7 {
		t.Errorf("lookups of 50 ns: %g a second, want 20 million", got)
	}
	if _, err := json.Marshal(perSecond(new(workload.Figures))); err != nil {
		t.Errorf("lookups of 0 ns: %v", err)
	}
}

func TestDemoRefusesMoreAbsentKeysThanThereAre(t *testing.T) {
	data := demoLines(t, demoFewest)
	for _, n := range []string{"0", "-1", "2000000000"} {
		if r := (tool{}).run(t, "demo", "--data", data, "--absent", n); r.code != cli.ExitTrouble ||
			!strings.Contains(r.err, "--absent "+n) {
			t.Errorf("--absent %s: exit %d, %q", n, r.code, r.err)
		}
	}
}

func TestTheSourceTreeIsRead(t *testing.T) {
	root := t.TempDir()
	deep := "test/d/d/d/x"
	files := map[string]string{
		"VERSION": "go1\nmore\n", "src/a/b.go": "// first\npackage b\n", "src/empty.go": "",
		deep:     strings.Repeat("y", 200_000),
		"bin/go": "program", "pkg/x.a": "archive",
	}
	for name, text := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(file), 0o700))
		writeFile(t, file, []byte(text))
	}
	if err := os.Symlink(filepath.Join(root, "VERSION"), filepath.Join(root, "src", "link")); err != nil {
		t.Logf("no links here: %v", err)
	}
	seen := 0
	pairs, err := readTree(t.Context(), root, func(files int) { seen = files })
	must(t, err)
	var want []workload.Pair // not bin, not pkg, and not the link
	for _, f := range []struct{ name, line string }{
		{"VERSION", "go1"}, {"src/a/b.go", "// first"}, {"src/empty.go", ""}, {deep, strings.Repeat("y", firstLine)},
	} {
		sum := sha256.Sum256([]byte(files[f.name]))
		want = append(want,
			workload.Pair{
				Key:   []byte(f.name),
				Value: fmt.Appendf(nil, "%d %x %s", len(files[f.name]), sum[:16], f.line),
			})
	}
	slices.SortFunc(pairs, func(a, b workload.Pair) int { return bytes.Compare(a.Key, b.Key) })
	same := func(a, b workload.Pair) bool { return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) }
	if seen != len(want) || !slices.EqualFunc(pairs, want, same) {
		t.Errorf("%d seen, %q; want %q", seen, pairs, want)
	}
}
