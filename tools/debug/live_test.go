package debug

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

func TestLinesAreAsWideAsTheirTile(t *testing.T) {
	many := make([]float64, mostSamples)
	for i := range many {
		many[i] = float64(i % 7)
	}
	for _, c := range []struct {
		values []float64
		want   string // "" for a line that is only as long as it may be
	}{
		{[]float64{4}, "0,1 240,1"},
		{[]float64{0}, "0,31 240,31"},
		{[]float64{0, 2, 4}, "0,31 120,16 240,1"},
		{many, ""},
	} {
		got := points(c.values, 4)
		if c.want != "" && got != c.want {
			t.Errorf("%v: %q, want %q", c.values, got, c.want)
		}
		if all := strings.Fields(got); len(all) > mostPoints+1 || !strings.HasPrefix(all[len(all)-1], "240,") {
			t.Errorf("%d values: %d points, the last at %s", len(c.values), len(all), all[len(all)-1])
		}
	}
}

// TestThePageHasTilesOnceSomethingHasHappened makes the parts of the page of an idle store, and of one that works.
func TestThePageHasTilesOnceSomethingHasHappened(t *testing.T) {
	m := bloomkv.Metrics{Levels: []bloomkv.LevelMetrics{}, Warm: true, Settled: true}
	before := Sample{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), FPRPromised: 0.01}
	if p := partsOf(&m, []Sample{before}); p.Tiles != "" || !strings.Contains(string(p.Rows), "<td>0.01</td>") ||
		p.Log != "<li>nothing yet</li>" || !strings.Contains(string(p.State), "settled") {
		t.Errorf("an idle store: %+v", p)
	}
	m.Lookups.Gets, m.Settled, m.FPRAsked, m.FPRPredicted = 50_000, false, 0.01, 0.005
	m.Levels = []bloomkv.LevelMetrics{{Runs: 2, Tables: 2, Bytes: 1e6}, {Level: 6, Runs: 1, Tables: 3, Bytes: 2e6}}
	m.Work.Memtables, m.Work.Versions, m.Work.VersionsFlushed = 1, 4, 1
	s := before
	s.Now.LookupsPerSecond, s.LastMinute.FPRMeasured = 42_400, 0.00824
	s.Writes.Flushes, s.Writes.FlushBytes = 1, 1_310_000
	var p map[string]any
	testkit.Must(t, json.Unmarshal(partsOf(&m, []Sample{before, s}).json(), &p))
	for part, want := range map[string]string{
		"live-tiles": "<dd class=\"value\">42.4k</dd>", "live-work": "flushing 1 memtable, 25 % done",
		"live-log": "<li>03:04:05 1 flush, 1.31 MB written</li>", "live-rows": "<td>42.4k</td>",
		"figures": `3 MB</dd><dd class="remark">5 tables in 3 runs</dd>`,
	} {
		if text, _ := p[part].(string); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", part, p[part], want)
		}
	}
	tiles, _ := p["live-tiles"].(string)
	if n := strings.Count(tiles, "<polyline"); n != 7 ||
		!strings.Contains(tiles, `<polyline class="promise" points="0,1 240,1"/>`) {
		t.Errorf("%d lines, want one for each of six tiles and that of the promise: %s", n, tiles)
	}
	if p := partsOf(new(bloomkv.Metrics), nil); !strings.Contains(string(p.State), "closed") || p.Figures+p.Rows != "" {
		t.Errorf("a closed store without samples: %+v", p)
	}
}
