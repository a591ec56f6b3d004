package compaction

import (
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

func TestPickEarly(t *testing.T) {
	for _, c := range []struct {
		name, tree string
		snapshots  []ikey.Seq
		want       string
	}{
		{
			"a table of tombstones goes down", "5: a-c:10:60 k-z:10\n6: a-c:1900:e100 d-z:900", nil,
			"5[a-c] 6[a-c] merge to 6",
		},
		{"half tombstones is not enough", "5: a-c:10:50\n6: a-c:1900:e100", nil, "nothing"},
		{"not where it is merged with three times as much", "5: a-c:10:60\n6: a-c:1900:e190", nil, "nothing"},
		{"over nothing it moves, level by level", "2: a-c:1:60\n6: a-c:190000:e1000", nil, "2[a-c] move to 3"},
		{"not into the last level", "5: a-c:10:60\n6: d-e:1900:e100", nil, "5[a-c] merge to 6"},
		{
			"not while a snapshot may see what it deletes", "5: a-c:10:60:3..9\n6: a-c:1900:e100",
			[]ikey.Seq{8},
			"nothing",
		},
		{
			"a snapshot that sees all of it is no matter", "5: a-c:10:60:3..9\n6: a-c:1900:e100",
			[]ikey.Seq{9},
			"5[a-c] 6[a-c] merge to 6",
		},
		{"what is over its target comes first", "4: x-z:900\n5: a-c:10:60\n6: a-c:1900:e100", nil, "4[x-z] move to 5"},

		{
			"a range tombstone for two tables goes down", "5: a-c):10:r1\n6: a-b:1000 c-d:900", nil,
			"5[a-c)] 6[a-b] merge to 6",
		},
		{"one for four waits", "5: a-e):10:r1\n6: a-a:500 b-b:500 c-c:500 d-d:500", nil, "nothing"},
		{
			"two for four go", "5: a-e):10:r2\n6: a-a:500 b-b:500 c-c:500 d-d:500", nil,
			"5[a-e)] 6[a-a b-b c-c d-d] merge to 6",
		},
		{
			"not while a snapshot may see what they hide", "5: a-e):10:r2\n6: a-a:500 b-b:500 c-c:500 d-d:500",
			[]ikey.Seq{1},
			"nothing",
		},
		{
			"one that deletes more than has to be read goes down",
			"5: a-g):10:b~f@9\n6: a-a:400 b-b:500 c-c:500 d-d:500 f-f:500", nil,
			"5[a-g)] 6[a-a b-b c-c d-d f-f] merge to 6",
		},
		{"one that deletes less waits", "5: a-g):10:b~d@9\n6: a-a:500 b-b:500 c-c:500 d-d:500", nil, "nothing"},
		{
			"what is newer is not deleted", "5: a-g):10:a~g@9\n6: a-a:500 b-b:500 c-c:500 d-d:500:8..9", nil,
			"5[a-g)] 6[a-a b-b c-c d-d] merge to 6",
		},
		{
			"what is newer is not deleted, and not paid for",
			"5: a-g):10:a~g@9\n6: a-a:500:8..9 b-b:500:8..9 c-c:500 d-d:500", nil, "nothing",
		},
		{"a snapshot between counts", "5: a-g):10:a~g@9\n6: a-a:500 b-b:500 c-c:500 d-d:500", []ikey.Seq{5}, "nothing"},
		{
			"a snapshot between the table's and what it deletes does not",
			"5: a-g):10:a~g@9:1..12\n6: a-a:500 b-b:500 c-c:500 d-d:500",
			[]ikey.Seq{10},
			"5[a-g)] 6[a-a b-b c-c d-d] merge to 6",
		},
		{
			"what lies deeper is reached step by step",
			"4: a-e):1:a~e@9\n5: a-e:5\n6: a-a:5000 b-b:5000 c-c:5000 d-d:5000", nil, "4[a-e)] 5[a-e] merge to 5",
		},

		{"level 0 waits", "0: a-c):10:r1\n6: a-c:900", nil, "nothing"},
		{
			"unless it deletes more than has to be read", "0: a-d):10:a~d@9\n6: a-c:900", nil,
			"0[a-d)] 6[a-c] merge to 6",
		},
		{"bounds are not enough", "0: a-d):10:a~b@9\n6: a-c:900", nil, "nothing"},
		{"what is merged along is paid for", "0: a-z):300:a~d@9 | a-z:300\n6: a-c:500 d-e:100", nil, "nothing"},
		{"also what is not covered below", "0: a-z):10:a~d@9\n6: a-c:400 d-e:500", nil, "nothing"},
		{
			"tombstones of several runs add up", "0: a-c):10:a~c@9 | c-e):10:c~e@8\n6: a-d:500 x-z:9", nil,
			"0[a-c)] 0[c-e)] 6[a-d] merge to 6",
		},
		{"a snapshot keeps it", "0: a-d):10:a~d@9\n6: a-c:900", []ikey.Seq{3}, "nothing"},
		{
			"an infinite one reaches all behind", "0: b-∞:10:b~∞@9\n6: a-c:100 d-e:400 f-z:400", nil,
			"0[b-∞] 6[a-c d-e f-z] merge to 6",
		},

		{
			"what is left of a snapshot goes when it is gone", "6: a-b:10:3 c-d:10:1 e-f:10 g-h:10:1", nil,
			"6[a-b c-d] merge to 6",
		},
		{"of range tombstones too", "6: a-b:10 c-d):10:r1", nil, "6[c-d)] merge to 6"},
		{"of superseded versions too", "6: a-b:10 c-d:10:v", nil, "6[c-d] merge to 6"},
		{"it stays while a snapshot may need it", "6: a-b:10:3:1..9 c-d:10:1:1..5", []ikey.Seq{7}, "6[c-d] merge to 6"},
		{"nothing is rewritten in vain", "6: a-b:10:3:1..9", []ikey.Seq{7}, "nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := tree(t, c.tree)
			if got := leveled.Pick(f.shape(c.snapshots...)).text(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestRangeTombstonesThatAreNotInMemoryStartNothing(t *testing.T) {
	f := tree(t, "0: a-d):10:a~d@9\n6: a-c:900")
	if got := leveled.Pick(Shape{Version: f.Version}).text(); got != "nothing" {
		t.Errorf("got %s", got)
	}
}
