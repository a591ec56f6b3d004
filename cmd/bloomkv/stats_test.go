package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
)

// TestStatsFitsAndLeavesOutZeros prints an empty store, a small one, and one with many figures.
func TestStatsFitsAndLeavesOutZeros(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "store")
	tool{}.must(t, "load", empty)
	small := newStore(t, "a\t1\n")
	many := treeStore(t, bloomkv.Options{FilterPrefix: bloomkv.PrefixLen(7)})
	tool{}.must(t, "put", many, "zzz", "1", "--fpr", "0.001")
	for _, c := range []struct {
		dir            string
		want, unwanted []string
	}{
		{empty, []string{"0 tables"}, []string{"level  runs", "bytes", "lookups"}},
		{
			small, []string{"level runs tables keys bytes filters bits/key", "level promised predicted ", "1 entry"},
			[]string{"deletes", "lookups", "writes", "ingest", "log ", "not asked", "false yes", "readers"},
		},
		{
			many, []string{"measured", "false yes", " no", "with filters by other options"},
			[]string{"lookups:", "writes:"},
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
			if strings.Contains(strings.ReplaceAll(out, "level 0 is", ""), unwanted) {
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
