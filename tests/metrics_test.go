package tests

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// metricNames are the names that programs read. Names may be added, but never removed.
const metricNames = `
backlog.base backlog.bytes backlog.runs
budget_needed
bytes_off_plan
cache.blocks cache.capacity cache.evictions cache.hits cache.inserts cache.misses cache.used
files.max_open files.obsolete files.open files.tables
fpr_asked fpr_measured fpr_predicted fpr_promised
levels.bytes levels.deletes levels.entries levels.false_positives levels.filter_bytes levels.filter_bytes_in_memory
levels.filter_negatives levels.filters_damaged levels.filters_shed levels.fpr_measured levels.fpr_predicted
levels.fpr_promised levels.ingested levels.level
levels.range_deletes levels.runs levels.tables levels.tables_off_plan levels.target levels.true_positives
levels.unfiltered
lookups.absent_reads lookups.absent_wasted lookups.blocks lookups.blocks_mapped lookups.blocks_read lookups.bytes_read
lookups.false_positives
lookups.filter_negatives
lookups.filter_parts
lookups.filter_probes lookups.gets lookups.index_parts lookups.memtable_hits lookups.runs_in_range
lookups.table_hits lookups.table_searches
lookups.tail_bytes lookups.tail_loads lookups.true_positives lookups.wasted_reads
memory.budget memory.cache memory.filters memory.indexes memory.mapped memory.max_mapped memory.memtables
memory.prefix_filters memory.range_deletes memory.tables
prefixes.negatives prefixes.probes prefixes.unasked
readers.iterators readers.oldest_snapshot_ns readers.snapshots
reads_promised
resources.cache_spare resources.max_open_files resources.memory.budget resources.memory.cache resources.memory.filters
resources.memory.indexes resources.memory.mapped resources.memory.max_mapped resources.memory.memtables
resources.memory.prefix_filters resources.memory.range_deletes resources.memory.tables
resources.memtables_reserved
resources.open_files resources.over_budget resources.stores
settled tables_off_plan uptime_ns warm
work.compactions.bytes work.compactions.duration_ns work.compactions.from work.compactions.tables work.compactions.to
work.compactions.versions work.compactions.versions_read work.memtables work.versions work.versions_flushed
writes.compacted_bytes writes.compacted_bytes_read writes.compactions writes.conflicts
writes.flush_bytes writes.flushes writes.groups
writes.ingest_bytes writes.ingests writes.log_bytes writes.log_syncs writes.moves writes.operations
writes.rewritten_bytes
writes.slowed_by_level0.count writes.slowed_by_level0.duration_ns writes.slowed_by_memtable.count
writes.slowed_by_memtable.duration_ns writes.stopped_by_level0.count
writes.stopped_by_level0.duration_ns writes.stopped_by_memtable.count writes.stopped_by_memtable.duration_ns
writes.updates
`

// TestNamesOfMetricsInJSONAreTheirNamesInGo walks the figures by reflection. The name in JSON is that in Go with
// underscores between its words; a time ends in _ns.
func TestNamesOfMetricsInJSONAreTheirNamesInGo(t *testing.T) {
	var walk func(of reflect.Type)
	walk = func(of reflect.Type) {
		for f := range of.Fields() {
			elem := f.Type
			if elem.Kind() == reflect.Slice {
				elem = elem.Elem()
			}
			if elem.Kind() == reflect.Struct {
				walk(elem)
			}
			if f.Anonymous {
				continue
			}
			want := snakeCase(f.Name)
			if f.Type == reflect.TypeFor[time.Duration]() {
				want += "_ns"
			}
			if got := f.Tag.Get("json"); got != want {
				t.Errorf("%v.%s is %q in JSON, want %q", of, f.Name, got, want)
			}
		}
	}
	walk(reflect.TypeFor[bloomkv.Metrics]())
	walk(reflect.TypeFor[bloomkv.TableMetrics]())
}

// snakeCase puts an underscore before each word of a Go name; several capitals, as in FPR, are one word.
func snakeCase(name string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`).
		ReplaceAllString(name, "${1}${3}_${2}${4}"))
}

func TestMetricsKeepTheirNamesInJSON(t *testing.T) {
	b, err := json.Marshal(bloomkv.Metrics{
		Levels: make([]bloomkv.LevelMetrics, 1),
		Work:   bloomkv.WorkMetrics{Compactions: make([]bloomkv.CompactionMetrics, 1)},
	})
	must(t, err)
	var tree map[string]any
	must(t, json.Unmarshal(b, &tree))
	var got []string
	var walk func(prefix string, v any)
	walk = func(prefix string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				walk(prefix+"."+name, member)
			}
		case []any:
			walk(prefix, v[0])
		default:
			got = append(got, strings.TrimPrefix(prefix, "."))
		}
	}
	walk("", tree)
	slices.Sort(got)
	if want := strings.Fields(metricNames); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// numberAll sets every number in v to the next result of next.
func numberAll(v reflect.Value, next func() int64) {
	for _, f := range v.Fields() {
		switch f.Kind() {
		case reflect.Struct:
			numberAll(f, next)
		case reflect.Int, reflect.Int64:
			f.SetInt(next())
		case reflect.Uint64:
			f.SetUint(uint64(next()))
		default:
		}
	}
}

func TestSinceTakesTheDifferenceOfCountersOnly(t *testing.T) {
	var earlier, now bloomkv.Metrics
	n := int64(0)
	numberAll(reflect.ValueOf(&earlier).Elem(), func() int64 { n++; return n })
	numberAll(reflect.ValueOf(&now).Elem(), func() int64 { n++; return 10 * n })
	before, after := earlier, now
	d := now.Since(earlier)
	if !reflect.DeepEqual(earlier, before) || !reflect.DeepEqual(now, after) {
		t.Error("Since changed its operands")
	}
	want := now
	want.Uptime = now.Uptime - earlier.Uptime
	var fields func(d, want, now, earlier reflect.Value, path string)
	fields = func(d, want, now, earlier reflect.Value, path string) {
		for i := range d.NumField() {
			name := path + "." + d.Type().Field(i).Name
			f := d.Field(i)
			counter := strings.HasPrefix(name, ".Lookups.") || strings.HasPrefix(name, ".Prefixes.") ||
				strings.HasPrefix(name, ".Writes.") || f.Kind() == reflect.Uint64 && strings.HasPrefix(name, ".Cache.")
			switch {
			case f.Kind() == reflect.Struct:
				fields(f, want.Field(i), now.Field(i), earlier.Field(i), name)
			case counter && f.Kind() == reflect.Uint64:
				if f.Uint() != now.Field(i).Uint()-earlier.Field(i).Uint() {
					t.Errorf("%s: %d, want the difference of %d and %d", name, f.Uint(), now.Field(i).Uint(),
						earlier.Field(i).Uint())
				}
			case counter:
				if f.Int() != now.Field(i).Int()-earlier.Field(i).Int() {
					t.Errorf("%s: %d, want the difference of %d and %d", name, f.Int(), now.Field(i).Int(),
						earlier.Field(i).Int())
				}
			case !reflect.DeepEqual(f.Interface(), want.Field(i).Interface()):
				t.Errorf("%s: %v, want %v", name, f, want.Field(i))
			}
		}
	}
	fields(reflect.ValueOf(d), reflect.ValueOf(want), reflect.ValueOf(now), reflect.ValueOf(earlier), "")
}

func TestMetricsTellWhatTheTreeHoldsAndWhoHoldsOnToIt(t *testing.T) {
	o := storetest.Small(vfstest.NewMem())
	o.Durability = bloomkv.DurabilityNoSync
	db := storetest.Open(t, "db", o)
	value := make([]byte, 200)
	for i := range 3000 {
		must(t, db.Put(fmt.Appendf(nil, "key%05d", i*7919%3000), value))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	storetest.AtRest(t, db, o.FS, "db")
	m := db.Metrics()
	if !m.Settled || m.Backlog.Bytes != 0 || m.Backlog.Runs != 0 || m.Backlog.Base < 1 || m.Files.Obsolete != 0 ||
		m.Files.Open == 0 || m.Files.MaxOpen != 500 {
		t.Errorf("of an idle tree: settled %v, backlog %+v, files %+v", m.Settled, m.Backlog, m.Files)
	}
	if m.Readers != (bloomkv.ReaderMetrics{}) || m.Resources.Stores != 1 || m.Resources.OverBudget != 0 ||
		m.Uptime <= 0 {
		t.Errorf("readers %+v, resources %+v, up %v", m.Readers, m.Resources, m.Uptime)
	}
	if y := m.Memory; y.Sum() != y.Memtables+y.Filters+y.Indexes+y.Tables+y.Cache || y != m.Resources.Memory {
		t.Errorf("memory of the store %+v, of its private resources %+v", y, m.Resources.Memory)
	}

	snapshot, err := db.Snapshot()
	must(t, err)
	it := db.Iter(bloomkv.IterOptions{})
	if !it.First() {
		t.Fatal(it.Err())
	}
	must(t, db.DeleteRange(bloomkv.KeyRange{Lower: []byte("key01000"), Upper: []byte("key02000")}))
	must(t, db.Flush(t.Context()))
	pair := storetest.PairsOf(map[string]string{"key01500": string(value)})
	must(t, db.Ingest(t.Context(), pair, bloomkv.IngestOptions{}))
	ingested := 0
	for _, l := range db.Metrics().Levels {
		ingested += l.Ingested
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	storetest.Settle(t, db)
	m = db.Metrics()
	rangeDeletes := uint64(0)
	for _, l := range m.Levels {
		rangeDeletes += l.RangeDeletes
	}
	if m.Readers.Iterators != 1 || m.Readers.Snapshots != 1 || m.Readers.OldestSnapshot <= 0 ||
		m.Readers.OldestSnapshot > m.Uptime {
		t.Errorf("readers %+v, want an iterator and a snapshot", m.Readers)
	}
	if ingested != 1 || m.Files.Obsolete == 0 || rangeDeletes == 0 || m.Memory.RangeDeletes == 0 ||
		m.Writes.Ingests != 1 || m.Writes.IngestBytes == 0 {
		t.Errorf("%d ingested tables, %+v, %d range deletes of %d bytes, %d ingests; "+
			"want 1, tables kept by the iterator, and some",
			ingested, m.Files, rangeDeletes, m.Memory.RangeDeletes, m.Writes.Ingests)
	}
	page := m.String()
	for _, want := range []string{
		"readers: iterators 1, snapshots 1, oldest snapshot ", fmt.Sprintf("obsolete %d", m.Files.Obsolete),
		"write amplification ", "fpr promised 0.01",
	} {
		if !strings.Contains(strings.Join(strings.Fields(page), " "), want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
	must(t, it.Close())
	must(t, snapshot.Close())
	storetest.AtRest(t, db, o.FS, "db")
	if m = db.Metrics(); m.Readers != (bloomkv.ReaderMetrics{}) || m.Files.Obsolete != 0 {
		t.Errorf("readers %+v, files %+v; want none left", m.Readers, m.Files)
	}

	// A batch larger than the budget gets a memtable of its own.
	var b bloomkv.Batch
	b.Put([]byte("large"), make([]byte, 9<<20))
	must(t, db.ApplyWith(&b, bloomkv.DurabilityNoSync))
	if m = db.Metrics(); m.Resources.OverBudget < 1<<20 || !strings.Contains(m.String(), "over budget ") {
		t.Errorf("%d bytes over budget, want at least a mebibyte:\n%v", m.Resources.OverBudget, m)
	}
	must(t, db.Close())
	after := db.Metrics()
	if after.Levels != nil || after.Resources.Stores != 0 || after.Memory.Sum() != 0 ||
		after.Writes.Operations != m.Writes.Operations || after.Writes.Flushes <= m.Writes.Flushes {
		t.Errorf("after Close:\n%v", after)
	}
}

func TestTheBacklogIsWhatIsAboveTheTargets(t *testing.T) {
	mem := vfstest.NewMem()
	fsys, open := storetest.Gated(mem, func(op vfstest.Op) bool {
		return storetest.CreatesTable(op) && storetest.Inside(storetest.CompactLoop)
	})
	o := storetest.Small(fsys)
	o.Durability, o.Compression, o.Compactions = bloomkv.DurabilityNoSync, bloomkv.CompressionNone, 1
	db := storetest.Open(t, "db", o)
	value := make([]byte, 1000)
	for i := range 400 { // more than ten memtables, with the same keys each time
		must(t, db.Put(fmt.Appendf(nil, "key%03d", i%50), value))
	}
	testkit.Soon(t, "memtables are written out",
		func() bool { return db.Metrics().Levels[0].Runs >= triggerRuns+1 })
	testkit.Soon(t, "a compaction begins", func() bool { return len(db.Metrics().Work.Compactions) > 0 })
	m := db.Metrics()
	if w := m.Work.Compactions; len(w) != 1 || w[0].From != 0 || w[0].To != m.Backlog.Base || w[0].Tables == 0 ||
		w[0].Bytes == 0 || w[0].Versions == 0 || w[0].VersionsRead > w[0].Versions || w[0].Duration <= 0 ||
		!strings.Contains(m.String(), "compaction: from 0, to ") {
		t.Errorf("work in progress %+v; want one compaction of level 0", m.Work)
	}
	if m.Settled || m.Backlog.Runs != m.Levels[0].Runs-triggerRuns+1 || m.Backlog.Bytes < m.Levels[0].Bytes ||
		m.Backlog.Bytes == 0 {
		t.Errorf("settled %v, backlog %+v, level 0 %+v; want all of it as backlog", m.Settled, m.Backlog, m.Levels[0])
	}
	if page := m.String(); !strings.Contains(page, fmt.Sprintf(", runs %d, bytes ", m.Backlog.Runs)) {
		t.Errorf("the page does not show the backlog:\n%s", page)
	}
	reader := storetest.Open(t, "db", &bloomkv.Options{FS: mem.Kill(), ReadOnly: true})
	if page := reader.Metrics().String(); !strings.Contains(page, ", bytes ") || !strings.Contains(page, "backlog: ") {
		t.Errorf("the page of a read-only store does not show the backlog:\n%s", page)
	}
	must(t, reader.Close())
	open()
	storetest.Settle(t, db)
	if m = db.Metrics(); len(m.Work.Compactions) > 0 || m.Work.Memtables > 0 || m.Work.Versions > 0 {
		t.Errorf("work in progress %+v of a settled tree", m.Work)
	}
	if m = db.Metrics(); m.Backlog.Bytes != 0 || m.Backlog.Runs != 0 ||
		!strings.Contains(m.String(), "settled") {
		t.Errorf("backlog %+v after compaction", m.Backlog)
	}
	if m.Uptime <= 0 || m.Uptime > time.Hour {
		t.Errorf("up for %v", m.Uptime)
	}
	must(t, db.Close())
}

// TestAFlushIsCountedWhenItReturns checks that Metrics includes a flush as soon as Flush returns.
func TestAFlushIsCountedWhenItReturns(t *testing.T) {
	db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewMem()))
	for i := range uint64(100) {
		must(t, errors.Join(db.Put([]byte("key"), []byte("value")), db.Flush(t.Context())))
		if w := db.Metrics().Writes; w.Flushes != i+1 || w.FlushBytes == 0 {
			t.Fatalf("%d flushes of %d bytes, want %d", w.Flushes, w.FlushBytes, i+1)
		}
	}
	must(t, db.Close())
}

// TestTheTextOfMetricsFitsAndLeavesOutZeros prints the figures of a new store, of one in use, and large ones.
func TestTheTextOfMetricsFitsAndLeavesOutZeros(t *testing.T) {
	o := storetest.Small(vfstest.NewMem())
	db := storetest.Open(t, "db", o)
	fresh := db.Metrics()
	for i := range 2000 {
		must(t, storetest.PutWith(db, bloomkv.DurabilityNoSync, fmt.Appendf(nil, "key%05d", i), make([]byte, 100)))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	for i := range 100 {
		if _, err := db.Get(fmt.Appendf(nil, "key%05d/", i)); !errors.Is(err, bloomkv.ErrNotFound) {
			t.Fatal(err)
		}
	}
	storetest.Settle(t, db)
	used := db.Metrics()
	must(t, db.Close())
	large := used
	large.Levels = append([]bloomkv.LevelMetrics(nil), used.Levels...)
	for l := range large.Levels {
		fill(reflect.ValueOf(&large.Levels[l]).Elem())
		large.Levels[l].Level, large.Levels[l].Runs, large.Levels[l].Tables = l, 12, 1_000_000
		large.Levels[l].Entries = 9_999_999_999
	}
	fill(reflect.ValueOf(&large).Elem())
	zero := regexp.MustCompile(` 0( bytes)?(,|$)`)
	for name, m := range map[string]bloomkv.Metrics{
		"new": fresh, "in use": used, "large": large, "closed": db.Metrics(), "zero": {},
	} {
		page := m.String()
		for line := range strings.Lines(page) {
			line = strings.TrimSuffix(line, "\n")
			if utf8.RuneCountInString(line) > 80 {
				t.Errorf("%s: a line of %d characters: %q", name, utf8.RuneCountInString(line), line)
			}
			if zero.MatchString(line) {
				t.Errorf("%s: zeros in %q", name, line)
			}
		}
		t.Logf("%s:\n%s", name, page)
	}
	text := strings.Join(strings.Fields(large.String()), " ")
	for name := range strings.FieldsSeq(metricNames) {
		names := strings.Split(name, ".")
		if names[0] == "levels" || names[0] == "work" && len(names) > 2 {
			continue // in columns, or in lines of their own
		}
		name = strings.ReplaceAll(strings.TrimSuffix(names[min(1, len(names)-1)], "_ns"), "_", " ")
		if !strings.Contains(text, " "+name) {
			t.Errorf("no %q in\n%s", name, large)
		}
	}
	page := used.String()
	_, levels, _ := strings.Cut(page, "level  runs ")
	levels, _, _ = strings.Cut(levels, "lookups:")
	if n := strings.Count(levels, "\n"); n != 2 {
		t.Errorf("%d lines of levels, want a head and one level with tables:\n%s", n, page)
	}
	for _, want := range []string{"absent 100", "filter negatives ", "settled"} {
		if !strings.Contains(strings.Join(strings.Fields(page), " "), want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if fresh := fresh.String(); strings.Contains(fresh, "lookups:") || strings.Contains(fresh, "level ") {
		t.Errorf("a new store has no lookups and no levels:\n%s", fresh)
	}
}

// TestTheBudgetNeededGrowsItsMemtablesUnlessTheyAreSet has few keys: with memtables of a quarter of the budget, a small
// one is enough.
func TestTheBudgetNeededGrowsItsMemtablesUnlessTheyAreSet(t *testing.T) {
	var needed []int64
	for _, memtable := range []int64{0, 16 << 20} { // the same for this budget
		o := &bloomkv.Options{FS: vfstest.NewMem(), MemoryBudget: 64 << 20, MemtableSize: memtable}
		db := storetest.Open(t, "db", o)
		must(t, db.Put([]byte("key"), nil))
		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		storetest.Settle(t, db)
		needed = append(needed, db.Metrics().BudgetNeeded)
		must(t, db.Close())
	}
	if needed[0] >= needed[1] {
		t.Errorf("%d bytes are needed, and %d with memtables of 16 MiB", needed[0], needed[1])
	}
}

// TestTheReadsPromisedCountPartsOfIndexes has a table whose index is in memory, so that a search reads a block alone.
func TestTheReadsPromisedCountPartsOfIndexes(t *testing.T) {
	db := storetest.Open(t, "db", &bloomkv.Options{FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync})
	defer db.Close()
	if m := db.Metrics(); m.ReadsPromised != m.FPRPromised && m.ReadsPromised != 0 {
		t.Errorf("a store without tables promises %v reads", m.ReadsPromised)
	}
	for i := range 4000 {
		must(t, db.Put(fmt.Append(nil, i), make([]byte, 100)))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	storetest.Settle(t, db)
	if m := db.Metrics(); m.ReadsPromised < 1.05*m.FPRPredicted || m.ReadsPromised > 1.5*m.FPRPredicted {
		t.Errorf("%v reads are promised, want a little more than %v", m.ReadsPromised, m.FPRPredicted)
	}
}

func TestRatesOfMetricsAreShares(t *testing.T) {
	lookups := bloomkv.LookupMetrics{
		Gets: 10, MemtableHits: 2, TableHits: 4, AbsentWasted: 1, AbsentReads: 2, FalsePositives: 1, FilterNegatives: 3,
		TruePositives: 5,
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"hits", bloomkv.CacheMetrics{Hits: 3, Misses: 1}.HitRate(), 0.75},
		{"hits of an unused cache", bloomkv.CacheMetrics{}.HitRate(), 0},
		{"the filter of a table", bloomkv.FilterAnswers{
			FalsePositives: 1, FilterNegatives: 3, TruePositives: 5,
		}.FPR(), 0.25},
		{"filters", lookups.FPR(), 0.25},
		{"absent", float64(lookups.Absent()), 4},
		{"absent, with counts of two moments", float64(bloomkv.LookupMetrics{Gets: 1, TableHits: 2}.Absent()), 0},
		{"wasted", lookups.WastedPerAbsent(), 0.25},
		{"reads", lookups.ReadsPerAbsent(), 0.5},
		{"writes", bloomkv.WriteMetrics{
			LogBytes: 10, IngestBytes: 10, FlushBytes: 20, CompactedBytes: 40,
		}.WriteAmplification(), 4},
		{"memory", float64(bloomkv.MemoryMetrics{
			Memtables: 1, Filters: 2, Indexes: 4, RangeDeletes: 8, Tables: 16, Cache: 32, PrefixFilters: 64,
		}.Sum()), 63},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestTheTextOfMetricsSaysWhenMemoryIsShort(t *testing.T) {
	for _, c := range []struct {
		needed          int64
		promised, reads float64
		stores          int
		short, shared   bool
	}{
		{2 << 20, 0.01, 0.02, 1, false, false},
		{1 << 20, 0.02, 0.03, 0, false, false},
		{2 << 20, 0.02, 0.02, 2, true, true},
		{2 << 20, 0.01, 0.03, 3, true, true},
	} {
		var m bloomkv.Metrics
		m.FPRAsked, m.FPRPromised, m.ReadsPromised, m.BudgetNeeded = 0.01, c.promised, c.reads, c.needed
		m.Memory.Budget, m.Resources.Stores, m.Resources.Memory.Budget = 1<<20, c.stores, 3<<20
		text := m.String()
		if strings.Contains(text, "need a MemoryBudget\n  of 2 MiB\n") != c.short ||
			strings.Contains(text, "memory of all stores: budget 3.15 MB\n") != c.shared {
			t.Errorf("%+v:\n%s", c, text)
		}
	}
}

func TestTheTextOfMetricsHasItsLines(t *testing.T) {
	m := bloomkv.Metrics{
		FPRAsked: 0.01, FPRPromised: 0.0123456, Warm: true, Uptime: 2 * time.Second,
		Levels: []bloomkv.LevelMetrics{
			{Level: 0, Runs: 2, Tables: 3, Bytes: 4000, Entries: 5000, FilterBytesInMemory: 600, FiltersShed: 1},
			{Level: 1, FiltersShed: 2, FiltersDamaged: 4},
			{
				Level: 6, Runs: 1, Tables: 1, Bytes: 1, Entries: 1, FPRPromised: 0.01, FPRPredicted: 0.012,
				FPRMeasured: 0.5, FilterAnswers: bloomkv.FilterAnswers{FilterNegatives: 1}, FiltersDamaged: 1,
			},
		},
		Lookups: bloomkv.LookupMetrics{Gets: 10, MemtableHits: 2, BytesRead: 1500, AbsentReads: 4},
		Writes: bloomkv.WriteMetrics{
			Operations: 3, LogBytes: 2000, FlushBytes: 4000, CompactedBytes: 6000,
			SlowedByLevel0: bloomkv.StallMetrics{Count: 2, Duration: 1500 * time.Microsecond},
		},
		Work: bloomkv.WorkMetrics{Compactions: []bloomkv.CompactionMetrics{
			{To: 6, Tables: 2, Duration: time.Second}, {From: 5, To: 6},
		}},
	}
	const want = `store: fpr asked 0.01, fpr promised 0.01235, warm, uptime 2s, filters shed 3,
  filters damaged 5
level  runs  tables   bytes  entries    filters  promised  predicted  measured
    0     2       3    4 kB    5,000  600 bytes         0          0         -
    6     1       1  1 byte        1    0 bytes      0.01      0.012       0.5
lookups: gets 10, memtable hits 2, bytes read 1.5 kB, absent reads 4, absent 8,
  reads per absent 0.5
writes: operations 3, log bytes 2 kB, flush bytes 4 kB, compacted bytes 6 kB,
  slowed by level0 2 times for 2ms, write amplification 6
compaction: from 0, to 6, tables 2, duration 1s
compaction: from 5, to 6
per second: gets 5, operations 1, log bytes 1 kB, flush bytes 2 kB,
  compacted bytes 3 kB
`
	if got := m.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := (bloomkv.Metrics{}).String(); got != "" {
		t.Errorf("nothing is %q", got)
	}
}

// fill sets the figures of a struct, and of structs inside it, to large numbers.
func fill(v reflect.Value) {
	for _, f := range v.Fields() {
		switch f.Kind() {
		case reflect.Struct:
			fill(f)
		case reflect.Uint64:
			f.SetUint(123_456_789_012)
		case reflect.Int64:
			f.SetInt(int64(123456789012 * time.Nanosecond))
		case reflect.Int:
			f.SetInt(1_234_567)
		case reflect.Float64:
			f.SetFloat(0.000012345)
		default:
		}
	}
}
