package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/tools/cli"
)

func TestCountIsExactInEveryRange(t *testing.T) {
	dir := newStore(t, manyLines(5000))
	tool{in: manyLines(2000)}.must(t, "load", dir) // overwrites
	all := strings.Split(strings.TrimSpace(tool{}.must(t, "scan", dir, "--keys")), "\n")
	tool{}.must(t, "del", dir, all[10], all[4000])
	for _, flags := range [][]string{
		nil,
		{"--from", all[100]},
		{"--to", all[100]},
		{"--from", all[100], "--to", all[4001]},
		{"--from", all[3], "--to", all[2]},
		{"--prefix", all[7][:len(all[7])-1]},
		{"--prefix", "nothing begins so"},
	} {
		scanned := strings.Count(tool{}.must(t, append([]string{"scan", dir, "--keys"}, flags...)...), "\n")
		want := strconv.Itoa(scanned) + "\n"
		if got := (tool{}).must(t, append([]string{"count", dir}, flags...)...); got != want {
			t.Errorf("%q: counts %q, scan prints %q", flags, got, want)
		}
		var object struct{ Keys int }
		text := tool{}.must(t, append([]string{"count", dir, "--json"}, flags...)...)
		must(t, json.Unmarshal([]byte(text), &object))
		if object.Keys != scanned {
			t.Errorf("%q: in JSON %d, want %d", flags, object.Keys, scanned)
		}
	}
	table := tool{}.run(t, "count", glob(t, newStore(t, "a\t1\nb\t2\n"), "*.sst"))
	if table.code != cli.ExitOK || table.out != "2\n" {
		t.Errorf("a table: exit %d, %q, %q", table.code, table.out, table.err)
	}
}

func TestCountShowsHowFarItIsAndCanBeStopped(t *testing.T) {
	dir := newStore(t, manyLines(30_000))
	for _, terminal := range []bool{false, true} {
		r := tool{terminal: terminal}.run(t, "count", dir)
		if r.out != "30000\n" || strings.Contains(r.err, "/30000") != terminal {
			t.Errorf("terminal %v: %q, %q", terminal, r.out, r.err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	a := &app{Streams: cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}}
	if code := a.run(ctx, []string{"count", dir}); code != cli.ExitInterrupted || out.Len() > 0 {
		t.Errorf("exit %d, %q, want %d and nothing", code, &out, cli.ExitInterrupted)
	}
}

func TestSizeIsThatOfTheTables(t *testing.T) {
	dir := newStore(t, manyLines(30_000))
	tool{}.must(t, "compact", dir)
	size := func(flags ...string) uint64 {
		t.Helper()
		text := tool{}.must(t, append([]string{"size", dir}, flags...)...)
		n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		must(t, err)
		var object struct{ Bytes uint64 }
		must(t, json.Unmarshal([]byte((tool{}).must(t, append([]string{"size", dir, "--json"}, flags...)...)), &object))
		if object.Bytes != n {
			t.Errorf("%q: %d, in JSON %d", flags, n, object.Bytes)
		}
		return n
	}
	keys := strings.Split(strings.TrimSpace(tool{}.must(t, "scan", dir, "--keys")), "\n")
	middle := keys[len(keys)/2]
	all, half, rest := size(), size("--to", middle), size("--from", middle)
	var s storeStats
	must(t, json.Unmarshal([]byte((tool{}).must(t, "stats", dir, "--json")), &s))
	if all == 0 || all > s.Bytes || all < s.Bytes/2 || half < all/3 || rest < all/3 || half+rest > all+all/10 {
		t.Errorf("%d bytes, %d and %d in the halves; tables of %d", all, half, rest, s.Bytes)
	}
	if n := size("--from", middle, "--to", keys[0]); n != 0 {
		t.Errorf("an inverted range takes %d", n)
	}
	left := uncleanStore(t, true)
	if r := (tool{}).run(t, "size", left); r.code != cli.ExitOK || !strings.Contains(r.err, "what is in 1 log is not") {
		t.Errorf("with a log: exit %d, %q, %q", r.code, r.out, r.err)
	}
}
