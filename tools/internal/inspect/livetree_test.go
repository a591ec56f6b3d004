package inspect

import (
	"io"
	"math"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/picture"
)

func TestTablesLieWhereTheirBoundsSay(t *testing.T) {
	table := func(level int, low, high string, entries uint64) bloomkv.TableMetrics {
		m := bloomkv.TableMetrics{
			File: low + ".sst", Level: level, Run: uint64(level), Smallest: []byte(low), Largest: []byte(high),
			Entries: entries, FPRPredicted: 0.01,
		}
		if high == "" {
			m.Largest = nil // unbounded
		}
		return m
	}
	for _, c := range []struct {
		name   string
		tables []bloomkv.TableMetrics
		want   [][2]float64
	}{
		{
			"two in a run",
			[]bloomkv.TableMetrics{table(6, "k/a", "k/m", 30), table(6, "k/n", "k/z", 10)},
			[][2]float64{{0, 0.75}, {0.75, 1}},
		},
		{
			"one over another",
			[]bloomkv.TableMetrics{table(0, "a", "e", 10), table(6, "a", "e", 30)},
			[][2]float64{{0, 1}, {0, 1}},
		},
		{
			"over one half",
			[]bloomkv.TableMetrics{table(0, "a", "c", 10), table(6, "a", "e", 20)},
			[][2]float64{{0, 2. / 3}, {0, 1}},
		},
		{
			"one key",
			[]bloomkv.TableMetrics{table(0, "b", "b", 10), table(6, "a", "c", 10)},
			[][2]float64{{0.25, 0.75}, {0, 1}},
		},
		{
			"without an end",
			[]bloomkv.TableMetrics{table(0, "c", "", 10), table(6, "a", "e", 10)},
			[][2]float64{{0.25, 1}, {0, 1}},
		},
		{"the empty key", []bloomkv.TableMetrics{table(0, "", "b", 1)}, [][2]float64{{0, 1}}},
		{"range deletes alone", []bloomkv.TableMetrics{table(0, "a", "b", 0)}, nil},
		{"no tables", nil, nil},
	} {
		got := spreadTables(c.tables)
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
			continue
		}
		for i, p := range got {
			if math.Abs(p.From-c.want[i][0]) > 1e-9 || math.Abs(p.To-c.want[i][1]) > 1e-9 {
				t.Errorf("%s: table %d from %g to %g, want %v", c.name, i, p.From, p.To, c.want[i])
			}
		}
	}
	damaged := table(0, "a", "e", 10)
	damaged.FilterDamaged = true
	c := TreeOf([]bloomkv.TableMetrics{damaged, table(6, "b", "d", 5)}, map[string]bool{"b.sst": true})
	if rows := c.Spans.Rows; len(rows) != 2 || !rows[0].Spans[0].Marked || rows[0].Spans[0].Link != "" ||
		rows[1].Spans[0].Link != "table-b" || rows[1].Spans[0].ID != "b.sst" || rows[1].Spans[0].Value != 0.01 {
		t.Errorf("the tree is %+v", rows)
	}
	page := picture.Page{Sections: []picture.Section{{ID: "table-b", Charts: []picture.Chart{*c}}}}
	must(t, page.WriteHTML(io.Discard))
	if TreeOf(nil, nil) != nil {
		t.Error("no tables are a tree")
	}
}
