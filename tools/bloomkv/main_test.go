package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
)

// A tool runs the tool in this process.
type tool struct {
	in       string
	terminal bool
}

// A result is the outcome of a run.
type result struct {
	code     int
	out, err string
}

func (o tool) run(t *testing.T, args ...string) result {
	t.Helper()
	return o.runUntil(t.Context(), args...)
}

// runUntil runs the tool, which the end of ctx interrupts.
func (o tool) runUntil(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	a := &app{Streams: cli.Streams{
		In: strings.NewReader(o.in), Out: &out, Err: &errs, OutTerminal: o.terminal,
		ErrTerminal: o.terminal, Color: o.terminal,
	}}
	code := a.run(ctx, args)
	return result{code, out.String(), errs.String()}
}

// must runs the tool, fails unless it succeeds, and returns its output.
func (o tool) must(t *testing.T, args ...string) string {
	t.Helper()
	r := o.run(t, args...)
	if r.code != cli.ExitOK {
		t.Fatalf("bloomkv %q: exit %d, want 0: %s", args, r.code, r.err)
	}
	return r.out
}

// oneLine returns text with single spaces between its words, since messages are wrapped.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	return b
}

func writeFile(t *testing.T, name string, b []byte) {
	t.Helper()
	must(t, os.WriteFile(name, b, 0o600))
}

// newStore creates a store of the lines and returns its directory.
func newStore(t *testing.T, lines string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	tool{in: lines}.must(t, "load", dir, "--filter-seed", "1") // tests compare figures of filters
	return dir
}

func TestExitCodesTellAnswersFromTrouble(t *testing.T) {
	dir := newStore(t, "a\t1\nb\t2\n")
	plain := filepath.Join(t.TempDir(), "plain")
	writeFile(t, plain, []byte("not a table"))
	for _, c := range []struct {
		name string
		args []string
		code int
		err  string // in it
	}{
		{"a key that is there", []string{"get", dir, "a"}, 0, ""},
		{"an absent key", []string{"get", dir, "c"}, 1, "key c: not found\n"},
		{"an escaped key", []string{"get", dir, `c\x00`}, 1, `c\\x00: not found; if KEY was printed by scan`},
		{"a backslash in a key", []string{"get", "--escaped", dir, `c\x00`}, 1, "not found\n"},
		{"a deleted absent key", []string{"del", dir, "zzz"}, 0, ""},
		{"no command", nil, 0, ""},
		{"a command that is none", []string{"fetch"}, 2, `unknown command "fetch"`},
		{"too few arguments", []string{"get", dir}, 2, "see bloomkv get --help"},
		{"a flag that is none", []string{"get", dir, "a", "--speed"}, 2, "see bloomkv get --help"},
		{"a format that is none", []string{"dump", dir, "--format", "xml"}, 2, `format "xml", want tsv, hex, json`},
		{"a key that is not hexadecimal", []string{"get", "--hex", dir, "xy"}, 2, `key "xy"`},
		{"a filter rate that is none", []string{"load", dir, "--fpr", "0"}, 2, "--fpr 0"},
		{"a filter rate out of reach", []string{"load", dir, "--fpr", "1e-12"}, 2, "out of r"},
		{
			"a key that is too long",
			[]string{"put", dir, strings.Repeat("k", 65537), "b"},
			2,
			"key of 65537 bytes, want at most 65536",
		},
		{"a limit below 0", []string{"scan", dir, "--limit", "-1"}, 2, "--limit -1"},
		{"a file to load that is a directory", []string{"load", dir, dir}, 2, "is a directory"},
		{"a file to load that is not there", []string{"load", dir, plain + "x"}, 2, "no such file"},
		{"a file that is not a table", []string{"inspect", plain}, 2, "plain is not a file of a store that"},
		{"a lock file", []string{"inspect", filepath.Join(dir, "LOCK")}, 2, "cannot be inspected"},
		{"a file to ingest that is a directory", []string{"ingest", dir, dir}, 2, "is a directory"},
		{"a file to ingest that is not there", []string{"ingest", dir, plain + "x"}, 2, "no such file"},
		{"a file to ingest that is not lines", []string{"ingest", dir, plain}, 2, "plain: line 1: no TAB"},
		{"a bound that is not hexadecimal", []string{"scan", dir, "--hex", "--from", "xy"}, 2, `--from "xy"`},
		{"a range to compact that is not hexadecimal", []string{"compact", dir, "--hex", "--to", "xy"}, 2, `--to "xy"`},
		{"a key to inspect that is not escaped", []string{"inspect", dir, "--key", `\q`}, 2, `--key "\\q"`},
		{"crlf for json", []string{"load", dir, "--format", "json", "--crlf"}, 2, "--crlf is for tsv"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := tool{}.run(t, c.args...)
			if r.code != c.code || !strings.Contains(r.err, c.err) {
				t.Errorf("exit %d, %q; want %d, %q", r.code, r.err, c.code, c.err)
			}
			if r.code != 0 && (!strings.HasPrefix(r.err, "bloomkv: ") || r.out != "") {
				t.Errorf("printed %q, and %q as the error", r.out, r.err)
			}
		})
	}
}

// fullDisk fails to write anything.
type fullDisk struct{}

var errFull = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestWhatCannotBePrintedIsAnErrorToldOnce(t *testing.T) {
	dir := newStore(t, "a\t1\nb\t2\n")
	for _, args := range [][]string{
		{},
		{"help", "get"},
		{"completion", "bash"},
		{"get", dir, "a"},
		{"scan", dir},
		{"dump", dir},
		{"count", dir},
		{"size", dir},
		{"stats", dir},
		{"stats", dir, "--json"},
		{"check", dir},
		{"check", dir, "--json"},
		{"inspect", dir},
		{"compact", dir},
		{"compact", dir, "--json"},
	} {
		var errs bytes.Buffer
		a := &app{Streams: cli.Streams{In: strings.NewReader(""), Out: fullDisk{}, Err: &errs}}
		code := a.run(t.Context(), args)
		if code != cli.ExitTrouble || strings.Count(errs.String(), errFull.Error()) != 1 {
			t.Errorf("bloomkv %q: exit %d, %q; want 2, and %q once", args, code, &errs, errFull)
		}
	}
}

func TestReadingCommandsNeverCreateAStore(t *testing.T) {
	for _, args := range [][]string{
		{"get", "", "k"},
		{"scan", ""},
		{"dump", ""},
		{"count", ""},
		{"size", ""},
		{"stats", ""},
		{"check", ""},
		{"inspect", ""},
		{"serve", ""},
		{"digest", ""},
		{"del", "", "k"},
		{"del", "", "--prefix", "k"},
		{"compact", ""},
		{"checkpoint", "", filepath.Join(t.TempDir(), "copy")},
	} {
		parent := t.TempDir()
		args[1] = filepath.Join(parent, "store")
		if r := (tool{}).run(t, args...); r.code != cli.ExitTrouble || args[0] != "inspect" &&
			!strings.Contains(r.err, "no store here") {
			t.Errorf("%s of no store: exit %d, %q; want 2 and an error that says so", args[0], r.code, r.err)
		}
		empty := filepath.Join(parent, "empty")
		must(t, os.Mkdir(empty, 0o700))
		args[1] = empty
		if r := (tool{}).run(t, args...); r.code != cli.ExitTrouble || !strings.Contains(r.err, "no store here") {
			t.Errorf("%s of an empty directory: exit %d, %q; want 2 and an error that says so", args[0], r.code, r.err)
		}
		for _, dir := range []string{parent, empty} {
			entries, err := os.ReadDir(dir)
			must(t, err)
			for _, e := range entries {
				if e.Name() != "empty" {
					t.Errorf("%s made %s", args[0], e.Name())
				}
			}
		}
	}
}

// readDir returns the content of every file of a store.
func readDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	files := make(map[string]string)
	for _, e := range entries {
		b := readFile(t, filepath.Join(dir, e.Name()))
		files[e.Name()] = string(b)
	}
	return files
}

// uncleanStore returns the directory of a store with a table and a log, as the death of a process leaves it, with or
// without its lock file.
func uncleanStore(t *testing.T, lock bool) string {
	t.Helper()
	dir := newStore(t, "a\t1\nb\t2\n")
	db, err := bloomkv.Open(dir, nil)
	must(t, err)
	defer db.Close()
	must(t, db.Put([]byte("b"), []byte("3")))
	left := t.TempDir()
	for name, content := range readDir(t, dir) {
		if name == "LOCK" && !lock {
			continue
		}
		writeFile(t, filepath.Join(left, name), []byte(content))
	}
	return left
}

func TestReadingCommandsChangeNothingAndSeeWhatIsInLogs(t *testing.T) {
	for _, lock := range []bool{true, false} {
		dir := uncleanStore(t, lock)
		before := readDir(t, dir)
		reader, err := openToRead(t.Context(), dir) // a reader does not disturb them
		must(t, err)
		for _, c := range []struct {
			args []string
			out  string // in it
		}{
			{[]string{"get", dir, "b"}, "3"},
			{[]string{"scan", dir}, "a\t1\nb\t3\n"},
			{[]string{"scan", dir, "--reverse"}, "b\t3\na\t1\n"},
			{[]string{"dump", dir}, "a\t1\nb\t3\n"},
			{[]string{"count", dir}, "2\n"},
			{[]string{"size", dir}, "\n"},
			{[]string{"stats", dir}, "1 table"},
			{[]string{"stats", dir}, "1 log of a store that was not closed cleanly"},
			{[]string{"stats", dir, "--json"}, `"logs": 1,`},
			{[]string{"check", dir}, "1 log, 1 record"},
			{[]string{"inspect", dir}, ".log"},
		} {
			if out := (tool{}).must(t, c.args...); !strings.Contains(out, c.out) {
				t.Errorf("%q, lock %v: got %q, want %q in it", c.args, lock, out, c.out)
			}
			if after := readDir(t, dir); !maps.Equal(after, before) {
				t.Fatalf("%q, lock %v: the store was changed", c.args, lock)
			}
		}
		if lock {
			if r := (tool{}).run(t, "put", dir, "c", "4"); r.code != cli.ExitTrouble ||
				!strings.Contains(r.err, "already open, here or in another process") ||
				!strings.Contains(r.err, "has it open; inspect and serve work beside it") ||
				runtime.GOOS == "linux" && !strings.Contains(r.err, fmt.Sprintf("\nbloomkv: process %d", os.Getpid())) {
				t.Errorf("put beside a reader: exit %d, %q; want 2 and an error that says so", r.code, r.err)
			}
		}
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestStatsCheckAndInspectCountTheSameLogs(t *testing.T) {
	dir := uncleanStore(t, true)
	log := glob(t, dir, "*.log")
	for _, older := range []bool{false, true} {
		if older { // a process died between the edit that made a log redundant and its removal
			b, err := os.ReadFile(log)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "000001.log"), b, 0o600)
			}
			must(t, err)
		}
		_, s := readStore(t, dir)
		if len(s.Logs) != 1 || s.Logs[0].File != filepath.Base(log) || (len(s.Others) == 1) != older || older &&
			s.Others[0].Fate != "removed" {
			t.Errorf("older %v: inspect has logs %+v, others %+v", older, s.Logs, s.Others)
		}
		for _, c := range [][]string{{"stats", `"logs": 1,`}, {"check", `"logs": 1,`}} {
			if out := (tool{}).must(t, c[0], dir, "--json"); !strings.Contains(out, c[1]) {
				t.Errorf("older %v: %s prints %s, want %s", older, c[0], out, c[1])
			}
		}
	}
}

func TestHelpTellsExitCodesAndCompletionIsThere(t *testing.T) {
	if out := (tool{}).must(t, "--help"); !strings.Contains(oneLine(out), oneLine(exitHelp)) {
		t.Errorf("help has no exit codes:\n%s", out)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := (tool{}).must(t, "completion", shell); !strings.Contains(out, "bloomkv") {
			t.Errorf("no completion for %s", shell)
		}
	}
	for _, command := range []string{"load", "ingest", "dump"} {
		if out := (tool{}).must(t, "__complete", command, "--format", ""); !strings.HasPrefix(out, "tsv\nhex\njson\n") {
			t.Errorf("the formats of %s are completed as %q", command, out)
		}
	}
}

// hostile contains bytes that control terminals: escape sequences of 7 and 8 bits, bells, carriage returns, direction
// marks, and invalid UTF-8.
const hostile = "\x1b]0;owned\a\x1b[2J\u009b31m\r\b\x7f\u202e\u2066\xff\xc2"

func TestNothingStoredDrivesATerminal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	tool{in: hostile}.must(t, "put", dir, hostile)
	tool{}.must(t, "put", dir, "plain", hostile)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables %q, %v; want some", tables, err)
	}
	manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("manifests %q, %v; want some", manifests, err)
	}
	for _, args := range [][]string{
		{"get", dir, hostile},
		{"get", dir, hostile, "--json"},
		{"get", dir, hostile + "absent"},
		{"get", hostile, "key"},
		{"scan", dir},
		{"scan", dir, "--json"},
		{"scan", dir, "--keys"},
		{"scan", dir, "--reverse"},
		{"dump", dir},
		{"dump", dir, "--format", "json"},
		{"dump", dir, "--format", "hex"},
		{"inspect", dir},
		{"inspect", dir, "--json"},
		{"inspect", tables[0], "--json"},
		{"inspect", manifests[0]},
		{"inspect", manifests[0], "--json"},
		{hostile},
		{"get", "--" + hostile},
		{"load", dir, hostile},
		{"ingest", dir, hostile},
		{"del", dir, "--prefix", hostile, hostile},
		{"del", dir, "--hex", "--prefix", hostile},
		{"demo", "--data", hostile},
	} {
		r := (tool{terminal: true}).run(t, args...)
		if r.out == "" && r.err == "" {
			t.Errorf("%q: printed nothing", args)
		}
		checkPrintable(t, args, treeColor.ReplaceAllString(r.out+r.err, ""))
	}
	// Without colors the text of a table and of its entries has no escape sequences either.
	var out bytes.Buffer
	a := &app{Streams: cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out, OutTerminal: true}}
	args := []string{"inspect", "--entries", tables[0]}
	if code := a.run(t.Context(), args); code != cli.ExitOK {
		t.Errorf("%q: exit %d, want 0", args, code)
	}
	checkPrintable(t, args, out.String())
}

// treeColor matches the colors of the drawing of a tree.
var treeColor = regexp.MustCompile("\x1b\\[(38;5;16;48;5;[0-9]+|0)m")

func checkPrintable(t *testing.T, args []string, text string) {
	t.Helper()
	if plain := words.AppendPrintable(nil,
		[]byte(strings.ReplaceAll(text, "\n", ""))); string(plain) != strings.ReplaceAll(text, "\n", "") {
		t.Errorf("%q printed %q, which could drive a terminal", args, text)
	}
}

func TestInPipesBytesAreThemselves(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	tool{in: hostile}.must(t, "put", dir, "key")
	if out := (tool{}).must(t, "get", dir, "key"); out != hostile {
		t.Errorf("get printed %q, want %q", out, hostile)
	}
	if out := (tool{}).must(t, "dump", dir); out != "key\t"+hostile+"\n" {
		t.Errorf("dump printed %q", out)
	}
}

func TestAnInterruptEndsALoadThatWaits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	ctx, cancel := context.WithCancel(t.Context())
	in := &stuckReader{lines: strings.NewReader("a\t1\nb\t2\nc"), stuck: cancel, end: make(chan struct{})}
	defer close(in.end)
	var out, errs bytes.Buffer
	a := &app{Streams: cli.Streams{In: in, Out: &out, Err: &errs}}
	if code := a.run(ctx, []string{"load", dir}); code != cli.ExitInterrupted ||
		!strings.HasPrefix(errs.String(), "bloomkv: interrupted: ") {
		t.Errorf("exit %d, want %d: %s", code, cli.ExitInterrupted, &errs)
	}
	if got, want := (tool{}).must(t, "dump", dir), "a\t1\nb\t2\n"; got != want {
		t.Errorf("the store has %q, want %q: the whole lines before the interrupt", got, want)
	}
}

func TestAnInterruptedDemoLeavesNothingBehind(t *testing.T) {
	parent := t.TempDir()
	t.Setenv("TMPDIR", parent)
	data := demoLines(t, demoFewest)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // interrupts once the store is begun
		defer cancel()
		for begun, err := os.ReadDir(parent); err == nil && len(begun) == 0; begun, err = os.ReadDir(parent) {
			time.Sleep(time.Millisecond)
		}
	}()
	var out, errs bytes.Buffer
	a := &app{Streams: cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}}
	if code := a.run(ctx, []string{"demo", "--data", data}); code != cli.ExitInterrupted || out.Len() > 0 {
		t.Errorf("exit %d, want %d: %s%s", code, cli.ExitInterrupted, &out, &errs)
	}
	left, err := os.ReadDir(parent)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A stuckReader returns its lines, calls stuck, and then blocks.
type stuckReader struct {
	lines *strings.Reader
	stuck func()
	end   chan struct{}
}

func (s *stuckReader) Read(p []byte) (int, error) {
	if s.lines.Len() > 0 {
		return s.lines.Read(p)
	}
	s.stuck()
	<-s.end
	return 0, os.ErrClosed
}
