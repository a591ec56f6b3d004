package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// TestStatsFitsAndLeavesOutZeros prints an empty store, a small one, and one with many figures.
func TestStatsFitsAndLeavesOutZeros(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "store")
	tool{}.must(t, "load", empty)
	small := newStore(t, "a\t1\n")
	many := treeStore(t, bloomkv.Options{FilterPrefix: bloomkv.PrefixLen(7)})
	tool{in: "zzz\t1\n"}.must(t, "load", many, "--fpr", "0.001")
	for _, c := range []struct {
		dir            string
		want, unwanted []string
	}{
		{empty, []string{"0 tables"}, []string{"level  runs", "bytes", "lookups"}},
		{
			small,
			[]string{"level runs tables keys bytes filters bits/key", "level promised predicted ", "1 entry"},
			[]string{"deletes", "gets", "writes", "ingest", "log ", "not asked", "false yes", "readers"},
		},
		{
			many,
			[]string{"measured", "false yes", " no", "with filters by other options"},
			[]string{"gets", "writes:"},
		},
	} {
		out := tool{}.must(t, "stats", c.dir, "--tables")
		for line := range strings.Lines(out) {
			if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > words.Width {
				t.Errorf("a line of %d characters: %q", utf8.RuneCountInString(line), line)
			}
		}
		text := oneLine(out)
		for _, want := range c.want {
			if !strings.Contains(text, want) && !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		for _, unwanted := range c.unwanted {
			if strings.Contains(out, unwanted) {
				t.Errorf("%q in\n%s", unwanted, out)
			}
		}
		var s storeStats
		must(t, json.Unmarshal([]byte((tool{}).must(t, "stats", c.dir, "--json")), &s))
		if s.Tables > 0 && !strings.Contains(text, words.Plural(s.Bytes, "byte")) {
			t.Errorf("%d bytes are not in\n%s", s.Bytes, out)
		}
	}
}

// TestTheMarkIsShownEscaped sets a mark in the log of a store, and shows it with each command that reads a whole store.
func TestTheMarkIsShownEscaped(t *testing.T) {
	dir := newStore(t, "a\t1\n")
	db, err := bloomkv.Open(dir, nil)
	must(t, err)
	var b bloomkv.Batch
	b.SetMark([]byte("index\t7\x1b"))
	must(t, db.Apply(&b))
	saved, digest := filepath.Join(t.TempDir(), "saved"), filepath.Join(t.TempDir(), "digest")
	must(t, db.Close())
	const escaped = `index\t7\x1b`
	for _, args := range [][]string{
		{"stats", dir},
		{"check", dir},
		{"inspect", dir},
		{"digest", dir, "--out", digest},
		{"digest", digest},
		{"salvage", dir, saved},
		{"check", saved},
	} {
		if out := (tool{}).must(t, args...); !strings.Contains(out, "mark: "+escaped+"\n") &&
			!strings.Contains(out, "mark of the store: "+escaped+"\n") {
			t.Errorf("%s does not show the mark:\n%s", args[0], out)
		}
		if args[0] == "salvage" {
			must(t, os.RemoveAll(saved))
		}
		var found struct {
			Mark    string
			Opening struct{ Mark string }
		}
		must(t, json.Unmarshal([]byte((tool{}).must(t, append(args, "--json")...)), &found))
		if cmp.Or(found.Mark, found.Opening.Mark) != escaped {
			t.Errorf("%s --json has the mark %q, want %q", args[0], found, escaped)
		}
	}
}

// TestStatsAndInspectAgree compares what the tool shows of stores of both promises and both kinds of filters: the text
// and the JSON of stats, which has the figures of Metrics, and the JSON of inspect.
func TestStatsAndInspectAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("millions of probes of filters, by one goroutine")
	}
	for _, o := range []bloomkv.Options{
		{},
		{FilterKind: bloomkv.FilterRibbon},
		{FilterMemory: 64 << 10},
		{FilterMemory: 64 << 10, FilterKind: bloomkv.FilterRibbon},
	} {
		dir, name := treeStore(t, o), fmt.Sprintf("kind %d, memory %d", o.FilterKind, o.FilterMemory)
		var s storeStats
		var i inspect.Store
		must(t, json.Unmarshal([]byte((tool{}).must(t, "stats", dir, "--json")), &s))
		must(t, json.Unmarshal([]byte((tool{}).must(t, "inspect", dir, "--json")), &i))
		measured := 0.0 // by the answers that tables have counted
		for _, l := range s.Levels {
			measured += float64(l.Runs) * l.FPRMeasured
		}
		for _, c := range []struct {
			what      string
			got, want float64
		}{
			{"promised", i.Tree.Promised, s.FPRPromised},
			{"measured", i.Tree.Measured, measured},
			{"bytes of filters", float64(i.Tree.FilterDisk), float64(s.FilterBytes)},
			{"bytes in memory", float64(i.Tree.FilterBytes), float64(s.Memory.Filters)},
			{"the limit", float64(i.Plan.Limit), float64(o.FilterMemory)},
		} {
			if math.Abs(c.got-c.want) > 1e-9*c.want {
				t.Errorf("%s: %s: %g by inspect, %g by stats", name, c.what, c.got, c.want)
			}
		}
		wants := []string{
			fmt.Sprintf("fpr promised %.4g,", s.FPRPromised), fmt.Sprintf("fpr predicted %.4g,", s.FPRPredicted),
			"filters of " + words.Plural(s.FilterBytes, "byte"),
		}
		text := oneLine(tool{}.must(t, "stats", dir))
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
		if i.Tree.Optimum > i.Tree.Predicted || (measured > 0) != (o.FilterMemory == 0) {
			// with FilterMemory the rate is so low that no lookup was wasted
			t.Errorf("%s: optimum %g, predicted %g, measured %g", name, i.Tree.Optimum, i.Tree.Predicted, measured)
		}
	}
}
