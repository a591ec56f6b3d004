package compaction

import (
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

func TestIntervals(t *testing.T) {
	s := intervals{3, 5, 5, 9}
	for _, c := range []struct{ seq, want ikey.Seq }{
		{0, 3}, {3, 3}, {4, 5}, {5, 5}, {6, 9}, {9, 9}, {10, ikey.MaxSeq}, {ikey.MaxSeq, ikey.MaxSeq},
	} {
		if got := s.top(c.seq); got != c.want {
			t.Errorf("the interval of %d ends at %d, want %d", c.seq, got, c.want)
		}
	}
	if got := s.first(); got != 3 {
		t.Errorf("the first interval ends at %d, want 3", got)
	}
	if got := intervals(nil).first(); got != ikey.MaxSeq {
		t.Errorf("without snapshots the first interval ends at %d", got)
	}
}

func TestRetain(t *testing.T) {
	testkit.Script(t, "testdata/retain.txt", func(t *testing.T, input string) string {
		snapshots, below := snapshotsOf(t, &input), argument(&input, "older")
		src, dels := source(input)
		older := olderRuns{anywhere: below == "*"}
		if !older.anywhere && below != "" {
			var tables []*manifest.Table
			for _, run := range tree(t, "6: "+strings.ReplaceAll(below+" ", " ", ":1 ")).Levels[6] {
				tables = append(tables, run.Tables...)
			}
			older.runs = append(older.runs, tables)
		}
		r := newRetain(snapshots, older, dels)
		var kept []string
		for i, k := range src.keys {
			if trailer, ok := r.keep(k); ok {
				kept = append(kept, versionText(ikey.Key{User: k.User, Trailer: trailer}, src.values[i]))
			}
		}
		return strings.TrimSpace(strings.Join(kept, " ") + " " + listText(r.kept))
	})
}
