package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// TestTextAndJSONOfAStoreAgree finds every number of the text in the object, and every figure of the object in the
// text.
func TestTextAndJSONOfAStoreAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("millions of probes of filters, by one goroutine")
	}
	many := filepath.Join(t.TempDir(), "store")
	tool{in: manyLines(30_000)}.must(t, "load", many)
	for range 3 {
		tool{in: manyLines(1000)}.must(t, "load", many)
	}
	for _, dir := range append(manyShapes(t), many) {
		args := []string{"inspect", dir, "--verify", "--what-if", "fpr=0.001", "--what-if", "memory=1,kind=ribbon"}
		text, object := tool{}.must(t, args...), tool{}.must(t, append(args, "--json")...)
		colored := treeColor.ReplaceAllString(tool{terminal: true}.must(t, args...), "")
		for line := range strings.Lines(text + colored) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > words.Width ||
				line != string(words.AppendPrintable(nil, []byte(line))) {
				t.Errorf("a line of %d characters: %q", n, line)
			}
		}
		var all any
		must(t, json.Unmarshal([]byte(object), &all))
		have := []float64{60, 10, 64} // columns, bytes of a block
		numbers(all, func(f float64) { have = append(have, f, 10*f, 100*f) })
		// The digits of the drawing and the columns of the matrix are not figures.
		var kept []string
		picture := regexp.MustCompile(`^ +\d+ +\d+  [\[\]!0-9 ]+$`)
		for line := range strings.Lines(text) {
			if !picture.MatchString(strings.TrimSuffix(line, "\n")) &&
				!strings.HasPrefix(line, strings.Repeat(" ", 14)) {
				kept = append(kept, line)
			}
		}
		for i := range 64 {
			have = append(have, float64(i))
		}
		for _, digits := range number.FindAllString(ungrouped(strings.Join(kept, "")), -1) {
			printed, err := strconv.ParseFloat(digits, 64)
			must(t, err)
			if !slices.ContainsFunc(have, func(f float64) bool { return agrees(digits, printed, math.Abs(f)) }) {
				t.Errorf("%s: the text has %s, the object nothing like it:\n%s", filepath.Base(dir), digits, text)
			}
		}
		var s inspect.Store
		must(t, json.Unmarshal([]byte(object), &s))
		agreeOnFigures(t, text, &s)
	}
}

// agreeOnFigures finds the rows of the tables of levels and of what-if, and memory by part.
func agreeOnFigures(t *testing.T, text string, s *inspect.Store) {
	t.Helper()
	fields := ungrouped(oneLine(text))
	want := func(format string, args ...any) {
		t.Helper()
		if row := fmt.Sprintf(format, args...); !strings.Contains(fields, row) {
			t.Errorf("no %q in\n%s", row, text)
		}
	}
	figures := func(name string, f *inspect.Figures) {
		t.Helper()
		want("%s %d %d %d %d %d %d %d %.2f",
			name, f.Runs, f.Tables, f.Entries, f.Keys, f.Bytes, f.FilterDisk, f.FilterBytes, f.BitsPerKey)
		if l := f.Live; l != nil && l.FalsePositives+l.FilterNegatives > 0 {
			want("%s %.3g %.3g %.3g %.3g %.3g", name, f.Promised, f.Predicted, f.Optimum, f.Even, f.Measured)
		} else {
			want("%s %.3g %.3g %.3g %.3g –", name, f.Promised, f.Predicted, f.Optimum, f.Even)
		}
	}
	for i := range s.Levels {
		figures(strconv.Itoa(s.Levels[i].Level), &s.Levels[i].Figures)
	}
	figures("all", &s.Tree)
	m := &s.Memory
	want("filters of keys %d ", m.Filters)
	want("prefix filters %d ", m.PrefixFilters)
	want("indexes %d ", m.Indexes)
	want("range deletes %d ", m.RangeDeletes)
	want("tables %d ", m.Tables)
	want("all %d ", m.Sum)
	want("only on disk %d of filters, beyond those in memory only on disk %d parts of indexes, read when "+
		"needed only on disk %d samples", m.FiltersOnDisk, m.IndexesOnDisk, m.SamplesOnDisk)
	for _, w := range s.WhatIf {
		want("%s %s %.3g %d %d %+d %.3g", w.Asked, w.Kind, w.FPR, w.Memory, w.Bytes, w.More, w.Wasted)
		for _, l := range w.Levels {
			want("%d %d %.2f %d %.3g", l.Level, l.Keys, l.BitsPerKey, l.Bytes, l.Wasted)
		}
		want("waste %.3g reads, now %.3g", w.Wasted, s.Tree.Predicted)
		if w.AtRest > 0 {
			want("in one run a level, %.3g are promised", w.AtRest)
		}
	}
	if o := s.Overlap; o != nil && o.Known {
		want("about %.0f keys (standard error %.0f), and drop %.0f entries", o.Written, o.Err, o.Garbage)
	}
	for i := range s.Tables {
		f := &s.Tables[i]
		want("%s: level: %d; run: %d; bytes: %d; entries: %d; bits/key: %.1f; promised: %.3g; rate in memory: %.3g;",
			f.File, *f.Level, *f.Run, f.Bytes, f.Entries, f.BitsPerKey, f.FPRPromised, f.Place.FPR)
		if f.FilterBytes > 0 {
			want("blocks: %d; deletes: %d; range deletes: %d; filter: %d;", f.Blocks, f.Deletes, f.RangeDels,
				f.FilterBytes)
			want("units in memory: %d; bytes in memory: %d", f.Place.Units, f.Place.FilterBytes)
		}
	}
}

func TestThePictureOfATreeHasItsTables(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	tool{in: manyLines(6000)}.must(t, "load", dir)
	tool{}.must(t, "compact", dir)
	lines := strings.SplitAfter(manyLines(6000), "\n")
	tool{in: strings.Join(lines[:1], "")}.must(t, "load", dir, "--fpr", "1")
	tool{in: strings.Join(lines[1500:4500], "")}.must(t, "load", dir, "--fpr", "0.01") // the half in the middle
	out := tool{}.must(t, "inspect", dir)
	for _, want := range []string{
		`(?m)^    0 +\d+  !$`,
		`(?m)^    0 +\d+ {16,18}\[4{26,30}\]$`,
		`(?m)^    6 +\d+  \[2{58}\]$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

func TestAStoreOfVeryManyTablesIsCutShort(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	tool{in: manyLines(10)}.must(t, "load", dir)
	s, err := inspect.ReadStore(t.Context(), dir, inspect.Options{})
	must(t, err)
	one := s.Tables[0]
	for i := range 1000 {
		more := one
		run := uint64(i)
		more.File, more.Run, more.Bytes = fmt.Sprintf("%06d.sst", i), &run, uint64(i)
		s.Tables = append(s.Tables, more)
		s.Flags = append(s.Flags,
			inspect.Flag{Name: inspect.NoFilter, File: fmt.Sprintf("%06d.sst", i%30), Meaning: "none"})
	}
	var out strings.Builder
	s.WriteText(&out, inspect.Style{})
	text := oneLine(out.String())
	for _, want := range []string{
		"1,001 tables; 801 are not listed, only the flagged and the largest ones; --json has all",
		"! and 980 flags more",
		"000003.sst: level: 0", "000999.sst: level: 0", "tables of further runs",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q", want)
		}
	}
	if n := strings.Count(out.String(), "\n"); strings.Contains(text, "000500.sst: level: 0") || n > 1500 {
		t.Errorf("%d lines", n)
	}
}

func TestWhatIfIsOfAStore(t *testing.T) {
	dir := newStore(t, manyLines(3000))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{dir, "--what-if", "fpr=2"}, `--what-if: fpr="2", want more than 0, at most 1`},
		{[]string{dir, "--what-if", "fpr=0.1,memory=1"}, "--what-if: fpr and memory are given, want one of them"},
		{[]string{glob(t, dir, "*.sst"), "--what-if", "fpr=0.1"}, "--what-if is for stores"},
		{[]string{dir, "--what-if", "fpr=1e-12"}, "is out of reach"},
	} {
		if r := (tool{}).run(t, append([]string{"inspect"}, c.args...)...); r.code != cli.ExitTrouble || r.out != "" ||
			!strings.Contains(r.err, c.want) {
			t.Errorf("%q: exit %d, %q, %q; want %q", c.args, r.code, r.out, r.err, c.want)
		}
	}
}

func TestVerifyOfAStoreShowsHowFarItIsAndCanBeStopped(t *testing.T) {
	dir := newStore(t, manyLines(3000))
	for _, terminal := range []bool{false, true} {
		r := tool{terminal: terminal}.run(t, "inspect", dir, "--verify")
		if drawn := strings.Contains(r.err, "verify"); r.code != cli.ExitOK || drawn != terminal {
			t.Errorf("terminal %v: exit %d, %q on the error stream", terminal, r.code, r.err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := inspect.ReadStore(ctx, dir, inspect.Options{Verify: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v; want that it was stopped", s, err)
	}
}
