package manifest

import (
	"maps"
	"reflect"
	"testing"
)

// Each case applies edits to a snapshot with the counts of tables 1 and 2, and checks the result, and what a new
// snapshot keeps of it.
func TestCountsFollowTheirTables(t *testing.T) {
	t1, t2 := table(1, "a", "c"), table(2, "e", "g")
	c1, c2 := Counts{Negatives: 64, FalsePositives: 1}, Counts{TruePositives: 2}
	more := Counts{Negatives: 128, Unfiltered: 3}
	snapshot := &Edit{
		NextFile: 9, Added: []Added{add(5, 0, t1), add(5, 0, t2)}, Counts: []TableCounts{{1, c1}, {2, c2}},
	}
	for _, test := range []struct {
		name  string
		edits []*Edit
		want  map[uint64]Counts
	}{
		{"nothing", nil, map[uint64]Counts{1: c1, 2: c2}},
		{"others of one", []*Edit{{Counts: []TableCounts{{2, more}}}}, map[uint64]Counts{1: c1, 2: more}},
		{"a table is deleted", []*Edit{{Deleted: []Deleted{{5, 1}}}}, map[uint64]Counts{2: c2}},
		{"both are deleted", []*Edit{{Deleted: []Deleted{{5, 1}, {5, 2}}}}, nil},
		{
			"a table moves",
			[]*Edit{{Deleted: []Deleted{{5, 1}}, Added: []Added{add(6, 4, t1)}}},
			map[uint64]Counts{1: c1, 2: c2},
		},
		{"a table moves, and is deleted", []*Edit{
			{Deleted: []Deleted{{5, 1}}, Added: []Added{add(6, 4, t1)}}, {Deleted: []Deleted{{6, 1}}},
		}, map[uint64]Counts{2: c2}},
		{"a table comes", []*Edit{{Added: []Added{add(6, 4, table(3, "a", "z"))}}}, map[uint64]Counts{1: c1, 2: c2}},
		{
			"a table comes with counts",
			[]*Edit{{Added: []Added{add(6, 4, table(3, "a", "z"))}, Counts: []TableCounts{{3, more}}}},
			map[uint64]Counts{1: c1, 2: c2, 3: more},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newFS(t)
			payloads := [][]byte{AppendEdit(nil, snapshot)}
			for _, e := range test.edits {
				payloads = append(payloads, AppendEdit(nil, e))
			}
			putManifest(t, m, payloads...)
			s := load(t, m)
			if !reflect.DeepEqual(s.Counts, test.want) {
				t.Fatalf("counts are %v, want %v", s.Counts, test.want)
			}
			// A store may also have counts of tables that no longer exist, and zero counts.
			counted := map[uint64]Counts{1: {}, 2: {}, 3: {}, 8: more}
			maps.Copy(counted, s.Counts)
			s.Counts = counted
			create(t, m, 4, s)
			if again := load(t, m); !reflect.DeepEqual(again.Counts, test.want) {
				t.Errorf("counts of a new snapshot are %v, want %v", again.Counts, test.want)
			}
		})
	}
}
