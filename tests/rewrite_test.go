package tests

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func tableFileNames(db *bloomkv.DB) (names []string) {
	for _, m := range db.Tables() {
		names = append(names, m.File)
	}
	slices.Sort(names)
	return names
}

// TestCompactWritesTablesAnewWhoseFiltersMissThePlan changes the options of filters between two openings. Until
// Compact, Metrics shows how many tables are off the plan; afterwards the promise holds from the first lookup on, and a
// second Compact writes nothing.
func TestCompactWritesTablesAnewWhoseFiltersMissThePlan(t *testing.T) {
	testkit.Long(t)
	const n, lookups = 40_000, 100_000
	ribbon := func(o *bloomkv.Options) { o.FilterKind = bloomkv.FilterRibbon }
	prefix := func(n int) func(*bloomkv.Options) {
		return func(o *bloomkv.Options) { o.FilterPrefix = bloomkv.PrefixLen(n) }
	}
	both := func(o *bloomkv.Options) { ribbon(o); prefix(6)(o) }
	memory := func(bytes int64, kind bloomkv.FilterKind) func(*bloomkv.Options) {
		return func(o *bloomkv.Options) { o.FilterFPR, o.FilterMemory, o.FilterKind = 0, bytes, kind }
	}
	for _, c := range []struct {
		name     string
		fpr      float64
		with     func(*bloomkv.Options)
		then     float64
		thenWith func(*bloomkv.Options)
		worse    bool // more reads are wasted than promised until Compact
	}{
		{"a lower rate", 0.1, nil, 0.001, nil, true},
		{"a lower rate of Ribbon filters", 0.1, ribbon, 0.001, ribbon, true},
		{"a lower rate of prefixes too", 0.1, prefix(6), 0.001, prefix(6), true},
		{"a lower rate of prefixes too, of Ribbon filters", 0.1, both, 0.001, both, true},
		{"a higher rate", 0.001, nil, 0.1, nil, false},
		{"no filters before", 1, nil, 0.01, nil, true},
		{"no filters afterwards", 0.01, nil, 1, nil, false},
		{"another kind", 0.01, nil, 0.01, ribbon, false},
		{"the first kind", 0.01, ribbon, 0.01, func(o *bloomkv.Options) { o.FilterKind = bloomkv.FilterBloom }, false},
		{"prefixes", 0.01, nil, 0.01, prefix(6), false},
		{"prefixes by another rule", 0.01, prefix(7), 0.01, prefix(6), false},
		{"no prefixes afterwards", 0.01, prefix(6), 0.01, nil, false},
		{"memory in place of a rate", 0.1, nil, 0, memory(64<<10, bloomkv.FilterBloom), true},
		{"memory in place of a rate, and another kind", 0.1, nil, 0, memory(64<<10, bloomkv.FilterRibbon), true},
		{"more memory", 0, memory(64<<10, bloomkv.FilterBloom), 0, memory(128<<10, bloomkv.FilterBloom), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfstest.NewMem()
			db := storetest.PlanStore(t, storetest.PlanOptions(mem, c.fpr, c.with), n)
			if m := db.Metrics(); m.TablesOffPlan != 0 || m.BytesOffPlan != 0 {
				t.Errorf("before the change, %d tables are off the plan\n%v", m.TablesOffPlan, m)
			}
			o := storetest.PlanOptions(mem, c.then, c.thenWith)
			db = storetest.Reopened(t, db, o)
			storetest.Settle(t, db)
			m := db.Metrics()
			var size uint64
			for _, table := range db.Tables() {
				size += table.Bytes
				if !table.OffPlan {
					t.Errorf("%s is not off the plan", table.File)
				}
			}
			if m.TablesOffPlan != m.Files.Tables || m.TablesOffPlan < 10 ||
				m.TablesOffPlan != m.Levels[lastLevel].TablesOffPlan || m.BytesOffPlan != size ||
				m.Writes.CompactedBytes != 0 {
				t.Errorf("%d of %d tables off the plan, %d of %d bytes, and %d written; want all, and 0 written",
					m.TablesOffPlan, m.Files.Tables, m.BytesOffPlan, size, m.Writes.CompactedBytes)
			}
			if got := storetest.Wastes(t, db, n, lookups); c.worse && o.FilterMemory == 0 && got < 10*m.FPRAsked ||
				got > storetest.MostWasted(max(m.FPRPromised, m.FPRPredicted), lookups) {
				t.Errorf("before Compact, %.4g are wasted, promised %.4g and predicted %.4g", got, m.FPRPromised,
					m.FPRPredicted)
			}

			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			m = db.Metrics()
			got := storetest.Wastes(t, db, n, lookups)
			t.Logf("promised %.4g, predicted %.4g, wasted %.4g; %d bytes written; filters take %d", m.FPRPromised,
				m.FPRPredicted, got, m.Writes.RewrittenBytes, m.Memory.Filters)
			if got > storetest.MostWasted(m.FPRPromised, lookups) {
				t.Errorf("after Compact, %.4g are wasted, promised %.4g", got, m.FPRPromised)
			}
			size = m.Levels[lastLevel].Bytes
			if m.TablesOffPlan != 0 || m.BytesOffPlan != 0 || m.Writes.RewrittenBytes != size ||
				m.Writes.CompactedBytes != size {
				t.Errorf("after Compact, %d tables are off the plan, %d bytes written, %d of them rewritten, want %d",
					m.TablesOffPlan, m.Writes.CompactedBytes, m.Writes.RewrittenBytes, size)
			}
			if o.FilterMemory > 0 && (m.FPRPromised > 0.2 || m.Memory.Filters > o.FilterMemory ||
				m.Memory.Filters < o.FilterMemory*7/10) {
				t.Errorf("promised %v, filters take %d bytes of %d", m.FPRPromised, m.Memory.Filters, o.FilterMemory)
			}
			scanAbsent(t, db, o.FilterPrefix, 20_000)

			names := tableFileNames(db)
			for range 2 {
				must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
				if again := db.Metrics(); again.Writes.CompactedBytes+again.Writes.Moves > 0 &&
					again.Writes.CompactedBytes != m.Writes.CompactedBytes || !slices.Equal(tableFileNames(db), names) {
					t.Errorf("another Compact wrote %d bytes", again.Writes.CompactedBytes-m.Writes.CompactedBytes)
				}
				m.Writes.CompactedBytes = 0
				db = storetest.Reopened(t, db, o)
			}
		})
	}
}

// scanAbsent scans for absent prefixes: with a rule, all tables have prefix filters, which keep the promise.
func scanAbsent(t *testing.T, db *bloomkv.DB, rule bloomkv.PrefixRule, scans int) {
	t.Helper()
	for i := range uint64(scans) {
		for kv, err := range db.Scan(bloomkv.IterOptions{Prefix: storetest.PlanKey(1<<40 + i<<4)[:6]}) {
			t.Fatalf("scan found %x, %v", kv.Key, err)
		}
	}
	m := db.Metrics()
	passed := m.Prefixes.Probes - m.Prefixes.Negatives
	if rule == (bloomkv.PrefixRule{}) {
		if m.Prefixes.Probes > 0 {
			t.Errorf("prefix filters were probed without a rule: %+v", m.Prefixes)
		}
		return
	}
	limit := storetest.MostWasted(m.FPRPromised, scans) * float64(scans)
	if m.Prefixes.Unasked > 0 || m.Prefixes.Probes == 0 || float64(passed) > limit {
		t.Errorf("%d scans, of which at most %.0f may read a block: %+v", scans, limit, m.Prefixes)
	}
}

// TestCompactLeavesFiltersWhoseUnitsFitLessMemory: two of three units keep the new plan's promise and fit in memory.
func TestCompactLeavesFiltersWhoseUnitsFitLessMemory(t *testing.T) {
	testkit.Long(t)
	mem := vfstest.NewMem()
	options := func(memory int64) *bloomkv.Options {
		return storetest.PlanOptions(mem, 0, func(o *bloomkv.Options) { o.FilterMemory = memory })
	}
	const n = 40_000
	db := storetest.PlanStore(t, options(128<<10), n)
	db = storetest.Reopened(t, db, options(64<<10))
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	m := db.Metrics()
	if got := storetest.Wastes(t, db, n, 50_000); m.TablesOffPlan != 0 || m.Writes.CompactedBytes != 0 ||
		got > storetest.MostWasted(m.FPRPromised, 50_000) || m.FPRPromised > 0.01 {
		t.Errorf("%d tables off the plan, %d bytes written, %v wasted, %v promised", m.TablesOffPlan,
			m.Writes.CompactedBytes, got, m.FPRPromised)
	}
}

// TestCompactLeavesTablesThatAreUpToPlan compacts one half of a store, and then all of it.
func TestCompactLeavesTablesThatAreUpToPlan(t *testing.T) {
	testkit.Long(t)
	mem := vfstest.NewMem()
	const n = 20_000
	db := storetest.PlanStore(t, storetest.PlanOptions(mem, 0.1, nil), n)
	before := db.Tables()
	db = storetest.Reopened(t, db, storetest.PlanOptions(mem, 0.001, nil))
	middle := before[len(before)/2].Smallest
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Range: bloomkv.KeyRange{Lower: middle}}))
	half, m := db.Tables(), db.Metrics()
	old, anew := 0, uint64(0)
	for _, table := range half {
		was := slices.ContainsFunc(before, func(b bloomkv.TableMetrics) bool { return b.File == table.File })
		if inside := string(table.Smallest) >= string(middle); was == inside || table.OffPlan != was {
			t.Errorf("%s, in the range: %v, existed before: %v, off the plan: %v", table.File, inside, was,
				table.OffPlan)
		}
		if was {
			old++
		} else {
			anew += table.Bytes
		}
	}
	if old < 3 || m.TablesOffPlan != old || m.Writes.RewrittenBytes != anew || anew == 0 {
		t.Fatalf("%d old tables, %d off the plan, %d bytes written, want %d", old, m.TablesOffPlan,
			m.Writes.RewrittenBytes, anew)
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	kept := 0
	for _, table := range db.Tables() {
		if slices.ContainsFunc(before, func(b bloomkv.TableMetrics) bool { return b.File == table.File }) {
			t.Errorf("%s was not rewritten", table.File)
		}
		if slices.ContainsFunc(half, func(b bloomkv.TableMetrics) bool { return b.File == table.File }) {
			kept++
		}
	}
	if kept != len(half)-old {
		t.Errorf("of %d tables that matched the plan, %d are left", len(half)-old, kept)
	}
}

// TestBackgroundCompactionBringsOldTablesAlong loads keys in order, so that tables only move, first with a high rate,
// then with a low one: tables that reach another level get a filter of the new plan, and the others stay as they are.
func TestBackgroundCompactionBringsOldTablesAlong(t *testing.T) {
	mem := vfstest.NewMem()
	options := func(fpr float64) *bloomkv.Options {
		o := storetest.Tiny(mem)
		o.Durability, o.FilterFPR, o.LevelRatio = bloomkv.DurabilityNoSync, fpr, 4
		return o
	}
	put := func(db *bloomkv.DB, from, to uint64) {
		t.Helper()
		for i := from; i < to; i++ {
			must(t, db.Put(binary.BigEndian.AppendUint64(nil, i), make([]byte, 30)))
		}
		must(t, db.Flush(t.Context()))
		storetest.Settle(t, db)
	}
	db := storetest.Reopened(t, nil, options(0.1))
	n := uint64(20_000)
	if testing.Short() {
		n /= 2
	}
	put(db, 0, n)
	db = storetest.Reopened(t, db, options(0.001))
	storetest.Settle(t, db)
	place := func(m bloomkv.TableMetrics) string { return fmt.Sprintf("%s on level %d", m.File, m.Level) }
	there, files := map[string]bool{}, map[string]int{}
	for _, m := range db.Tables() {
		there[place(m)], files[m.File] = true, m.Level
	}
	if m := db.Metrics(); m.TablesOffPlan != m.Files.Tables || m.Writes.CompactedBytes != 0 {
		t.Fatalf("%d of %d tables are off the plan, %d bytes written by an idle store", m.TablesOffPlan,
			m.Files.Tables, m.Writes.CompactedBytes)
	}
	put(db, n, 2*n)
	off := 0
	for _, m := range db.Tables() {
		if m.OffPlan {
			off++
		}
		if m.OffPlan && !there[place(m)] {
			t.Errorf("%s is off the plan", place(m))
		}
		delete(files, m.File)
	}
	m := db.Metrics()
	t.Logf("%d tables were rewritten, %d bytes; %d moves; %d are off the plan", len(files), m.Writes.RewrittenBytes,
		m.Writes.Moves, off)
	if len(files) == 0 || m.Writes.Moves == 0 || off == 0 || m.TablesOffPlan != off {
		t.Errorf("%d old tables were removed, %d moves, %d off the plan and %d in Metrics: want some of each",
			len(files), m.Writes.Moves, off, m.TablesOffPlan)
	}
	written := m.Writes.CompactedBytes
	if put(db, 2*n, 2*n); db.Metrics().Writes.CompactedBytes != written {
		t.Error("an idle store keeps writing")
	}
}

// TestCompactReadsTheRulesOfTablesThatWereNotLoaded opens a store whose tables could not be read then.
func TestCompactReadsTheRulesOfTablesThatWereNotLoaded(t *testing.T) {
	mem := vfstest.NewMem()
	const n = 5_000
	by := func(rule bloomkv.PrefixRule) *bloomkv.Options {
		return storetest.PlanOptions(mem, 0.01, func(o *bloomkv.Options) { o.FilterPrefix = rule })
	}
	must(t, storetest.PlanStore(t, by(bloomkv.PrefixLen(7)), n).Close())
	o := by(bloomkv.PrefixLen(6))
	db := storetest.OpenCold(t, o)
	defer db.Close()
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	if m := db.Metrics(); m.TablesOffPlan != 0 || m.Writes.RewrittenBytes != m.Levels[lastLevel].Bytes {
		t.Errorf("%d tables are off the plan, %d bytes written, want all %d", m.TablesOffPlan,
			m.Writes.RewrittenBytes, m.Levels[lastLevel].Bytes)
	}
	scanAbsent(t, db, o.FilterPrefix, 1000)
}

// TestCompactMendsADamagedFilter checks that a table with a damaged filter counts as one without a filter.
func TestCompactMendsADamagedFilter(t *testing.T) {
	mem := vfstest.NewMem()
	o := storetest.PlanOptions(mem, 0.01, nil)
	const n = 20_000
	db := storetest.PlanStore(t, o, n)
	victim := db.Tables()[3]
	var offset int64
	for _, table := range storetest.Recorded(t, mem, "db").Version.Tables() {
		if table.Number == numberOf(victim) {
			offset = int64(table.Size - table.TailLen - table.FilterLen/2)
		}
	}
	must(t, db.Close())
	storetest.Rewrite(t, mem, filepath.Join("db", victim.File), func(b []byte) []byte { b[offset] ^= 1; return b })
	db = storetest.Reopened(t, nil, o)
	if m := db.Metrics(); m.Levels[lastLevel].FiltersDamaged != 1 {
		t.Fatalf("%d filters are damaged, want 1", m.Levels[lastLevel].FiltersDamaged)
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	if m := db.Metrics(); m.Levels[lastLevel].FiltersDamaged != 0 || m.Writes.RewrittenBytes == 0 ||
		m.Writes.RewrittenBytes > 2*victim.Bytes {
		t.Errorf("%d filters are damaged, %d bytes written, want about %d", m.Levels[lastLevel].FiltersDamaged,
			m.Writes.RewrittenBytes, victim.Bytes)
	}
}

// TestRewriteIsForWhatNoFilterTells changes compression and block size: Compact rewrites all
// tables with Rewrite alone.
func TestRewriteIsForWhatNoFilterTells(t *testing.T) {
	testkit.Long(t)
	mem := vfstest.NewMem()
	const n = 20_000
	db := storetest.PlanStore(t, storetest.PlanOptions(mem, 0.01, nil), n)
	db = storetest.Reopened(t, db, storetest.PlanOptions(mem, 0.01, func(o *bloomkv.Options) {
		o.Compression, o.BlockSize = bloomkv.CompressionZstdBottom, 4<<10
	}))
	before := db.Metrics()
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	if m := db.Metrics(); m.Writes.CompactedBytes != 0 || m.TablesOffPlan != 0 {
		t.Errorf("Compact writes %d bytes, %d tables are off the plan, want none", m.Writes.CompactedBytes,
			m.TablesOffPlan)
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Rewrite: true}))
	m := db.Metrics()
	if m.Levels[lastLevel].Bytes > before.Levels[lastLevel].Bytes*3/4 ||
		m.Writes.RewrittenBytes != m.Levels[lastLevel].Bytes {
		t.Errorf("%d bytes before, %d after, %d written", before.Levels[lastLevel].Bytes,
			m.Levels[lastLevel].Bytes,
			m.Writes.RewrittenBytes)
	}
	for _, table := range db.Tables() {
		if p, err := readerOf(t, mem, "db", table.File).Properties(); err != nil || p.BlockSize != 4<<10 {
			t.Errorf("%s: blocks of %d bytes, %v", table.File, p.BlockSize, err)
		}
	}
	if err := lookupsAgree(db, map[string]string{
		string(storetest.PlanKey(0)):       string(make([]byte, 30)),
		string(storetest.PlanKey(2*n - 2)): string(make([]byte, 30)),
	}); err != nil {
		t.Error(err)
	}
}
