package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
)

func TestABadLineIsNamedAndAllBeforeItIsStored(t *testing.T) {
	long := strings.Repeat("k", bloomkv.MaxKeySize+1)
	for _, c := range []struct {
		name, in, err, stored string
		args                  []string
	}{
		{"no TAB", "a\t1\nb\t2\nc\n", "standard input: line 3: no TAB", "a\t1\nb\t2\n", nil},
		{"an empty line", "a\t1\n\nb\t2\n", "line 2: no TAB", "a\t1\n", nil},
		{"the first line", "a\n", "line 1: no TAB, want key TAB value (0 lines stored before it)", "", nil},
		{
			"a key that is too long", "a\t1\n" + long + "\t2\n", "line 2: key of 65537 bytes, want at most 65536",
			"a\t1\n", nil,
		},
		{
			"not JSON", `{"key":"a","value":"1"}` + "\nx\n", "line 2: invalid character 'x'", "a\t1\n",
			[]string{"--format", "json"},
		},
		{"not hexadecimal", "61\t31\n61\t3\n", "line 2: value: ", "a\t1\n", []string{"--format", "hex"}},
		{
			"no carriage return", "a\t1\r\nb\t2\n", "line 2: ends without a carriage return", "a\t1\n",
			[]string{"--crlf"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := newStore(t, "")
			r := tool{in: c.in}.run(t, append([]string{"load", dir}, c.args...)...)
			if r.code != cli.ExitTrouble || !strings.Contains(r.err, c.err) || r.out != "" {
				t.Errorf("exit %d, %q; want 2 and %q", r.code, r.err, c.err)
			}
			if got := (tool{}).must(t, "dump", dir); got != c.stored {
				t.Errorf("stored %q, want %q", got, c.stored)
			}
		})
	}
}

func TestCarriageReturnsAreValuesUnlessToldOtherwise(t *testing.T) {
	for _, c := range []struct{ flag, want string }{
		{"--crlf=false", "a\t1\r\nb\t\r\r\n"},
		{"--crlf", "a\t1\nb\t\r\n"},
	} {
		dir := filepath.Join(t.TempDir(), "store")
		tool{in: "a\t1\r\nb\t\r\r\n"}.must(t, "load", dir, c.flag)
		if got := (tool{}).must(t, "dump", dir); got != c.want {
			t.Errorf("%s: %q, want %q", c.flag, got, c.want)
		}
	}
}

func TestOfEqualKeysTheLastCounts(t *testing.T) {
	if got := (tool{}).must(t, "dump", newStore(t, "a\t1\nb\t2\na\t3\n")); got != "a\t3\nb\t2\n" {
		t.Errorf("got %q", got)
	}
}

func TestLoadReadsWhatDumpWrote(t *testing.T) {
	testkit.Long(t)
	rng := rand.New(rand.NewPCG(7, 7))
	want := make(map[string]string)
	first := filepath.Join(t.TempDir(), "store")
	db, err := bloomkv.Open(first, nil)
	must(t, err)
	random := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32()) >> rng.UintN(3) // some of it text
		}
		return string(b)
	}
	for range 2000 {
		want[random(rng.IntN(20))] = random(rng.IntN(200))
	}
	want[""], want[hostile] = "", hostile
	want["long"] = random(1 << 20) // much longer than a batch
	want["zeros"] = string(make([]byte, 1<<21))
	want[strings.Repeat("\xff", bloomkv.MaxKeySize)] = "the longest key"
	for k, v := range want {
		must(t, db.Put([]byte(k), []byte(v)))
	}
	must(t, db.Close())
	for _, format := range []string{"hex", "json"} {
		dump := (tool{}).must(t, "dump", first, "--format", format)
		file := filepath.Join(t.TempDir(), "dump")
		writeFile(t, file, []byte(dump))
		second := filepath.Join(t.TempDir(), "store")
		summary := (tool{}).must(t, "load", second, file, "--format", format, "--json")
		if !strings.Contains(summary, fmt.Sprintf(`"lines": %d`, len(want))) {
			t.Errorf("%s: load says %s, want %d lines", format, summary, len(want))
		}
		if again := (tool{}).must(t, "dump", second, "--format", format); again != dump {
			t.Errorf("%s: the second dump differs from the first", format)
		}
	}
	got := 0
	for line := range strings.Lines((tool{}).must(t, "dump", first, "--format", "hex")) {
		k, v, err := parseHex([]byte(strings.TrimSuffix(line, "\n")))
		if value, ok := want[string(k)]; err != nil || !ok || value != string(v) {
			t.Fatalf("key %s has a value of %d bytes, %v", words.Escaped(k, 64), len(v), err)
		}
		got++
	}
	if got != len(want) {
		t.Errorf("%d pairs, want %d", got, len(want))
	}
}

func TestScanBoundsAndForms(t *testing.T) {
	dir := newStore(t, "a\t1\nb\t2\nba\t3\nbb\t\\\nc\t5\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "a\t1\nb\t2\nba\t3\nbb\t\\\\\nc\t5\n"},
		{[]string{"--prefix", "b"}, "b\t2\nba\t3\nbb\t\\\\\n"},
		{[]string{"--from", "b", "--to", "bb"}, "b\t2\nba\t3\n"},
		{[]string{"--from", "c", "--to", "a"}, ""},
		{[]string{"--to", ""}, ""}, // empty is a bound: nothing is before it
		{[]string{"--limit", "2", "--keys"}, "a\nb\n"},
		{[]string{"--hex", "--from", "6262", "--keys"}, "bb\nc\n"},
		{[]string{"--prefix", "bb", "--json"}, `{"key":"bb","value":"\\"}` + "\n"},
		{[]string{"--prefix", "bb", "--json", "--keys"}, `{"key":"bb"}` + "\n"},
		{[]string{"--prefix", "b", "--from", "ba"}, "ba\t3\nbb\t\\\\\n"},
		{[]string{"--reverse"}, "c\t5\nbb\t\\\\\nba\t3\nb\t2\na\t1\n"},
		{[]string{"--reverse", "--limit", "2", "--keys"}, "c\nbb\n"},
		{[]string{"--reverse", "--from", "b", "--to", "bb"}, "ba\t3\nb\t2\n"},
		{[]string{"--reverse", "--prefix", "b", "--limit", "1", "--json"}, `{"key":"bb","value":"\\"}` + "\n"},
		{[]string{"--reverse", "--to", ""}, ""},
	} {
		if got := (tool{}).must(t, append([]string{"scan", dir}, c.args...)...); got != c.want {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}

func TestABarIsDrawnOnATerminalOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lines")
	writeFile(t, file, bytes.Repeat([]byte("key\tvalue\n"), 100_000))
	sorted := filepath.Join(t.TempDir(), "sorted")
	writeFile(t, sorted, []byte(manyLines(50_000)))
	for _, terminal := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "store")
		for _, args := range [][]string{
			{"load", dir, file},
			{"check", dir},
			{"ingest", dir, sorted},
			{"compact", dir},
		} {
			r := tool{terminal: terminal}.run(t, args...)
			if r.code != cli.ExitOK {
				t.Fatalf("%q: exit %d: %s", args, r.code, r.err)
			}
			if drawn := strings.Contains(r.err, "\r"); drawn != terminal {
				t.Errorf("%s, terminal %v: %q on the error stream", args[0], terminal, r.err)
			}
		}
	}
}

func TestPutReadsStandardInputToTheLastByte(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	for _, value := range []string{"", "\n", "a\nb\n\x00"} {
		tool{in: value}.must(t, "put", dir, "k")
		if got := (tool{}).must(t, "get", dir, "k"); got != value {
			t.Errorf("got %q, want %q", got, value)
		}
	}
	tool{}.must(t, "put", "--hex", dir, "00ff", "0a")
	if got := (tool{}).must(t, "get", "--hex", "--json", dir, "00FF"); got != `{"key_base64":"AP8=","value":"\n"}`+
		"\n" {
		t.Errorf("got %q", got)
	}
}

func TestAStoreInUseIsAnError(t *testing.T) {
	dir := newStore(t, "a\t1\n")
	db, err := bloomkv.Open(dir, nil)
	must(t, err)
	defer db.Close()
	for _, command := range []string{"dump", "stats", "check", "load", "ingest", "compact"} {
		if r := (tool{}).run(t, command, dir); r.code != cli.ExitTrouble || !strings.Contains(r.err, "lock") {
			t.Errorf("%s: exit %d, %q; want 2 and the lock", command, r.code, r.err)
		}
	}
	if out := (tool{}).must(t, "inspect", dir); !strings.Contains(out, "MANIFEST-") {
		t.Errorf("inspect needs no lock: %q", out)
	}
}

func TestEveryCommandHasAnExampleOrALongHelp(t *testing.T) {
	root := new(app).command()
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
		if c.Long == "" || c.Short == "" {
			t.Errorf("%s has no help", c.Name())
		}
	}
	slices.Sort(names)
	want := []string{
		"backup", "backups", "check", "checkpoint", "compact", "count", "del", "demo", "digest", "dump", "export",
		"get", "import", "ingest", "inspect", "load", "plan", "put", "restore", "salvage", "scan", "serve", "size",
		"stats",
	}
	if !slices.Equal(names, want) {
		t.Errorf("commands %q, want %q", names, want)
	}
}
