package inspect

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
	"github.com/bloomkv/bloomkv/tools/internal/foreign"
	"github.com/bloomkv/bloomkv/tools/picture"
)

// otherTable returns a table of another store whose Bloom filter of ten bits for each key has the given rate.
func otherTable(name string, rate float64) Foreign {
	const keys = 1000
	return Foreign{
		File: name, line: 64, bits: filterexam.ExamineBits(bytes.Repeat([]byte{1, 2, 3}, 640), 64, 0, 6),
		Facts: foreign.Facts{
			Store: foreign.RocksDB, Bytes: 10_000, Entries: keys,
			Filter: &foreign.Filter{Kind: "blocked Bloom", Bytes: keys * 10 / 8, Probes: 6, Probe: "probe"},
		},
		Exam: &foreign.Exam{Complete: true, Keys: keys, Bits: keys * 10, BitsPerKey: 10, FromBits: rate},
	}
}

// TestTablesOfAnotherStoreAreShownTheWorstFirst draws a directory of tables with and without filters.
func TestTablesOfAnotherStoreAreShownTheWorstFirst(t *testing.T) {
	s := &ForeignStore{dir: "/dir"}
	for i := range 20 {
		f := otherTable(fmt.Sprintf("%06d.sst", i), float64(i+1)/1000)
		if i == 7 {
			f.Filter, f.bits = nil, nil
		}
		s.All = append(s.All, f)
	}
	s.Unread = []ForeignUnread{{"dark.sst", "no key", 5000, foreign.ErrUnknown}}
	s.sum()
	const want = "These 23.8 kB of filters let 1.1 % of absent keys through. The same memory could let 0.14 % " +
		"through. 1 table has no filter: every lookup of an absent key in its range reads a block."
	if lede := s.lede(); lede[0] != want || !strings.Contains(lede[1], "from the bits of the filters") {
		t.Errorf("the page begins with %q", lede)
	}
	all := s.tableSections()
	rows := all[0].charts[0].Spans.Rows
	if len(rows) != 2 || rows[0].Spans[0].Name != "000007" || rows[0].Spans[0].Value != 1 ||
		rows[0].Spans[1].Name != "000019" || rows[0].Spans[1].Link != "table-1" {
		t.Errorf("the boxes are %+v, want the table without a filter and then the worst one", rows[0].Spans[:2])
	}
	if last := slices.Concat(rows[0].Spans, rows[1].Spans)[20]; last.Name != "dark.sst" ||
		last.Value != picture.NoValue || last.To-last.From > 0.6*(rows[0].Spans[0].To-rows[0].Spans[0].From) {
		t.Errorf("the last box is %+v, want the table that was not read, half as wide", last)
	}
	if n := len(all[1].parts); n != mostDrawn || len(all[1].parts[0].charts) < 2 {
		t.Errorf("%d tables are drawn, want %d", n, mostDrawn)
	}
	var b bytes.Buffer
	must(t, s.Page().WriteHTML(&b)) // which checks all charts and links
	f := otherTable("a.sst", 0.01)
	f.Exam.Between = &foreign.Measured{Rate: 0.02, Maybe: 2000, Probes: 100_000}
	lede := f.alone().lede()
	if !strings.HasPrefix(lede[0], "This filter of 1.25 kB lets 2.0 % of") ||
		!strings.Contains(lede[1], "measured with 100,000 absent keys") || len(f.document().sections[0].charts) != 3 {
		t.Errorf("a table by itself: %q", lede)
	}
	f.Exam.BitsPerKey = 0
	if lede := f.alone().lede(); len(lede) != 1 || !strings.HasPrefix(lede[0], "What 1 filter of 1 table may let") {
		t.Errorf("a table with unknown keys: %q", lede)
	}
	f.Filter = nil
	if lede := f.alone().lede(); len(lede) != 1 || !strings.HasPrefix(lede[0], "This table has no filter:") {
		t.Errorf("a table without a filter: %q", lede)
	}
}
