package check

import (
	"errors"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// TestANewerRunMustBeNewerInAllThatItSays passes an orderWalk the versions of two runs with range deletes.
func TestANewerRunMustBeNewerInAllThatItSays(t *testing.T) {
	type v struct {
		key string
		seq ikey.Seq
		of  int // 0 is the newer run
	}
	over := func(seqs ...ikey.Seq) rangedel.List {
		return rangedel.List{{Start: []byte("b"), End: []byte("d"), Seqs: seqs}}
	}
	for _, tt := range []struct {
		name         string
		newer, older rangedel.List
		versions     []v
		want         string // in the damage; "" for no damage
	}{
		{"correct order", over(7, 9), over(1, 2), []v{
			{"", 4, 0}, {"", 1, 1}, {"a", 9, 0}, {"b", 8, 0}, {"b", 6, 1}, {"b", 5, 1}, {"c", 3, 1},
		}, ""},
		{"other keys", nil, nil, []v{{"a", 9, 1}, {"b", 5, 0}}, ""},
		{
			"a key", nil, nil,
			[]v{{"a", 9, 1}, {"a", 5, 0}},
			`"a": run 8 of level 0 has the key at sequence 5, the older run 4 of level 6 (000004.sst) goes up to 9`,
		},
		{"a key between versions", nil, nil, []v{{"a", 9, 0}, {"a", 8, 1}, {"a", 7, 0}}, "at sequence 7"},
		{"the empty key", nil, nil, []v{{"", 9, 1}, {"", 5, 0}}, "at sequence 5"},
		{"one sequence in two runs", nil, nil, []v{{"a", 5, 0}, {"a", 5, 1}}, "goes up to 5"},
		{
			"a range delete older than an older version", over(4, 9), nil,
			[]v{{"c", 5, 1}},
			"has a range delete at sequence 4",
		},
		{
			"a range delete as old as an older version", over(5), nil,
			[]v{{"c", 5, 1}},
			"has a range delete at sequence 5",
		},
		{"not over the key", over(4), nil, []v{{"a", 5, 1}, {"d", 5, 1}}, ""},
		{
			"an older range delete newer than a version", nil, over(1, 5),
			[]v{{"c", 5, 0}},
			"the older run 4 of level 6 (000004.sst) goes up to 5",
		},
		{"a range delete at 1", over(1), nil, []v{{"c", 1, 1}}, "has a range delete at sequence 1"},
		{"an older range delete at 1", nil, over(1), []v{{"c", 1, 0}}, "goes up to 1"},
		{"no range delete is at 0", over(5), over(1), []v{{"a", 0, 1}, {"e", 0, 0}}, ""},
		{"a run against itself", over(9), over(9), []v{{"a", 1, 0}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := tablefile.NewPool(8).NewDir(nil, "", nil)
			of := func(level int, number uint64, dels rangedel.List) *suspect {
				table := &tree.Table{Meta: &manifest.Table{Largest: []byte("z")}, File: files.File(number)}
				return &suspect{tree.NewRun(level, number, []*tree.Table{table}), rangedel.NewIndex(dels)}
			}
			suspects := []*suspect{of(0, 8, tt.newer), of(6, 4, tt.older)}
			w := orderWalk{suspects: suspects, told: map[*tree.Table]bool{}}
			for _, x := range tt.versions {
				w.version(ikey.Key{User: []byte(x.key), Trailer: ikey.MakeTrailer(x.seq, ikey.Set)}, x.of)
			}
			err := errors.Join(w.damage...)
			if tt.want == "" && err != nil ||
				tt.want != "" && (!errors.Is(err, corrupt.Err) || !strings.Contains(err.Error(), tt.want) ||
					!strings.Contains(err.Error(), "000008.sst")) {
				t.Errorf("%v, want damage of 000008.sst with %q", err, tt.want)
			}
		})
	}
}
