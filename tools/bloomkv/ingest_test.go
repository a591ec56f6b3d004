package main

import (
	"bytes"
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
)

func TestIngestStoresWhatLoadDoes(t *testing.T) {
	lines := manyLines(5000)
	for _, format := range []string{"tsv", "hex", "json"} {
		dump := (tool{}).must(t, "dump", newStore(t, lines), "--format", format)
		file := filepath.Join(t.TempDir(), "lines")
		writeFile(t, file, []byte(dump))
		dir := filepath.Join(t.TempDir(), "store")
		if out := (tool{}).must(t, "ingest", dir, file, "--format", format); out != "" {
			t.Errorf("%s: printed %q in a pipe, want nothing", format, out)
		}
		if got := (tool{}).must(t, "dump", dir); got != lines {
			t.Errorf("%s: the store does not have the lines", format)
		}
		if out := (tool{}).must(t, "check", dir); !strings.HasPrefix(out,
			"ok: 1 table in 1 run on 1 level, 5,000 entries") {
			t.Errorf("%s: %s", format, out)
		}
	}
	dir := newStore(t, "a\told\nb\told\n")
	out := tool{in: "b\tnew\r\nc\tnew\r\n", terminal: true}.must(t, "ingest", dir, "-", "--crlf")
	if out != "2 lines, 8 bytes of keys and values\n" {
		t.Errorf("printed %q on a terminal", out)
	}
	if got := (tool{}).must(t, "dump", dir); got != "a\told\nb\tnew\nc\tnew\n" {
		t.Errorf("the store has %q", got)
	}
	if out := (tool{}).must(t, "ingest", dir, "--json"); out != "{\n  \"lines\": 0,\n  \"bytes\": 0\n}\n" {
		t.Errorf("of no lines: %q", out)
	}
}

func TestIngestReplacesARange(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string // keys
	}{
		{"nothing, without a flag", nil, "a b ba bb c d "},
		{"all", []string{"--replace"}, "b ba d "},
		{"from a key on", []string{"--replace-from", "bb"}, "a b ba d "},
		{"before a key", []string{"--replace-to", "bb"}, "b ba bb c d "},
		{"between keys", []string{"--replace-from", "b", "--replace-to", "c"}, "a b ba c d "},
		{"a prefix", []string{"--replace-prefix", "b"}, "a b ba c d "},
		{"a prefix in hexadecimal", []string{"--hex", "--replace-prefix", "62"}, "a b ba c d "},
		{"an empty range", []string{"--replace-from", "c", "--replace-to", "a"}, "a b ba bb c d "},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := newStore(t, "a\t1\nb\t1\nbb\t1\nc\t1\n")
			tool{in: "b\t2\nba\t2\nd\t2\n"}.must(t, append([]string{"ingest", dir}, c.args...)...)
			if got := (tool{}).must(t, "scan", dir, "--keys"); got != strings.ReplaceAll(c.want, " ", "\n") {
				t.Errorf("keys %q, want %q", got, c.want)
			}
			if got := (tool{}).must(t, "get", dir, "b"); got != "2" {
				t.Errorf("b has %q, want the new value", got)
			}
		})
	}
}

func TestIngestStoresAllOrNothing(t *testing.T) {
	many := manyLines(20_000) // more than what is read ahead
	long := strings.Repeat("k", bloomkv.MaxKeySize+1)
	dir := newStore(t, "a\t1\nz\t2\n")
	before := readDir(t, dir)
	for _, c := range []struct {
		name, in, err string
		args          []string
	}{
		{
			"keys out of order", "b\t1\nd\t2\nc\t3\n",
			"standard input: line 3: key c after d: keys are not in strictly ascending order", nil,
		},
		{
			"a key twice", "b\t1\nb\t2\n",
			"standard input: line 2: key b again: keys are not in strictly ascending order", nil,
		},
		{"the empty key twice", "\t1\n\t2\n", "line 2: key  again: ", nil},
		{
			"out of order at the end of many", many + "key/000007\t1\n",
			"line 20001: key key/000007 after key/019999: ",
			nil,
		},
		{"a key that drives terminals", "b\x1b[2J\t1\na\x1b[2J\t2\n", `line 2: key a\x1b[2J after b\x1b[2J: `, nil},
		{"no TAB", "b\t1\nc\n", "line 2: no TAB, want key TAB value", nil},
		{"a key that is too long", "b\t1\n" + long + "\t2\n", "line 2: key of 65537 bytes, want at most 65536", nil},
		{"not JSON", "x\n", "line 1: invalid character 'x'", []string{"--format", "json"}},
		{"no carriage return", "b\t1\n", "line 1: ends without a carriage return", []string{"--crlf"}},
		{
			"everything replaced by nothing", "", "standard input: the input is empty, want at least one line",
			[]string{"--replace"},
		},
		{
			"a range replaced by nothing", "", "the input is empty, want at least one line",
			[]string{"--replace-prefix", "a"},
		},
		{
			"a range that is everything", "b\t1\n", "the range is the whole store: use --replace",
			[]string{"--replace-prefix", ""},
		},
		{
			"replace, and a range of it", "b\t1\n",
			"--replace and a range are given, want only one of them; see bloomkv ingest --help",
			[]string{"--replace", "--replace-to", "c"},
		},
		{"a range that is not hexadecimal", "b\t1\n", `--replace-to "xy": `, []string{"--hex", "--replace-to", "xy"}},
		{"a format that is none", "b\t1\n", `format "xml", want tsv, hex, json`, []string{"--format", "xml"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := tool{in: c.in}.run(t, append([]string{"ingest", dir}, c.args...)...)
			if r.code != cli.ExitTrouble || r.out != "" || !strings.Contains(r.err, c.err) {
				t.Errorf("exit %d, %q, %q; want 2 and %q", r.code, r.out, r.err, c.err)
			}
			checkPrintable(t, c.args, r.err)
			if got := (tool{}).must(t, "dump", dir); got != "a\t1\nz\t2\n" {
				t.Errorf("the store has %q", got)
			}
		})
	}
	sameTables(t, before, readDir(t, dir))
}

// sameTables checks that a store has the same tables as before and no logs. File numbers may have been used.
func sameTables(t *testing.T, before, after map[string]string) {
	t.Helper()
	for _, files := range []map[string]string{before, after} {
		maps.DeleteFunc(files, func(name, _ string) bool {
			return strings.HasPrefix(name, "MANIFEST-") || name == "CURRENT" || name == "LOCK"
		})
	}
	if !maps.Equal(after, before) {
		t.Errorf("the store has the files %q, want %q as before", slices.Sorted(maps.Keys(after)),
			slices.Sorted(maps.Keys(before)))
	}
}

func TestAnInterruptedIngestStoresNothing(t *testing.T) {
	dir := newStore(t, "a\t1\n")
	before := readDir(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	in := &stuckReader{lines: strings.NewReader("b\t1\nc\t2\nd"), stuck: cancel, end: make(chan struct{})}
	defer close(in.end)
	var out, errs bytes.Buffer
	a := &app{Streams: cli.Streams{In: in, Out: &out, Err: &errs}}
	if code := a.run(ctx, []string{"ingest", dir, "--replace"}); code != cli.ExitInterrupted ||
		!strings.HasPrefix(errs.String(), "bloomkv: interrupted: ") {
		t.Errorf("exit %d, want %d: %s", code, cli.ExitInterrupted, &errs)
	}
	sameTables(t, before, readDir(t, dir))
	if got := (tool{}).must(t, "dump", dir); got != "a\t1\n" {
		t.Errorf("the store has %q", got)
	}
}
