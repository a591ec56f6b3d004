package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

type compactReport struct {
	TablesBefore   int    `json:"tables_before"`
	BytesBefore    uint64 `json:"bytes_before"`
	TablesAfter    int    `json:"tables_after"`
	BytesAfter     uint64 `json:"bytes_after"`
	CompactedBytes uint64 `json:"compacted_bytes"`
	RewrittenBytes uint64 `json:"rewritten_bytes"`
}

func compacted(t *testing.T, args ...string) (r compactReport) {
	t.Helper()
	out := (tool{}).must(t, append([]string{"compact", "--json"}, args...)...)
	must(t, json.Unmarshal([]byte(out), &r))
	return r
}

func TestCompactMergesAndTellsTheBytes(t *testing.T) {
	dir := newStore(t, manyLines(3000))
	tool{in: manyLines(2000)}.must(t, "load", dir) // the same keys again
	tool{}.must(t, "del", dir, "--from", "key/001000")
	want := (tool{}).must(t, "dump", dir)

	r := compacted(t, dir)
	if r.TablesBefore != 3 || r.TablesAfter != 1 || r.BytesAfter == 0 || r.BytesAfter > r.BytesBefore/3 {
		t.Errorf("%+v, want three tables, then one with the third that is left", r)
	}
	if got := (tool{}).must(t, "dump", dir); got != want {
		t.Error("the store has changed")
	}
	out := (tool{}).must(t, "check", dir)
	bytes := words.Plural(r.BytesAfter, "byte")
	want = fmt.Sprintf("ok: 1 table in 1 run on 1 level, 1,000 entries, %s; 0 logs", bytes)
	if !strings.HasPrefix(out, want) {
		t.Errorf("check says %q, want %q", out, want)
	}
	page := fmt.Sprintf("before: 1 table, %s\nafter: 1 table, %s\nwritten: 0 bytes, including 0 to "+
		"rewrite tables\n", bytes, bytes)
	if out := (tool{}).must(t, "compact", dir); out != page {
		t.Errorf("again: %q, want %q", out, page)
	}
	tool{}.must(t, "del", dir, "--all")
	// Dropping both tables needs no reading, so the store may have done so in the background before the call began.
	if r := compacted(t, dir); r.TablesBefore != 2 && r.TablesBefore != 0 || r.TablesAfter != 0 || r.BytesAfter != 0 {
		t.Errorf("of what is deleted %+v, want nothing left", r)
	}
}

func TestCompactCountsWhatOnlyALogHolds(t *testing.T) {
	if r := compacted(t, uncleanStore(t, true)); r.TablesBefore != 2 || r.TablesAfter != 1 ||
		r.BytesAfter >= r.BytesBefore {
		t.Errorf("%+v, want two tables, one of them of the log, and then one", r)
	}
}

func TestCompactOfARangeLeavesTheRest(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		tables int
	}{
		{"a range without keys", []string{"--from", "x"}, 2},
		{"a range that is empty", []string{"--from", "key/2", "--to", "key/1"}, 2},
		{"a range that ends where it begins", []string{"--from", "key/001", "--to", "key/001"}, 2},
		{"before the empty key", []string{"--to", ""}, 2},
		{"a prefix of other keys", []string{"--prefix", "kez"}, 2},
		{"a range with keys", []string{"--from", "key/001", "--to", "key/002"}, 1},
		{"a prefix of keys", []string{"--hex", "--prefix", "6b65"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := newStore(t, manyLines(2000))
			tool{in: manyLines(2000)}.must(t, "load", dir)
			if r := compacted(t, append([]string{dir}, c.args...)...); r.TablesBefore != 2 ||
				r.TablesAfter != c.tables {
				t.Errorf("%+v, want %d tables after", r, c.tables)
			}
		})
	}
}

func TestAnInterruptedCompactLeavesTheStoreWhole(t *testing.T) {
	dir := newStore(t, "a\t1\n")
	tool{in: "b\t2\n"}.must(t, "load", dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	a := &app{Streams: cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, ErrTerminal: true}}
	if code := a.run(ctx, []string{"compact", dir}); code != cli.ExitInterrupted || out.Len() > 0 {
		t.Errorf("exit %d, want %d: %s%s", code, cli.ExitInterrupted, &out, &errs)
	}
	if got := (tool{}).must(t, "dump", dir); got != "a\t1\nb\t2\n" {
		t.Errorf("the store has %q", got)
	}
}

// TestCompactWritesAnewWhatTheFlagsAskFor changes filters, compression and block sizes. stats and inspect must count
// the same tables with other filters as the store.
func TestCompactWritesAnewWhatTheFlagsAskFor(t *testing.T) {
	testkit.Long(t)
	dir := filepath.Join(t.TempDir(), "store")
	tool{in: manyLines(30_000)}.must(t, "load", dir, "--fpr", "0.1")
	off := func() (tables int, promised float64) {
		t.Helper()
		var s storeStats
		var i inspect.Store
		must(t, json.Unmarshal([]byte((tool{}).must(t, "stats", dir, "--json")), &s))
		must(t, json.Unmarshal([]byte((tool{}).must(t, "inspect", dir, "--json")), &i))
		if p := i.Plan; p.TablesOffPlan != s.TablesOffPlan || p.BytesOffPlan != s.BytesOffPlan ||
			p.Tables+p.TablesOffPlan != s.Tables || math.Abs(i.Tree.Promised-s.FPRPromised) > 1e-9 {
			t.Errorf("inspect %+v, stats %d tables, %d bytes, promised %v", p, s.TablesOffPlan, s.BytesOffPlan,
				s.FPRPromised)
		}
		return s.TablesOffPlan, s.FPRPromised
	}
	compacted(t, dir)
	if n, fpr := off(); n != 0 || fpr != 0.1 {
		t.Fatalf("%d tables off the plan, %v promised", n, fpr)
	}
	for _, flags := range []string{
		"--fpr=0.001", "--filter-kind=ribbon", "--filter-prefix=len:6", "--fpr=1", "--fpr=0.01",
	} {
		tool{in: "zzz\tmore\n"}.must(t, "load", dir, flags) // from now on the store is written so
		if n, _ := off(); n == 0 {
			t.Errorf("%s: no table is off the plan", flags)
		}
		if out := oneLine((tool{}).must(t, "stats", dir)); !strings.Contains(out,
			"by other options than the store was last written with; compact rewrites them") {
			t.Errorf("%s: stats says %q", flags, out)
		}
		if out := strings.Fields(tool{}.must(t, "inspect", dir)); !strings.Contains(strings.Join(out, " "),
			" have other filters, ") {
			t.Errorf("%s: inspect says %q", flags, out)
		}
		if r := compacted(t, dir); r.CompactedBytes == 0 {
			t.Errorf("%s: nothing is written: %+v", flags, r)
		}
		if n, _ := off(); n != 0 {
			t.Errorf("%s: %d tables are off the plan after compact", flags, n)
		}
		if r := compacted(t, dir); r.CompactedBytes != 0 {
			t.Errorf("%s: compact again writes %d bytes", flags, r.CompactedBytes)
		}
	}
	if r := compacted(t, dir, "--fpr=0.05"); r.RewrittenBytes == 0 || r.RewrittenBytes != r.BytesAfter {
		t.Errorf("%+v, want all bytes only rewritten", r)
	}
	before := compacted(t, dir)
	for _, flags := range []string{"--compression=none", "--compression=zstd", "--block-size=512"} {
		after := compacted(t, dir, flags)
		if after.RewrittenBytes != after.BytesAfter || after.BytesAfter == before.BytesAfter {
			t.Errorf("%s: %+v, before %+v, want all written anew, and of another size", flags, after, before)
		}
		before = after
	}
	if r := (tool{}).run(t, "compact", dir, "--compression=lz4"); r.code == cli.ExitOK ||
		!strings.Contains(r.err, `--compression "lz4", want s2, zstd or none`) {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
}

func TestFiltersStayAsTheStoreWasLastWrittenWith(t *testing.T) {
	testkit.Long(t)
	dir := filepath.Join(t.TempDir(), "store")
	lines := manyLines(30_000)
	tool{in: lines}.must(t, "load", dir, "--fpr", "0.001", "--filter-kind=ribbon", "--filter-prefix", "len:8")
	kinds := func() (found []string) {
		t.Helper()
		var s inspect.Store
		must(t, json.Unmarshal([]byte((tool{}).must(t, "inspect", dir, "--json")), &s))
		for _, f := range s.Tables {
			kind := fmt.Sprintf("Bloom, %v", f.FPRPromised <= 0.001)
			if len(f.Units) > 0 && f.Units[0].Columns > 0 {
				kind = fmt.Sprintf("Ribbon, %v", f.FPRPromised <= 0.001)
			}
			if f.Prefix != nil {
				kind += ", " + f.Prefix.Rule
			}
			found = append(found, kind)
		}
		return found
	}
	for _, c := range []struct{ flags, want string }{ // a load of the same keys, and a compaction that rewrites all
		{"", "Ribbon, true, len:8"},
		{"--filter-prefix=", "Ribbon, true"},
		{"", "Ribbon, true"},
		{"--filter-kind=auto", "Bloom, true"},
		{"--fpr=0.01", "Bloom, false"},
		{"--filter-memory=1", "Ribbon, true"}, // far more than a thousandth takes
		{"", "Ribbon, true"},
		{"--fpr=0.001", "Bloom, true"}, // which fit with room to spare
		{"--filter-kind=ribbon", "Ribbon, true"},
		{"--fpr=0.01 --filter-kind=bloom", "Bloom, false"},
	} {
		tool{in: lines}.must(t, append([]string{"load", dir}, strings.Fields(c.flags)...)...)
		tool{}.must(t, "compact", dir)
		if got := kinds(); len(got) == 0 || slices.ContainsFunc(got, func(kind string) bool { return kind != c.want }) {
			t.Errorf("load %s, then compact: %q, want %q", c.flags, got, c.want)
		}
	}
}

// TestTheMemoryForFiltersIsKept writes a store with --filter-memory: stats and inspect agree on what is promised and
// takes memory, and commands that write keep it: put and del have no flags for filters.
func TestTheMemoryForFiltersIsKept(t *testing.T) {
	testkit.Long(t)
	for _, kind := range []string{"--filter-kind=ribbon", "--filter-kind=bloom"} {
		dir := filepath.Join(t.TempDir(), "store")
		tool{in: manyLines(60_000)}.must(t, "load", dir, "--filter-memory", "0.0625", kind)
		for _, step := range [][]string{{"put", dir, "k", "v"}, {"compact", dir}, {"del", dir, "k"}, {"compact", dir}} {
			tool{}.must(t, step...)
			var s storeStats
			var i inspect.Store
			must(t, json.Unmarshal([]byte((tool{}).must(t, "stats", dir, "--json")), &s))
			must(t, json.Unmarshal([]byte((tool{}).must(t, "inspect", dir, "--json")), &i))
			if i.Plan == nil || i.Plan.Limit != 64<<10 || s.Memory.Filters > 64<<10 {
				t.Fatalf("%q: plan %+v, filters of %d bytes", step, i.Plan, s.Memory.Filters)
			}
			if math.Abs(i.Tree.Promised/s.FPRPromised-1) > 1e-9 || int64(i.Tree.FilterBytes) != s.Memory.Filters ||
				i.Tree.FilterDisk != s.FilterBytes || s.FPRPromised == 0.01 {
				t.Errorf("%q: inspect: %g promised, filters of %d bytes, %d on disk; stats: %g, %d, %d", step,
					i.Tree.Promised, i.Tree.FilterBytes, i.Tree.FilterDisk, s.FPRPromised, s.Memory.Filters,
					s.FilterBytes)
			}
		}
	}
	dir := filepath.Join(t.TempDir(), "store")
	for _, c := range [][2]string{
		{"--filter-memory=0", "--filter-memory 0, want 0.0625 to 1048576"},
		{"--filter-memory=NaN", "want 0.0625 to"},
		{"--filter-kind=cuckoo", `--filter-kind "cuckoo", want auto, bloom or ribbon`},
		{"--filter-memory=1 --fpr=0.1", "--fpr and --filter-memory are given, want only one of them"},
	} {
		if r := (tool{}).run(t, append([]string{"load", dir}, strings.Fields(c[0])...)...); r.code !=
			cli.ExitTrouble || !strings.Contains(r.err, c[1]) {
			t.Errorf("%s: exit %d, %q, want %q", c[0], r.code, r.err, c[1])
		}
	}
}
