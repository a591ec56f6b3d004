package salvage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestAnInvalidOptionIsRefusedBeforeAFileIsTouched(t *testing.T) {
	fsys := vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		t.Errorf("%v", op)
		return nil
	})
	for want, o := range map[string]bloomkv.Options{
		"BlockSize: 17":       {BlockSize: 17},
		"TableSize: -1":       {TableSize: -1},
		"Compression: 7":      {Compression: 7},
		"LevelRatio: 1":       {LevelRatio: 1},
		"FilterKind: kind 9":  {FilterKind: 9},
		"FilterFPR: 2":        {FilterFPR: 2},
		"FilterMemory: 1":     {FilterMemory: 1},
		"FilterPrefix: ":      {FilterPrefix: bloomkv.PrefixLen(0)},
		"MemoryBudget: 65536": {MemoryBudget: 64 << 10},
	} {
		o.FS = fsys
		_, err := Run(t.Context(), "db", "new", Options{Store: &o})
		if err == nil || !strings.Contains(err.Error(), "option "+want) {
			t.Errorf("error is %v, want it to name option %s", err, want)
		}
	}
}

// TestAReportIsThatOfTheNewStore salvages an intact store with several tables and a log, twice.
func TestAReportIsThatOfTheNewStore(t *testing.T) {
	mem := vfstest.NewMem()
	o := storetest.Tiny(mem)
	db := storetest.Open(t, "db", o)
	for i := range 2000 {
		testkit.Must(t, db.Put(fmt.Appendf(nil, "key%04d", i%1500), make([]byte, 100)))
	}
	testkit.Must(t, db.Sync())
	storetest.AtRest(t, db, mem, "db")
	read, logs := uint64(0), uint64(0)
	names, err := mem.List("db")
	testkit.Must(t, err)
	for _, name := range names {
		if kind, _ := filename.Parse(name); kind == filename.Table || kind == filename.Log {
			info, err := mem.Stat("db/" + name)
			testkit.Must(t, err)
			read += uint64(info.Size())
			if kind == filename.Log {
				logs += uint64(info.Size())
			}
		}
	}
	crashed := mem.Crash(vfstest.KeepAll)
	o.FS, o.FilterSeed = crashed, 0
	seeds := map[uint64]bool{}
	for _, to := range []string{"new", "again"} {
		done, total, afterLogs, step, atEnd := uint64(0), uint64(0), false, uint64(0), 0
		r, err := Run(t.Context(), "db", to, Options{Store: o, Progress: func(now, all uint64) {
			if now < done || now > all {
				t.Errorf("%d of %d bytes are read, after %d", now, all, done)
			}
			if afterLogs {
				step = max(step, now-done)
			}
			if now == all {
				atEnd++
			}
			done, total, afterLogs = now, all, afterLogs || now == logs
		}})
		testkit.Must(t, err)
		s, err := manifest.Load(crashed, to)
		testkit.Must(t, err)
		seeds[s.Seed] = true
		keys, bytes := uint64(0), uint64(0)
		for _, table := range s.Version.Tables() {
			keys += table.Entries
			bytes += table.Size
		}
		if r.Keys != 1500 || keys != r.Keys || r.Bytes != bytes || done != total || total != read || len(r.Lost) > 0 {
			t.Errorf("%+v of %d keys in %d bytes, %d of %d read, want %d", r, keys, bytes, done, total, read)
		}
		if logs == 0 || !afterLogs || step > 2<<10 || atEnd > 2 {
			t.Errorf("progress of the %d bytes of the logs, which are read first: %v; then of %d bytes at once, and "+
				"%d times at the end", logs, afterLogs, step, atEnd)
		}
	}
	if len(seeds) != 2 || seeds[0] {
		t.Errorf("the seeds of two stores are %v, want two random ones", seeds)
	}
}

func TestAReportNamesTwentyFiles(t *testing.T) {
	names := strings.Fields(strings.Repeat("x ", 22))
	for n, want := range map[int]string{1: "x", 20: "x, x", 21: "x and 1 more", 22: "x and 2 more"} {
		got := list(names[:n])
		if !strings.HasSuffix(got, want) || strings.Count(got, "x") != min(n, 20) {
			t.Errorf("%d names: %q, want %q at the end", n, got, want)
		}
	}
}

// TestALossOfAPartOfTheTailIsOfAllKeys damages the index.
func TestALossOfAPartOfTheTailIsOfAllKeys(t *testing.T) {
	mem := vfstest.NewMem()
	o := storetest.Tiny(mem)
	db := storetest.Open(t, "db", o)
	for i := range 100 {
		testkit.Must(t, db.Put(fmt.Appendf(nil, "key%02d", i), nil))
	}
	testkit.Must(t, db.Close())
	for _, table := range storetest.Recorded(t, mem, "db").Version.Tables() {
		storetest.Rewrite(t, mem, filename.Make("db", filename.Table, table.Number), func(b []byte) []byte {
			b[table.Size-table.TailLen]++
			return b
		})
	}
	r, err := Run(t.Context(), "db", "new", Options{Store: o})
	if err != nil || len(r.Lost) != 1 || string(r.Lost[0].Lower) != "key00" || string(r.Lost[0].Upper) != "key99" ||
		!r.Whole() {
		t.Errorf("lost %+v, %v; want one part, of all keys", r.Lost, err)
	}
}

// TestAWriteThatFailsLeavesNoFile fails each operation of a salvage that keeps each version of a log in a file.
func TestAWriteThatFailsLeavesNoFile(t *testing.T) {
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", storetest.Tiny(mem))
	for i := range 5 {
		testkit.Must(t, db.Put(fmt.Appendf(nil, "key%d", i), nil))
	}
	killed := mem.Kill()
	testkit.Must(t, db.Close())
	fails := errors.New("it fails")
	nth := 0
	for struck := true; struck; {
		nth++
		ops := 0
		env, to := newEnv(t)
		open := storetest.TrackOpen(vfstest.NewHook(to, func(op vfstest.Op) error {
			if op.Kind != vfstest.OpRemove {
				ops++
			}
			if struck = ops >= nth; ops == nth && op.Kind != vfstest.OpRemove {
				return fails
			}
			return nil
		}))
		env.FS = open
		s := &salvage{fs: killed, dir: "db"}
		testkit.Must(t, s.survey(t.Context()))
		tables, err := s.write(t.Context(), env, 1)
		names, _ := to.List("new")
		if struck && (!errors.Is(err, fails) || len(names) > 0) ||
			!struck && (err != nil || len(names) != len(tables)) {
			t.Errorf("operation %d fails: %v, left %q", nth, err, names)
		}
		testkit.Must(t, open.Left())
	}
	if nth < 30 {
		t.Errorf("%d operations are too few", nth)
	}
}

// TestAReportSaysOnlyWhatCannotBeKnown has one doubt at a time.
func TestAReportSaysOnlyWhatCannotBeKnown(t *testing.T) {
	harmless, harmful := Loss{Harmless: true}, Loss{}
	for want, change := range map[string]func(s *salvage){
		"":                                      func(s *salvage) { s.report.Lost = []Loss{harmless} },
		"The lost data may have included newer": func(s *salvage) { s.report.Lost = []Loss{harmless, harmful} },
		"The end of the last log, or the whole": func(s *salvage) { s.found = recovery.Listing{filename.Log: {7}} },
		"Log records after lost ones were read": func(s *salvage) { s.behindGap = true },
		"No manifest could be read":             func(s *salvage) { s.traces.number, s.traces.whole = 0, false },
		"Parts of the manifest could not be":    func(s *salvage) { s.traces.whole = false },
		"These tables were read although":       func(s *salvage) { s.unnamed = []string{"x"} },
		"Only a manifest has the sequence":      func(s *salvage) { s.unplaced = []string{"x"} },
		"By the manifest, these tables were":    func(s *salvage) { s.leftOver = []string{"x"} },
	} {
		s := &salvage{traces: traces{number: 1, whole: true}}
		change(s)
		got := s.doubts()
		if len(got) != min(1, len(want)) || want != "" && !strings.HasPrefix(got[0], want) {
			t.Errorf("%q, want one sentence that begins with %q", got, want)
		}
	}
}

// TestAMarkHoldsOnlyIfAllBeforeItIsThere has one reason against the mark at a time, and losses that are none.
func TestAMarkHoldsOnlyIfAllBeforeItIsThere(t *testing.T) {
	for i, c := range []struct {
		want   bool
		change func(s *salvage)
	}{
		{true, func(*salvage) {}},
		{true, func(s *salvage) { s.report.Lost[1].Harmless = false }}, // behind the mark, in a log
		{false, func(s *salvage) { s.report.Lost[0].Harmless = false }},
		{false, func(s *salvage) { s.report.Lost[2].Harmless = false }},
		{false, func(s *salvage) { s.last-- }},
		{false, func(s *salvage) { s.traces.number = 0 }},
		{false, func(s *salvage) { s.traces.whole = false }},
	} {
		s := &salvage{
			traces: traces{number: 1, whole: true}, last: 5, mark: batch.Mark{Seq: 5, Bytes: []byte("m")},
			behindMark: 1, behindLogs: 2,
		}
		s.report.Lost = []Loss{{Harmless: true}, {Harmless: true}, {Harmless: true}}
		c.change(s)
		told := strings.Contains(strings.Join(s.doubts(), ""), "The new store has no mark")
		if s.markHolds() != c.want || told == c.want {
			t.Errorf("case %d: %v, told %v, want %v", i, s.markHolds(), told, c.want)
		}
	}
}

func TestAMissingFileIsNamedByAWholeManifestOrByAPart(t *testing.T) {
	for whole, want := range map[bool]string{true: "missing, the manifest", false: "missing, a part of the manifest"} {
		s := &salvage{traces: traces{whole: whole}}
		if err := s.missing(); !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestALossInALogSaysWhichOperationsAreLost damages some of six records of one operation each.
func TestALossInALogSaysWhichOperationsAreLost(t *testing.T) {
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", storetest.Tiny(mem))
	for i := range 6 {
		testkit.Must(t, db.Put(fmt.Appendf(nil, "key %d", i+1), nil))
	}
	killed := mem.Kill()
	testkit.Must(t, db.Close())
	logs, err := recovery.Survey(killed, "db")
	testkit.Must(t, err)
	for damaged, want := range map[string][]string{
		"": nil, "1": {"operations 1 to 1 are lost"}, "23": {"operations 2 to 3 are lost"},
		"25": {"operations 2 to 2 are lost", "operations 5 to 5 are lost"}, "6": {"checksum"},
	} {
		copied := killed.Kill()
		storetest.Rewrite(t, copied, filename.Make("db", filename.Log, logs[filename.Log][0]), func(b []byte) []byte {
			for _, key := range damaged {
				b[bytes.Index(b, []byte("key "+string(key)))]++
			}
			return b
		})
		r, err := Run(t.Context(), "db", "new", Options{Store: storetest.Tiny(copied)})
		testkit.Must(t, err)
		for i, l := range r.Lost {
			if len(r.Lost) != len(want) || !strings.Contains(l.Err.Error(), want[i]) {
				t.Errorf("records %s are damaged: lost %v, want %q", damaged, r.Lost, want)
			}
		}
		behind := strings.Contains(strings.Join(r.Unknown, ""), "Log records after lost ones were read")
		if len(r.Lost) != len(want) || r.Records != 6-len(damaged) || behind != (damaged != "" && damaged != "6") {
			t.Errorf("records %s are damaged: %+v", damaged, r)
		}
	}
}

// threeTables makes a closed store of three tables of 100 keys, which are named from a00 to c99.
func threeTables(t *testing.T) (mem *vfstest.Mem, tables []*manifest.Table) {
	t.Helper()
	mem = vfstest.NewMem()
	db := storetest.Open(t, "db", storetest.Tiny(mem))
	for _, first := range []string{"a", "b", "c"} {
		pairs := map[string]string{}
		for i := range 100 {
			pairs[fmt.Sprintf("%s%02d", first, i)] = ""
		}
		testkit.Must(t, db.Ingest(t.Context(), storetest.PairsOf(pairs), bloomkv.IngestOptions{}))
	}
	testkit.Must(t, db.Close())
	for _, table := range storetest.Recorded(t, mem, "db").Version.Tables() {
		tables = append(tables, table)
	}
	slices.SortFunc(tables, func(a, b *manifest.Table) int { return bytes.Compare(a.Smallest, b.Smallest) })
	if len(tables) != 3 {
		t.Fatalf("%d tables, want 3", len(tables))
	}
	return mem, tables
}

// TestATableWithoutATailHasAllItsKeys has the manifest's facts, which say that there are no range deletes.
func TestATableWithoutATailHasAllItsKeys(t *testing.T) {
	mem, tables := threeTables(t)
	for _, table := range tables {
		storetest.Rewrite(t, mem, filename.Make("db", filename.Table, table.Number), func(b []byte) []byte {
			clear(b[table.Size-table.TailLen:])
			return b
		})
	}
	r, err := Run(t.Context(), "db", "new", Options{Store: storetest.Tiny(mem)})
	if err != nil || r.Keys != 300 || !r.Whole() || len(r.Lost) != 6 || len(r.Unknown) > 0 {
		t.Errorf("%+v, %v; want all keys, and of each table footer and tail lost", r, err)
	}
}

// TestATableThatCannotBeOpenedCostsItsKeys fails the opening of each table, and asking for its size, and checks that
// the progress comes to its end nevertheless.
func TestATableThatCannotBeOpenedCostsItsKeys(t *testing.T) {
	mem, tables := threeTables(t)
	for i, table := range tables {
		for _, kind := range []vfstest.OpKind{vfstest.OpOpen, vfstest.OpSize} {
			fsys := storetest.TrackOpen(vfstest.NewHook(mem.Kill(), func(op vfstest.Op) error {
				if op.Kind == kind && op.Name == filename.Make("db", filename.Table, table.Number) {
					return errDisk
				}
				return nil
			}))
			done, total := uint64(0), uint64(1)
			r, err := Run(t.Context(), "db", "new", Options{
				Store: storetest.Tiny(fsys), Progress: func(now, all uint64) { done, total = now, all },
			})
			testkit.Must(t, errors.Join(err, fsys.Left()))
			lower, upper := fmt.Sprintf("%c00", 'a'+i), fmt.Sprintf("%c99", 'a'+i)
			if r.Keys != 200 || r.Tables != 3 || len(r.Lost) != 1 || r.Whole() || done != total ||
				r.Lost[0].Part != "table" || !errors.Is(r.Lost[0].Err, errDisk) ||
				string(r.Lost[0].Lower) != lower || string(r.Lost[0].Upper) != upper {
				t.Errorf("%v fails: %+v, %d of %d bytes; want the keys from %s to %s lost", kind, r, done, total, lower,
					upper)
			}
		}
	}
}

// TestAnInterruptOpensNoFurtherTable ends the context while the first of three tables is read.
func TestAnInterruptOpensNoFurtherTable(t *testing.T) {
	mem, tables := threeTables(t)
	ctx, cancel := context.WithCancel(t.Context())
	opened := 0
	fsys := storetest.TrackOpen(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpOpen && strings.HasSuffix(op.Name, ".sst") {
			if opened++; opened > len(tables) { // all were surveyed
				cancel()
			}
		}
		return nil
	}))
	_, err := Run(ctx, "db", "new", Options{Store: storetest.Tiny(fsys)})
	testkit.Must(t, fsys.Left())
	if !errors.Is(err, context.Canceled) || opened != len(tables)+1 {
		t.Errorf("%v, %d tables opened; want %d", err, opened, len(tables)+1)
	}
}

// TestATableThatDoesNotCloseEndsAll has the first of three tables read to its end, or not further, since nothing can be
// written.
func TestATableThatDoesNotCloseEndsAll(t *testing.T) {
	errFull := errors.New("disk full")
	for _, full := range []bool{false, true} {
		mem, tables := threeTables(t)
		opened, closed := 0, 0
		fsys := storetest.TrackOpen(vfstest.NewHook(mem, func(op vfstest.Op) error {
			old := strings.HasPrefix(op.Name, "db") && strings.HasSuffix(op.Name, ".sst")
			switch {
			case old && op.Kind == vfstest.OpOpen:
				opened++
			case old && op.Kind == vfstest.OpClose:
				if closed++; closed > len(tables) { // all were surveyed
					return errDisk
				}
			case full && op.Kind == vfstest.OpCreate && strings.HasSuffix(op.Name, ".sst"):
				return errFull
			}
			return nil
		}))
		_, err := Run(t.Context(), "db", "new", Options{Store: storetest.Tiny(fsys)})
		testkit.Must(t, fsys.Left())
		if !errors.Is(err, errDisk) || errors.Is(err, errFull) != full || opened != len(tables)+1 {
			t.Errorf("full %v: %v, %d tables opened; want %d", full, err, opened, len(tables)+1)
		}
	}
}

// TestAnUnfinishedTableHoldsNothing has a file without a footer that no manifest names. Only a whole manifest shows
// that it was never part of the store.
func TestAnUnfinishedTableHoldsNothing(t *testing.T) {
	mem, tables := threeTables(t)
	storetest.AddFile(t, mem, "db/000999.sst", "unfinished")
	for _, current := range []bool{true, false} {
		if !current {
			number, err := manifest.ReadCurrent(mem, "db")
			testkit.Must(t, errors.Join(err, mem.Remove(filename.Make("db", filename.Manifest, number))))
		}
		r, err := Run(t.Context(), "db", fmt.Sprint("new ", current), Options{Store: storetest.Tiny(mem)})
		named := !strings.Contains(strings.Join(r.Unknown, ""), "These tables were read although the manifest does not")
		if err != nil || r.Keys != 300 || r.Whole() != current || r.Tables != len(tables)+1 || named == current {
			t.Errorf("a manifest %v: %+v, %v", current, r, err)
		}
	}
}

// TestALogThatCannotBeOpenedIsLost checks that the progress comes to its end nevertheless, and that a loss of a table,
// which is read later, comes first in the report.
func TestALogThatCannotBeOpenedIsLost(t *testing.T) {
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", storetest.Tiny(mem))
	testkit.Must(t, errors.Join(db.Put([]byte("a"), nil), db.Flush(t.Context()), db.Put([]byte("b"), nil)))
	killed := mem.Kill()
	testkit.Must(t, db.Close())
	for _, table := range storetest.Recorded(t, killed, "db").Version.Tables() {
		storetest.Rewrite(t, killed, filename.Make("db", filename.Table, table.Number), func(b []byte) []byte {
			b[table.Size-table.TailLen]++
			return b
		})
	}
	done, total := uint64(0), uint64(1)
	r, err := Run(t.Context(), "db", "new", Options{
		Store: storetest.Tiny(vfstest.NewHook(killed, func(op vfstest.Op) error {
			if op.Kind == vfstest.OpOpen && strings.HasSuffix(op.Name, ".log") {
				return errDisk
			}
			return nil
		})),
		Progress: func(now, all uint64) { done, total = now, all },
	})
	if err != nil || r.Keys != 1 || r.Whole() || len(r.Lost) != 2 || r.Lost[0].Part != "index" ||
		r.Lost[1].Part != "log" || !errors.Is(r.Lost[1].Err, errDisk) || done != total {
		t.Errorf("%+v, %v, %d of %d bytes; want the log lost", r, err, done, total)
	}
}

// TestARecordThatIsNoBatchIsLost has a log alone, whose second record has a right checksum.
func TestARecordThatIsNoBatchIsLost(t *testing.T) {
	m := newFS(t)
	f, err := m.Create(filename.Make(dir, filename.Log, 7))
	testkit.Must(t, err)
	w, err := wal.NewWriter(f, 7, 1)
	testkit.Must(t, err)
	testkit.Must(t, errors.Join(w.Append(append(make([]byte, wal.HeaderSize), "no batch"...)), w.Close()))
	r, err := Run(t.Context(), dir, "new", Options{Store: storetest.Tiny(m)})
	lost := slices.IndexFunc(r.Lost, func(l Loss) bool { return l.Part == "log record" && l.Bytes == 8 && !l.Harmless })
	if err != nil || r.Records != 0 || lost < 0 {
		t.Errorf("%+v, %v; want the record lost", r, err)
	}
}

// TestAnIngestedTableIsNamedIfNoManifestHasItsNumber has tables of one ingested key, of one written key, and of a range
// delete alone.
func TestAnIngestedTableIsNamedIfNoManifestHasItsNumber(t *testing.T) {
	for name, c := range map[string]struct {
		write func(db *bloomkv.DB) error
		want  bool
	}{
		"an ingested key": {func(db *bloomkv.DB) error {
			return db.Ingest(t.Context(), storetest.PairsOf(map[string]string{"a": "b"}), bloomkv.IngestOptions{})
		}, true},
		"a written key": {func(db *bloomkv.DB) error {
			return errors.Join(db.Put([]byte("a"), nil), db.Put([]byte("a"), nil), db.Flush(t.Context()))
		}, false},
		"a range delete": {func(db *bloomkv.DB) error {
			all := &bloomkv.KeyRange{}
			return db.Ingest(t.Context(), storetest.PairsOf(nil), bloomkv.IngestOptions{Replace: all})
		}, false},
	} {
		mem := vfstest.NewMem()
		db := storetest.Open(t, "db", storetest.Tiny(mem))
		testkit.Must(t, c.write(db))
		killed := mem.Kill()
		testkit.Must(t, errors.Join(db.Close(), killed.Remove("db/CURRENT")))
		found, err := recovery.Survey(killed, "db")
		testkit.Must(t, err)
		for _, n := range found[filename.Manifest] {
			testkit.Must(t, killed.Remove(filename.Make("db", filename.Manifest, n)))
		}
		r, err := Run(t.Context(), "db", "new", Options{Store: storetest.Tiny(killed)})
		told := strings.Contains(strings.Join(r.Unknown, ""), "Only a manifest has the sequence numbers")
		if err != nil || len(found[filename.Table]) != 1 || told != c.want {
			t.Errorf("%s: %+v, %v; want that the report names the table: %v", name, r, err, c.want)
		}
	}
}

func TestASalvageOfNoDirectoryIsAnError(t *testing.T) {
	dir := t.TempDir()
	_, err := Run(t.Context(), filepath.Join(dir, "none"), filepath.Join(dir, "new"), Options{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want %v", err, fs.ErrNotExist)
	}
}

func TestADirectoryInUseIsNamed(t *testing.T) {
	mem := vfstest.NewMem()
	for _, dir := range []string{"old", "used"} {
		db, err := bloomkv.Open(dir, &bloomkv.Options{FS: mem})
		must(t, err)
		must(t, db.Close())
	}
	_, err := Run(t.Context(), "old", "used", Options{Store: &bloomkv.Options{FS: mem}})
	if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "used") {
		t.Errorf("%v, want that used is not empty", err)
	}
}

// TestFiltersOfTheNewStoreFitInTheirMemory salvages more keys than the smallest memory has good filters for.
func TestFiltersOfTheNewStoreFitInTheirMemory(t *testing.T) {
	testkit.Long(t)
	mem := vfstest.NewMem()
	o := storetest.Tiny(mem)
	o.FilterFPR, o.FilterMemory = 0, 64<<10
	db := storetest.Open(t, "db", o)
	testkit.Must(t, db.Ingest(t.Context(), func(yield func(bloomkv.KV, error) bool) {
		for i := range 60_000 {
			if !yield(bloomkv.KV{Key: fmt.Appendf(nil, "%06d", i)}, nil) {
				return
			}
		}
	}, bloomkv.IngestOptions{}))
	testkit.Must(t, db.Close())
	_, err := Run(t.Context(), "db", "new", Options{Store: o})
	testkit.Must(t, err)
	filters := uint64(0)
	for _, table := range storetest.Recorded(t, mem, "new").Version.Tables() {
		filters += table.FilterLen
	}
	if filters > 80<<10 || filters < 56<<10 {
		t.Errorf("the filters of the new store have %d bytes, want about %d", filters, o.FilterMemory)
	}
}

// TestTablesAreRankedByLevelRunAndNumber has a manifest that places all tables, and one that does not.
func TestTablesAreRankedByLevelRunAndNumber(t *testing.T) {
	for placed, want := range map[bool][]uint64{true: {2, 3, 1, 6, 5, 4}, false: {6, 5, 4, 3, 2, 1}} {
		s := &salvage{}
		for number, at := range map[uint64][2]int{1: {0, 3}, 2: {0, 5}, 3: {0, 4}, 4: {6, 1}, 5: {6, 1}, 6: {6, 2}} {
			x := &table{number: number, placed: &manifest.Added{Level: at[0], Run: uint64(at[1])}}
			if !placed && number == 4 {
				x.placed = nil
			}
			s.tables = append(s.tables, x)
		}
		s.rank()
		var got []uint64
		for i, x := range s.tables {
			if got = append(got, x.number); x.age != i+1 {
				t.Errorf("table %d has the age %d, want %d", x.number, x.age, i+1)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("all placed %v: from the newest to the oldest %d, want %d", placed, got, want)
		}
	}
}

// TestTheTablesOfAChainMustAscend has a table that begins with the last key of the table before, which its description
// denies.
func TestTheTablesOfAChainMustAscend(t *testing.T) {
	mem := newFS(t)
	s := &salvage{fs: mem, dir: dir}
	var chain []*table
	for i, keys := range []string{"ab", "bc", "cd"} {
		number := uint64(i + 1)
		var kvs []kv
		for _, k := range keys {
			kvs = append(kvs, set(string(k), 1, ""))
		}
		file, _ := build(t, sstable.WriterOptions{ID: number}, kvs)
		storetest.AddFile(t, mem, filename.Make(dir, filename.Table, number), string(file))
		chain = append(chain, &table{number: number, name: filename.Base(filename.Table, number)})
	}
	var got []byte
	for v, err := range s.read(t.Context(), chain) {
		testkit.Must(t, err)
		got = append(got, v.key.User...)
	}
	testkit.Must(t, s.closing)
	if l := s.report.Lost; string(got) != "abcd" || len(l) != 1 || l[0].File != "000002.sst" || l[0].Part != "table" ||
		string(l[0].Lower) != "b" {
		t.Errorf("keys %s, lost %+v; want that table 2 is lost", got, l)
	}
}
