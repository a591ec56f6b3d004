package compaction

import (
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
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

// Each case has the versions and range tombstones of the inputs, the bounds of older tables, and what stays.
func TestRetain(t *testing.T) {
	for _, c := range []struct {
		name      string
		input     string
		older     string // "*" is a flush
		snapshots []ikey.Seq
		want      string
	}{
		{"the newest version stays, without its number", "a@9=x a@5=y b@3=z", "", nil, "a@0=x b@0=z"},
		{"a tombstone with nothing older goes, with what it hides", "a@9- a@5=y", "", nil, ""},
		{"a tombstone stays above a table that may hold its key", "b@9- b@5=y", "a-c", nil, "b@9-"},
		{"beside it it goes", "b@9- d@8-", "c-d)", nil, ""},
		{"above an infinite one it stays", "b@9- z@8-", "c-∞", nil, "z@8-"},
		{"the number stays above a table that may hold the key", "a@9=x b@8=y", "b-c", nil, "a@0=x b@8=y"},
		{"a flush keeps numbers and tombstones", "a@9=x a@8=y b@7-", "*", nil, "a@9=x b@7-"},
		{"the empty key", "^@9=x ^@8=y b@7-", "b-∞", nil, "^@0=x b@7-"},

		{"a snapshot keeps what it sees", "a@9=x a@5=y a@4=z", "", []ikey.Seq{5}, "a@9=x a@0=y"},
		{
			"each snapshot keeps the newest that it sees", "a@9=v a@8=w a@6=x a@5=y a@2=z", "",
			[]ikey.Seq{3, 5, 8},
			"a@9=v a@8=w a@5=y a@0=z",
		},
		{
			"snapshots between versions that are not different keep one", "a@9=v a@2=z", "",
			[]ikey.Seq{3, 5, 8},
			"a@9=v a@0=z",
		},
		{"a snapshot older than a key needs nothing of it", "a@9=x a@8=y", "", []ikey.Seq{5}, "a@9=x"},
		{"a snapshot newer than all needs only the newest", "a@9=x a@8=y", "", []ikey.Seq{12}, "a@0=x"},
		{"a snapshot of the empty store needs nothing", "a@9=x a@8=y", "", []ikey.Seq{0}, "a@9=x"},
		{"a tombstone that a snapshot does not see stays", "a@9- a@5=y", "", []ikey.Seq{7}, "a@9- a@0=y"},
		{"also where it hides nothing here", "a@9-", "", []ikey.Seq{7}, "a@9-"},
		{"a tombstone that the oldest snapshot sees goes", "a@9=x a@5- a@4=z", "", []ikey.Seq{7, 20}, "a@9=x"},
		{"one that only a later one sees does not", "a@9=x a@5- a@3=z", "", []ikey.Seq{3, 7}, "a@9=x a@5- a@0=z"},
		{"the newest is dropped and still hides", "a@6- a@5=y a@3=z", "", []ikey.Seq{7}, ""},

		{"a range tombstone goes with all that it hides", "a@3=x b@4=y c@2=z b~c@5", "", nil, "a@0=x c@0=z"},
		{"what is newer lives", "b@6=y b~c@5", "", nil, "b@0=y"},
		{"at equal numbers a version lives", "b@5=y b~c@5", "", nil, "b@0=y"},
		{"it hides tombstones too", "b@4- b~c@5", "b-b", nil, "b~c@5"},
		{"its end is exclusive", "b@4=x c@4=y b~c@5", "", nil, "c@0=y"},
		{"one without end hides all behind", "a@1=x b@4=y z@3=z b~∞@5", "", nil, "a@0=x"},
		{"one from the empty key", "^@1=x a@2=y b@3=z ^~b@5", "", nil, "b@0=z"},
		{"it stays above a table that may hold what it hides", "b@4=y b~d@5", "c-c", nil, "b~d@5"},
		{"not above one that begins where it ends", "b@4=y b~d@5", "d-e", nil, ""},
		{"not behind one that ends where it begins", "b@4=y b~d@5", "a-b)", nil, ""},
		{"above one behind an infinite end it stays", "b~∞@5", "x-y", nil, "b~∞@5"},
		{"a number under one that stays is not zeroed", "b@6=y c@7=z b~d@5", "c-c", nil, "b@6=y c@7=z b~d@5"},
		{"beside it it is", "a@6=y b~d@5", "c-c", nil, "a@0=y b~d@5"},
		{"a flush keeps range tombstones", "b@4=y b~d@5", "*", nil, "b~d@5"},

		{"of several the newest stays", "b~d@5,6,8", "*", nil, "b~d@8"},
		{"of each interval", "b~d@2,3,5,6,8", "*", []ikey.Seq{3, 5}, "b~d@3,5,8"},
		{
			"of the first interval none stays if nothing older lies below", "b~d@2,3,5,6,8", "",
			[]ikey.Seq{3, 6},
			"b~d@6,8",
		},
		{"a snapshot keeps what one hides that it does not see", "b@4=y b~d@5", "", []ikey.Seq{4}, "b@4=y b~d@5"},
		{"and what lies under that", "b@4=y b~d@2,5", "b-b", []ikey.Seq{4}, "b@4=y b~d@2,5"},
		{"not what it does not see", "b@4=y b~d@5", "", []ikey.Seq{3}, "b~d@5"},
		{"not what another one of its interval hides", "b@4=y b@1=z b~d@5,9", "", []ikey.Seq{6}, "b~d@9"},
		{"a version between two of one interval is deleted by the newer", "b@6=y b@4=z b~d@5,7", "*", nil, "b~d@7"},
		{"a version between two intervals", "b@6=y b@4=z b~d@5,8", "*", []ikey.Seq{6}, "b@6=y b~d@5,8"},

		{"neighbours that become equal are one", "a~c@5 b~d@9 c~d@6 d~e@9", "*", nil, "a~b@5 b~e@9"},
		{"those that do not touch stay two", "a~b@5 c~d@5", "*", nil, "a~b@5 c~d@5"},
		{"each by itself may go", "a~b@5 b~c@6 c~d@7 d~e@8", "b-b d-∞", nil, "b~c@6 d~e@8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			src, dels := source(c.input)
			older := olderRuns{anywhere: c.older == "*"}
			if !older.anywhere && c.older != "" {
				var tables []*manifest.Table
				for _, run := range tree(t, "6: "+strings.ReplaceAll(c.older+" ", " ", ":1 ")).Levels[6] {
					tables = append(tables, run.Tables...)
				}
				older.runs = append(older.runs, tables)
			}
			r := newRetain(c.snapshots, older, dels)
			var got []string
			for i, k := range src.keys {
				if trailer, ok := r.keep(k); ok {
					got = append(got, versionText(ikey.Key{User: k.User, Trailer: trailer}, src.values[i]))
				}
			}
			if kept := listText(r.kept); kept != "" {
				got = append(got, kept)
			}
			if got := strings.Join(got, " "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
