package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
	"github.com/bloomkv/bloomkv/tools/picture"
)

var must = testkit.Must

// Filters are measured exactly in the tests of filterexam.
func init() { filterexam.MostProbes = 1 << 19 }

// bigStore returns a store with the given numbers of tables on levels 0 and 6. Each table of level 0 is a run.
func bigStore(upper, lower int) *Store {
	s := &Store{Manifest: "MANIFEST-000001", Levels: []Level{{Level: 0}, {Level: 6}}}
	add := func(level int, run uint64, from, to float64) {
		s.Tables = append(s.Tables, Table{
			Level: &level, Run: &run, File: fmt.Sprintf("%06d.sst", len(s.Tables)), Bytes: uint64(len(s.Tables)%97 + 1),
			Entries: 1, FilterBytes: 64, FPRPromised: 0.01, FPRFromBits: 0.01, Smallest: "a", Largest: "b",
			Place: &Place{From: from, To: to, FPR: 0.001},
		})
	}
	for i := range upper {
		add(0, uint64(100+upper-i), 0, 1)
	}
	for i := range lower {
		add(6, 1, float64(i)/float64(lower), float64(i+1)/float64(lower))
	}
	return s
}

func TestThePageOfALargeStoreIsBounded(t *testing.T) {
	s := bigStore(60, 9940)
	s.Tables[5000].Damage = damageOf(errors.New("broken"))
	for i := range 300 {
		s.Flags = append(s.Flags, Flag{FilterDamaged, s.Tables[5000+i].File, "broken"})
		s.Others = append(s.Others, File{File: fmt.Sprint("other", i)})
	}
	s.Overlap = &Overlap{Of: "runs", Members: make([]OverlapMember, 61)}
	for i := range 61 {
		for j := range 61 {
			if i != j {
				s.Overlap.Pairs = append(s.Overlap.Pairs, OverlapPair{A: i, B: j, Share: float64(i) / 61})
			}
		}
	}
	var b bytes.Buffer
	must(t, s.Page().WriteHTML(&b))
	if b.Len() > 2<<20 {
		t.Errorf("%d bytes, want two million at most", b.Len())
	}
	for _, want := range []string{
		"9800 are not listed", "Each box is up to 5 tables, in the color of the worst.",
		"9,960 tables of further runs are not drawn.", "and 280 flags more", "200 are not listed",
		"The largest 60 of 3660", "005000.sst",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

func TestThePageOfManyRunsHasTheFirstOfThem(t *testing.T) {
	const runs = mostOverlap + 1
	o := &Overlap{Of: "runs", Members: make([]OverlapMember, runs)}
	o.Pairs = []OverlapPair{{A: 0, B: 1, Share: 0.5}, {A: 1, B: runs - 1, Share: 0.25}}
	var page, text bytes.Buffer
	d := &document{sections: []section{o.section()}}
	must(t, d.page().WriteHTML(&page))
	d.writeText(&text, false)
	for _, want := range []string{"The first 64 of 65 runs are drawn.", "The largest 2 of 2"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	words := strings.Join(strings.Fields(text.String()), " ")
	if want := "the first 64 of 65 runs are shown"; !strings.Contains(words, want) {
		t.Errorf("no %q in\n%s", want, &text)
	}
}

func TestAMissingTableDoesNotUnboundTheFlags(t *testing.T) {
	s := &Store{Missing: []string{fmt.Sprintf("%06d.sst", mostFlags)}}
	for i := range 2 * mostFlags {
		s.Flags = append(s.Flags, Flag{TableDamaged, fmt.Sprintf("%06d.sst", i), "gone"})
	}
	shown := 0
	for _, n := range s.notes() {
		if strings.HasPrefix(n.Title, string(TableDamaged)) {
			shown++
		}
	}
	if shown != mostFlags {
		t.Errorf("%d flags are shown, want %d", shown, mostFlags)
	}
}

func TestAQuestionThatIsAskedTwiceIsDrawnOnce(t *testing.T) {
	asked := WhatIf{Asked: "fpr=0.1", Bytes: 100, Wasted: 0.1}
	d := &document{sections: []section{new(Store{WhatIf: []WhatIf{asked, asked}}).whatIfSection()}}
	must(t, d.page().WriteHTML(io.Discard))
}

func TestTheTreeIsDrawnTableByTable(t *testing.T) {
	s := bigStore(2, 4)
	s.Flags = []Flag{{NoFilter, "000003.sst", "it has no filter"}}
	s.Tables[3].Place.FPR = 1
	s.Tables[4].Damage = damageOf(errors.New("broken"))
	spans := s.treeChart().Spans
	var got []string
	for _, r := range spans.Rows {
		got = append(got, r.Name)
		for _, b := range r.Spans {
			got = append(got, fmt.Sprint(b.From, b.To, b.Value, " ", b.Name, " ", b.Marked, " ", b.Group))
		}
	}
	want := []string{
		"level 0, run 102", "0 1 0.001 000000 false level 0", "level 0, run 101", "0 1 0.001 000001 false level 0",
		"level 6, run 1", "0 0.25 0.001 000002 false level 6", "0.25 0.5 1 000003 true level 6",
		"0.5 0.75 0.001 000004 true level 6", "0.75 1 0.001 000005 false level 6",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	ticks := spans.Ticks
	if len(ticks) != 5 || ticks[0] != (picture.SpanTick{Name: "a"}) ||
		ticks[4] != (picture.SpanTick{At: 1, Name: "b"}) {
		t.Errorf("ticks %v, want one at each end of a table", ticks)
	}
}

func TestTablesThatStandOutAreThoseInTroubleAndTheLargest(t *testing.T) {
	s := bigStore(30, 300)
	s.Tables[200].Damage = damageOf(errors.New("broken"))
	s.Tables[100].FPRFromBits = 0.02
	s.Tables[101].FPRFromBits = 0.0101 // by chance
	for i := range s.Tables {
		s.Tables[i].Bytes = 1000 - uint64(i)
	}
	if got, want := s.standOut(), []int{0, 1, 2, 3, 4, 30, 31, 32, 33, 34, 100, 200}; !slices.Equal(got, want) {
		t.Errorf("got %v, want the damaged one, that above its promise, and the largest of both levels: %v", got, want)
	}
	if got := bigStore(1, 2).standOut(); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("of three tables: %v", got)
	}
}

// TestChartsAreOfWhatThereIs checks the charts of intact, small, damaged and missing filters.
func TestChartsAreOfWhatThereIs(t *testing.T) {
	m := &filterexam.Measured{}
	bin := []filterexam.Bin{{From: 200, To: 209, Blocks: 3, Want: 2.5}, {From: 210, To: 214, Blocks: 1, Want: 1.5}}
	unit := filterexam.UnitExam{
		Blocks: 4, Promised: 0.01, ByTable: 0.01, FromBits: 0.01, Measured: m, Histogram: bin,
		Regions: []float64{0.1, 0.2, 0.3, 0.4}, RegionBlocks: 1, SetBits: &filterexam.Stat{Z: 7},
	}
	for _, c := range []struct {
		name string
		r    *Filter
		want []string
	}{
		{
			"a unit", &Filter{Exam: filterexam.Exam{Units: []filterexam.UnitExam{unit}, Measured: m, Promised: 0.01}},
			[]string{"x-occupancy-0", "x-regions-0", "x-theory"},
		},
		{
			"a unit of one block",
			&Filter{Exam: filterexam.Exam{Units: []filterexam.UnitExam{{
				Blocks: 1, Measured: m, Histogram: bin[:1],
				Regions: []float64{1},
			}}, Measured: m}},
			[]string{"x-theory"},
		},
		{"a damaged filter", &Filter{Exam: filterexam.Exam{Units: []filterexam.UnitExam{{Blocks: 4}}}}, nil},
		{"none", nil, nil},
	} {
		var got []string
		charts := c.r.charts("x-")
		for _, chart := range charts {
			got = append(got, chart.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if err := (&picture.Page{Sections: []picture.Section{{
			ID:     "s",
			Charts: charts,
		}}}).WriteHTML(&bytes.Buffer{}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if l := occupancyChart("o", bin).Lines; !slices.Equal(l[0].X, []float64{204.5, 214.5}) ||
		!slices.Equal(l[0].Y, []float64{3, 1}) || !slices.Equal(l[1].Y, []float64{2.5, 1.5}) {
		t.Errorf("the histogram is %+v, want equal steps, blocks, and what there should be", l)
	}
	last := []filterexam.Bin{{To: 19, Blocks: 9, Want: 9}, {From: 20, To: 39, Blocks: 1, Want: 1e-130}}
	full := occupancyChart("o", last)
	must(t, full.SVG(io.Discard))
	g := mapOf([]float64{31: 1, 40: 2}, "block", 100)
	if len(g.Values) != 2 || len(g.Values[0]) != mapColumns || len(g.Values[1]) != 9 || g.Values[1][8] != 2 ||
		!slices.Equal(g.Rows, []string{"0", "3,200"}) {
		t.Errorf("the map is %+v, want rows of %d, the last shorter", g, mapColumns)
	}
}

func TestTheAdviceIsForTheWorstProblem(t *testing.T) {
	const lost, all = "No data is lost", "bloomkv compact --compression s2 DIR writes all tables and filters anew."
	short := []Flag{{Name: MemoryShort}}
	damaged := []Flag{{Name: FilterDamaged}}
	denied := KeyTable{Verdict: falseNegative, Units: make([]filterexam.UnitTrace, 1)}
	for _, c := range []struct {
		name       string
		flags      []Flag
		table      Table
		key        *Key
		lost, anew bool
	}{
		{"too little memory", short, Table{}, nil, true, false},
		{"a damaged filter", damaged, Table{Damage: &Damage{}, filterDamaged: true}, nil, true, false},
		{"a damaged sample", damaged, Table{Damage: &Damage{}}, nil, true, true},
		{"a filter that is not of the keys", nil, Table{verified: true, Verify: &Verify{Denied: 1}}, nil, false, true},
		{"such a filter, and memory", short, Table{verified: true, Verify: &Verify{Denied: 1}}, nil, false, true},
		{"a key that is denied", short, Table{}, &Key{Tables: []KeyTable{denied}}, false, true},
	} {
		s := &Store{Plan: &Plan{}, Promise: &Promise{}, Flags: c.flags, Tables: []Table{c.table}}
		s.Key = c.key
		if got := s.advice(); strings.Contains(got, lost) != c.lost || strings.Contains(got, all) != c.anew {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestTheGaugeIsOfWhatWasAsked(t *testing.T) {
	s := &Store{Promise: &Promise{Asked: 0.01}, Plan: &Plan{}, Tree: Figures{Tables: 1, Promised: 1, Predicted: 0.5}}
	if f := s.figures()[2]; f.Limit != 0.01 || f.Taken != 0.5 {
		t.Errorf("without filters the gauge is %+v, want 0.5 of the 0.01 that were asked", f)
	}
	s.Plan.Limit = 1 << 20
	if f := s.figures()[2]; f.Limit != 1 {
		t.Errorf("with a limit on filters the gauge is %+v, want what these promise", f)
	}
}

// A search in some of the tables only would say that no table spans a key.
func TestThePageSearchesInAllTablesOrInNone(t *testing.T) {
	s := bigStore(1, mostSearched-1)
	s.Tables[7].unread, s.Tables[7].Entries = true, 0
	s.Tables[8].Entries = 0 // range deletes alone
	s.Tables[9].fences = manifest.Bounds{Lo: []byte("k"), Hi: bytes.Repeat([]byte("z"), 65), Exclusive: true}
	data, _ := s.searchData().(searchData)
	all := data.Tables
	if len(all) != mostSearched-1 || !all[7].Damaged || all[8].File != s.Tables[9].File || !all[0].NoEnd {
		t.Errorf("%d tables, the eighth damaged %t, want all but the one without versions", len(all), all[7].Damaged)
	}
	if x := all[8]; x.Low != "6b" || len(x.High) != 2*mostFence || !x.Cut || !x.Open || x.NoEnd {
		t.Errorf("fences %+v, want those of the table, the long one cut", x)
	}
	if data := bigStore(1, mostSearched).searchData(); data != nil {
		t.Error("a page of more tables searches in some")
	}
}

// TestThePageOfManyLargeFiltersIsSmall inspects tables of level 0, whose filters have two units.
func TestThePageOfManyLargeFiltersIsSmall(t *testing.T) {
	s := &Store{}
	for i := range 12 {
		s.Tables = append(s.Tables, Table{
			Level: new(0), Bytes: uint64(100 - i), Units: []Unit{{Blocks: 10_000}, {Blocks: 100}},
		})
	}
	if got := len(s.standOut()); got != 12 {
		t.Errorf("%d of 12 tables with a large unit and a small one are shown in full, want all", got)
	}
	for i := range s.Tables {
		s.Tables[i].Units[1].Blocks = 10_000
	}
	if got := s.standOut(); len(got) != 8 || got[0] != 0 {
		t.Errorf("tables %v of 12 with two large units are shown in full, want 8 from 0 on", got)
	}
	s.Tables[0].Prefix = &Prefix{Units: make([]Unit, 20)}
	for i := range s.Tables[0].Prefix.Units {
		s.Tables[0].Prefix.Units[i].Blocks = 10_000
	}
	if got := len(s.standOut()); got != 1 {
		t.Errorf("%d tables are shown in full beside one with too many units, want it alone", got)
	}
}
