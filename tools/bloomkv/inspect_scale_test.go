package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

var scaleKeys = flag.Int("keys", 8_000,
	"keys of the stores on which text, JSON and page must agree; as many absent ones are looked up")

func scaleKey(i int) []byte { return fmt.Appendf(nil, "user/%09d", i) }

// scaleStore returns a store of n keys, written in random order to three levels and some runs of level 0, and the
// reads wasted per lookup of n absent keys between them.
func scaleStore(t *testing.T, n int, kind bloomkv.FilterKind) (dir string, wasted float64) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	size := max(2*int64(n), 64<<10)
	db, err := bloomkv.Open(dir, &bloomkv.Options{
		FilterSeed: 1,
		FilterKind: kind, Durability: bloomkv.DurabilityNoSync, Compression: bloomkv.CompressionNone,
		MemoryBudget: 256 << 20, MemtableSize: size, TableSize: size, BaseLevelSize: 2 * size, LevelRatio: 4,
	})
	must(t, err)
	put := func(keys []int) {
		t.Helper()
		var b bloomkv.Batch
		for part := range slices.Chunk(keys, 1000) {
			b.Reset()
			for _, i := range part {
				b.Put(scaleKey(i), fmt.Appendf(nil, "%064d", i))
			}
			must(t, db.ApplyWith(&b, bloomkv.DurabilityNoSync))
		}
		must(t, db.Flush(t.Context()))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	put(rng.Perm(n))
	half := bloomkv.KeyRange{Upper: scaleKey(n / 2)} // the rest stays where it is
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Range: half}))
	for range 3 {
		put(rng.Perm(n)[:n/100])
	}
	settle(t, db)
	before := db.Metrics().Lookups
	for _, i := range rng.Perm(n) { // each once, or the count varies more
		if _, err := db.Get(append(scaleKey(i), '/')); !errors.Is(err, bloomkv.ErrNotFound) {
			t.Fatal(err)
		}
	}
	wasted = float64(db.Metrics().Lookups.WastedReads-before.WastedReads) / float64(n)
	must(t, errors.Join(db.Put(scaleKey(0), nil), db.Close()))
	return dir, wasted
}

// TestTextJSONAndPageAgreeOnAStore compares text, JSON and page of a store and of each of its tables. Every filter is
// rebuilt and queried with random hashes.
func TestTextJSONAndPageAgreeOnAStore(t *testing.T) {
	if testing.Short() {
		t.Skip("some thirty tables, each looked at three ways")
	}
	n := *scaleKeys
	for _, kind := range []bloomkv.FilterKind{bloomkv.FilterBloom, bloomkv.FilterRibbon} {
		dir, wasted := scaleStore(t, n, kind)
		ask := func(args ...string) (text, object, doc, page string) {
			t.Helper()
			name := filepath.Join(t.TempDir(), "page.html")
			text = tool{}.must(t, append([]string{"inspect"}, args...)...)
			object = tool{}.must(t, append([]string{"inspect", "--json", "--html", name}, args...)...)
			doc = string(readFile(t, name))
			page, _ = textOf(t, doc)
			if !strings.Contains(page, "No problems found.") {
				t.Errorf("%q: the page does not say that all is well:\n%s", args, text)
			}
			_, page, _ = strings.Cut(page, " UTC by bloomkv ") // what is before says where and when
			return ungrouped(text), object, doc, page
		}
		// With a page, JSON also has the filters of the tables that are shown in full. The other tables are checked on
		// pages of their own.
		text, object, doc, page := ask(dir, "--verify", "--what-if", "fpr=0.001")
		agreeOnLevels(t, doc, object)
		agreeWithObject(t, page, object)
		var s inspect.Store
		must(t, json.Unmarshal([]byte(object), &s))
		agreeOnFigures(t, text, &s)
		if off := 0.05*wasted + 3*math.Sqrt(wasted/float64(n)); math.Abs(s.Tree.Predicted-wasted) > off {
			t.Errorf("%d absent keys wasted %.5f reads each, predicted %.5f", n, wasted, s.Tree.Predicted)
		}
		worst, ribbons := 0.0, 0
		for i := range s.Tables {
			name := filepath.Join(dir, s.Tables[i].File)
			text, object, doc, page := ask(name, "--verify")
			agreeOnPage(t, name, page, object)
			agreeOnUnits(t, doc, object)
			agreeOnAll(t, name, text, object)
			var f inspect.Table
			must(t, json.Unmarshal([]byte(object), &f))
			agreeOnRows(t, text, f.Filter)
			if f.Verify == nil || !f.Verify.OK || s.Tables[i].Verify == nil || !s.Tables[i].Verify.OK {
				t.Errorf("%s: %+v", f.File, f.Verify)
			}
			for _, u := range f.Filter.Units {
				worst = max(worst, math.Abs(u.Measured.Z))
				if u.Columns > 0 {
					ribbons++
				}
			}
		}
		if len(s.Levels) < 3 || s.Levels[0].Runs < 3 || (ribbons > 0) != (kind == bloomkv.FilterRibbon) {
			t.Errorf("%d levels, %d runs on level 0, %d Ribbon units", len(s.Levels), s.Levels[0].Runs, ribbons)
		}
		if worst > 5 {
			t.Errorf("a measured rate is %.1f standard errors from that of the bits", worst)
		}
		t.Logf("%d keys, %d tables, %d levels: wasted %.5f, predicted %.5f (%.3f); the measured rate that is "+
			"farthest from the bits is so by %.1f standard errors",
			n, len(s.Tables), len(s.Levels), wasted, s.Tree.Predicted, s.Tree.Predicted/wasted, worst)
	}
}

// agreeWithObject finds each number of a page in the JSON.
func agreeWithObject(t *testing.T, page, object string) {
	t.Helper()
	var all any
	must(t, json.Unmarshal([]byte(object), &all))
	var have []float64
	// as percent, kB and MB too
	numbers(all, func(f float64) { have = append(have, f, 100*f, f/1e3, f/1e6) })
	for i := range 513 { // numbers of units and of rows, bits of a block
		have = append(have, float64(i))
	}
	offsets := filterOffsets(all)
	for _, digits := range number.FindAllString(strings.NewReplacer("–", " ", "…", " ", "−", "-").Replace(page), -1) {
		printed, err := strconv.ParseFloat(digits, 64)
		must(t, err)
		if !slices.ContainsFunc(have, func(f float64) bool {
			return agrees(digits, printed, math.Abs(f)) ||
				slices.ContainsFunc(offsets, func(at float64) bool { return f >= 0 && printed == at+f })
		}) {
			t.Errorf("the page has %s, the object nothing like it", digits)
		}
	}
}

// filterOffsets returns the offsets of the filter blocks in their files, to which offsets on the page are relative.
func filterOffsets(v any) (at []float64) {
	switch v := v.(type) {
	case map[string]any:
		if offset, ok := v["offset"].(float64); ok && v["header"] != nil {
			at = append(at, offset)
		}
		for _, member := range v {
			at = append(at, filterOffsets(member)...)
		}
	case []any:
		for _, member := range v {
			at = append(at, filterOffsets(member)...)
		}
	}
	return at
}

// settle waits until the background work of a store is done.
func settle(t *testing.T, db *bloomkv.DB) {
	t.Helper()
	for begin := time.Now(); !db.Metrics().Settled || !db.Metrics().Warm; time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("not settled:\n%v", db.Metrics())
		}
	}
}
