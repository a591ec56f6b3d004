package manifest

import (
	"errors"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// TestNumbersThatNoStoreGaveOutAreRefused loads manifests of edits that are right one by one, but have numbers that do
// not fit together.
func TestNumbersThatNoStoreGaveOutAreRefused(t *testing.T) {
	seqs := func(t *Table, low, high ikey.Seq) *Table {
		t.MinSeq, t.MaxSeq = low, high
		return t
	}
	twin, ingested, empty := table(5, "x", "z"), table(5, "x", "z"), table(5, "x", "z")
	twin.ID = table(4, "", "").ID
	ingested.Flags, ingested.MaxSeq = SeqOverridden, 9
	empty.Entries, empty.Deletes = 0, 0
	for _, tt := range []struct {
		name string
		edit Edit
		want string // in the error; "" for none
	}{
		{
			"all is well",
			Edit{
				NextFile: 20, LastSeq: 50,
				Added: []Added{
					add(0, 9, table(5, "a", "c")), add(0, 8, table(4, "a", "c")), add(6, 3, table(3, "a", "c")),
				},
			},
			"",
		},
		{
			"a run of the next number",
			Edit{NextFile: 20, Added: []Added{add(0, 20, table(4, "a", "c"))}},
			"run 20, but next file 20",
		},
		{
			"a table of the next number",
			Edit{NextFile: 20, Added: []Added{add(0, 9, table(20, "a", "c"))}},
			"table 20, but next file 20",
		},
		{"the largest numbers", Edit{NextFile: maxGiven, LastSeq: MaxSeq}, ""},
		{"files exhausted", Edit{NextFile: maxGiven + 1}, "the numbers of files are exhausted"},
		{"sequences exhausted", Edit{NextFile: 20, LastSeq: MaxSeq + 1}, "the sequence numbers are exhausted"},
		{
			"sequences exhausted by a table",
			Edit{NextFile: 20, Added: []Added{add(0, 9, seqs(table(4, "a", "c"), 1, MaxSeq+1))}},
			"the sequence numbers are exhausted",
		},
		{
			"one id for two tables",
			Edit{NextFile: 20, Added: []Added{add(0, 9, twin), add(6, 3, table(4, "a", "c"))}},
			"tables 5 and 4 have the same id",
		},
		{
			"an ingested table of many sequences",
			Edit{NextFile: 20, Added: []Added{add(0, 9, ingested)}},
			"want one above 0",
		},
		{
			"a table of nothing",
			Edit{NextFile: 20, Added: []Added{add(0, 9, empty)}},
			"neither entries nor range deletes",
		},
		{
			"one number for two runs",
			Edit{NextFile: 20, Added: []Added{add(0, 9, table(4, "a", "c")), add(6, 9, table(3, "a", "c"))}},
			"run 9 is at level 0 and at level 6",
		},
		{
			"two runs below level 0",
			Edit{NextFile: 20, Added: []Added{add(2, 9, table(4, "a", "c")), add(2, 8, table(3, "a", "c"))}},
			"level 2: runs 9 and 8, want one run at most",
		},
		{
			"an older run with a newer sequence",
			Edit{NextFile: 20, Added: []Added{add(0, 9, table(4, "a", "c")), add(0, 8, table(5, "a", "c"))}},
			"level 0: run 9 from sequence 4, the older run 8 goes up to 5",
		},
		{
			"two runs with one sequence",
			Edit{
				NextFile: 20, Added: []Added{add(0, 9, seqs(table(4, "a", "c"), 5, 6)), add(0, 8, table(5, "a", "c"))},
			},
			"the older run 8 goes up to 5",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newFS(t)
			putManifest(t, m, AppendEdit(nil, &tt.edit))
			_, err := Load(m, "db")
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("%v, want it loaded", err)
			case tt.want != "" && (!errors.Is(err, corrupt.Err) || !strings.Contains(err.Error(), tt.want) ||
				!strings.Contains(err.Error(), "MANIFEST-")):
				t.Errorf("%v, want damage of the manifest with %q", err, tt.want)
			}
		})
	}
}

func TestNoWriteBeginsAboveTheLastNumber(t *testing.T) {
	for _, c := range []struct {
		file uint64
		seq  ikey.Seq
		ok   bool
	}{{0, 0, true}, {MaxFile, MaxWrite, true}, {MaxFile + 1, MaxWrite + 1, false}} {
		if file, seq := CheckFile(c.file), CheckWrite(c.seq); (file == nil) != c.ok || (seq == nil) != c.ok {
			t.Errorf("file %d: %v, sequence %d: %v; want them taken: %v", c.file, file, c.seq, seq, c.ok)
		}
	}
}
