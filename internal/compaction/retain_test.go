package compaction

import (
	"math/bits"
	"slices"
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

// TestOlderTablesAreNotLookedAtOneByOne counts the looks until the last table before a key is found.
func TestOlderTablesAreNotLookedAtOneByOne(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 7, 8, 9, 100_000} {
		for want := 0; want <= n; want += 1 + n/1000 {
			looks := 0
			got := leading(n, func(i int) bool { looks++; return i < want })
			if most := 2 * (1 + bits.Len(uint(want))); got != want || looks > most {
				t.Errorf("%d of %d after %d looks, want %d after at most %d", got, n, looks, want, most)
			}
		}
	}
}

func TestAMergeHasTheTablesBelowThatItsInputsOverlap(t *testing.T) {
	f := tree(t, "4: c-d:10\n6: a-b:1 c-c:1 d-e:1 f-g:1")
	m, err := begun(t.Context(), f.Version, &Plan{To: 5, Inputs: []Input{{4, 1, f.Levels[4][0].Tables}}}, nil, Env{})
	must(t, err)
	if want := f.Levels[6][0].Tables[1:3]; !slices.Equal(m.grand.Tables, want) {
		t.Errorf("%v, want %v", m.grand.Tables, want)
	}
	m.Abandon()
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
