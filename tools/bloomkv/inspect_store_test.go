package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

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

func TestTablesTakeALineThatFitsTheTerminal(t *testing.T) {
	key := strings.Repeat("k", 45)
	s, err := inspect.ReadStore(t.Context(), newStore(t, key+"\t1\n"), inspect.Options{})
	must(t, err)
	for _, c := range []struct {
		style inspect.Style
		want  string // the row
	}{
		{inspect.Style{}, " 2560.0 8.57e-31 kkkkkkkkkkk… kkkkkkkkkkk… "},
		{inspect.Style{Width: 120}, strings.Repeat("k", 31) + "… " + strings.Repeat("k", 31) + "… "},
		{inspect.Style{Width: 200}, key + " " + key + " "},
		{inspect.Style{Tables: true}, "first key: " + key + "; last key: " + key + "; from: "},
	} {
		var out strings.Builder
		s.WriteText(&out, c.style)
		if text := oneLine(out.String()) + " "; !strings.Contains(text, c.want) {
			t.Errorf("%+v: no %q in %s", c.style, c.want, text)
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
		"000003.sst 0 3 10 ", "000999.sst 0 999 10 ", "tables of further runs",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q", want)
		}
	}
	if n := strings.Count(out.String(), "\n"); strings.Contains(text, "000500.sst 0") || n > 1500 {
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
