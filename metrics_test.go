package bloomkv_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
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
writes.slowed_by_level0.count writes.slowed_by_level0.duration_ns writes.stopped_by_level0.count
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

// number sets every number in v to the next result of next.
func number(v reflect.Value, next func() int64) {
	for _, f := range v.Fields() {
		switch f.Kind() {
		case reflect.Struct:
			number(f, next)
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
	number(reflect.ValueOf(&earlier).Elem(), func() int64 { n++; return n })
	number(reflect.ValueOf(&now).Elem(), func() int64 { n++; return 10 * n })
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

// TestWhatIsPromisedPredictedAndMeasuredAgrees compares the three rates, with all filters and with some.
func TestWhatIsPromisedPredictedAndMeasuredAgrees(t *testing.T) {
	const n = 20_000
	o := storetest.Small(vfstest.NewMem())
	o.Durability, o.FilterFPR = bloomkv.DurabilityNoSync, 0.05
	db, err := bloomkv.Open("db", o)
	must(t, err)
	defer db.Close()
	key := func(i int) []byte { return fmt.Appendf(nil, "key%08d", i) }
	for i := range n {
		must(t, db.Put(key(i*7919%n*2), []byte("0123456789abcdef")))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	look := func() bloomkv.Metrics {
		t.Helper()
		before := db.Metrics()
		for i := range 4 * n {
			if ok, err := db.Has(key(i)); err != nil || ok != (i%2 == 0 && i < 2*n) {
				t.Fatalf("key %d: %v, %v", i, ok, err)
			}
		}
		var many [][]byte
		for i := range 4 * n {
			many = append(many, key(i))
		}
		if err := db.GetMany(many, func(i int, _ []byte, found bool) error {
			if found != (i%2 == 0 && i < 2*n) {
				t.Errorf("key %d: %v", i, found)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return db.Metrics().Since(before)
	}
	m := look()
	l := m.Lookups
	if l.Gets != 8*n || l.TableHits != 2*n || l.Absent() != 6*n || l.MemtableHits != 0 {
		t.Errorf("%d lookups, %d of keys in tables, %d of absent keys; want %d, %d, %d", l.Gets, l.TableHits,
			l.Absent(), 8*n, 2*n, 6*n)
	}
	if m.FPRPromised != 0.05 || m.FPRPredicted <= 0 || m.FPRPredicted > m.FPRPromised {
		t.Errorf("predicted %v, want at most the %v promised", m.FPRPredicted, m.FPRPromised)
	}
	// All keys are in one run, and two of every three lookups of absent keys are outside its key range.
	inRange := float64(l.RunsInRange-l.TableHits) / float64(l.Absent())
	if got, want := l.WastedPerAbsent(), m.FPRPredicted*inRange; math.Abs(got/want-1) > 0.2 {
		t.Errorf("measured %v wasted reads per absent key, %v of the lookups in range: want about %v", got, inRange,
			want)
	}
	if l.WastedReads != l.AbsentWasted {
		t.Errorf("%d wasted reads, %d by lookups of absent keys: want the same in one run", l.WastedReads,
			l.AbsentWasted)
	}
	last := m.Levels[bloomkv.Bottom]
	if last.Runs != 1 || math.Abs(last.FPRPredicted-m.FPRPredicted) > 1e-12 || last.FiltersShed != 0 {
		t.Errorf("level %d: %+v, want one run with the whole prediction %v", bloomkv.Bottom, last, m.FPRPredicted)
	}
	if m.Cache.Hits != l.Blocks-l.BlocksRead || m.Cache.Misses != l.BlocksRead || m.Cache.Used == 0 ||
		m.Cache.Used > m.Cache.Capacity || m.Cache.HitRate() <= 0 {
		t.Errorf("cache %+v; %d blocks, %d read", m.Cache, l.Blocks, l.BlocksRead)
	}

	shed := 0
	for i, table := range db.Tree().Load().LevelTables(bloomkv.Bottom) {
		if i%2 == 0 {
			table.Reader.Keys.Reduce(table.Reader.Keys.Forms(1))
			table.Reader.AskInFile(true)
			shed++
		}
	}
	m = look()
	part := float64(shed) / float64(m.Levels[bloomkv.Bottom].Tables)
	if m.Levels[bloomkv.Bottom].FiltersShed != shed || m.FPRPredicted > m.FPRPromised {
		t.Errorf("%d of %d filters are shed, %v predicted, want at most the %v of the filters in the files",
			m.Levels[bloomkv.Bottom].FiltersShed, m.Levels[bloomkv.Bottom].Tables, m.FPRPredicted, m.FPRPromised)
	}
	if got, want := m.Lookups.WastedPerAbsent(), m.FPRPredicted*inRange; math.Abs(got/want-1) > 0.2 {
		t.Errorf("measured %v, want about %v", got, want)
	}
	// Filters that are not in memory are asked in their files.
	if got, want := m.Lookups.ReadsPerAbsent(), part*inRange; m.Lookups.FilterParts == 0 || got < 0.7*want ||
		got > 1.3*want {
		t.Errorf("%v reads for an absent key, want about %v; %d pages of filters", got, want, m.Lookups.FilterParts)
	}
}

func TestMetricsTellWhatTheTreeHoldsAndWhoHoldsOnToIt(t *testing.T) {
	o := storetest.Small(vfstest.NewMem())
	o.Durability = bloomkv.DurabilityNoSync
	db, err := bloomkv.Open("db", o)
	must(t, err)
	value := make([]byte, 200)
	for i := range 3000 {
		must(t, db.Put(fmt.Appendf(nil, "key%05d", i*7919%3000), value))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	atRest(t, db)
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
	pair := func(yield func(bloomkv.KV, error) bool) { yield(bloomkv.KV{[]byte("key01500"), value}, nil) }
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
	if err := it.Close(); err != nil {
		t.Error(err)
	}
	if err := snapshot.Close(); err != nil {
		t.Error(err)
	}
	atRest(t, db)
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
	o.Durability, o.Compression = bloomkv.DurabilityNoSync, bloomkv.CompressionNone
	db, err := bloomkv.Open("db", o)
	must(t, err)
	value := make([]byte, 1000)
	for i := range 250 { // more than seven memtables, with the same keys each time
		must(t, db.Put(fmt.Appendf(nil, "key%03d", i%50), value))
	}
	storetest.Soon(t, "memtables are written out",
		func() bool { return db.Metrics().Levels[0].Runs >= bloomkv.TriggerRuns+1 })
	storetest.Soon(t, "a compaction begins", func() bool { return len(db.Metrics().Work.Compactions) > 0 })
	m := db.Metrics()
	if w := m.Work.Compactions; len(w) != 1 || w[0].From != 0 || w[0].To != m.Backlog.Base || w[0].Tables == 0 ||
		w[0].Bytes == 0 || w[0].Versions == 0 || w[0].VersionsRead > w[0].Versions || w[0].Duration <= 0 ||
		!strings.Contains(m.String(), "compaction: from 0, to ") {
		t.Errorf("work in progress %+v; want one compaction of level 0", m.Work)
	}
	if m.Settled || m.Backlog.Runs != m.Levels[0].Runs-bloomkv.TriggerRuns+1 || m.Backlog.Bytes < m.Levels[0].Bytes ||
		m.Backlog.Bytes == 0 {
		t.Errorf("settled %v, backlog %+v, level 0 %+v; want all of it as backlog", m.Settled, m.Backlog, m.Levels[0])
	}
	if page := m.String(); !strings.Contains(page, fmt.Sprintf(", runs %d, bytes ", m.Backlog.Runs)) {
		t.Errorf("the page does not show the backlog:\n%s", page)
	}
	reader, err := bloomkv.Open("db", &bloomkv.Options{FS: mem.Kill(), ReadOnly: true})
	must(t, err)
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
	db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewMem()))
	must(t, err)
	for i := range uint64(100) {
		must(t, errors.Join(db.Put([]byte("key"), []byte("value")), db.Flush(t.Context())))
		if w := db.Metrics().Writes; w.Flushes != i+1 || w.FlushBytes == 0 {
			t.Fatalf("%d flushes of %d bytes, want %d", w.Flushes, w.FlushBytes, i+1)
		}
	}
	must(t, db.Close())
}
