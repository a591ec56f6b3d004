package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestBytesReadByCompactionsAreThoseOfTablesThatWereRead deletes a range that covers whole tables, which compactions
// drop without reading them. The numbers in events and Metrics are compared with the reads of each file.
func TestBytesReadByCompactionsAreThoseOfTablesThatWereRead(t *testing.T) {
	files := storetest.LogFiles(vfstest.NewMem())
	o := storetest.Tiny(files)
	o.Durability = bloomkv.DurabilityNoSync
	l := listen(o)
	db := l.open(t, o)
	rng := rand.New(rand.NewPCG(41, 0))
	value := make([]byte, 200)
	for i := range 1500 {
		for j := range value {
			value[j] = byte(rng.Uint32())
		}
		must(t, db.Put(fmt.Appendf(nil, "key%05d", i*7919%1500), value))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	storetest.AtRest(t, db, o.FS, "db")
	heard := func() (read uint64, removed []bloomkv.TableInfo) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, c := range l.compacted {
			read += c.BytesRead
		}
		return read, append(removed, l.removed...)
	}
	dataEnd := map[string]int64{} // of the current tables
	for _, table := range storetest.Recorded(t, files, "db").Version.Tables() {
		dataEnd[filename.Make("db", filename.Table, table.Number)] = int64(table.Size - table.TailLen - table.FilterLen)
	}
	testkit.Soon(t, "every TableRemoved event has come", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.created) == len(l.removed)+len(dataEnd)
	})
	before := db.Metrics().Writes
	beforeRead, beforeRemoved := heard()
	if beforeRead != before.CompactedBytesRead {
		t.Errorf("compactions report %d bytes read, Metrics %d", beforeRead, before.CompactedBytesRead)
	}
	files.Take()
	must(t, errors.Join(
		db.DeleteRange(bloomkv.KeyRange{Lower: []byte("key00200"), Upper: []byte("key01200")}),
		db.Put([]byte("key00100"), nil), db.Put([]byte("key01300"), nil),
		db.Compact(t.Context(), bloomkv.CompactOptions{}),
	))
	storetest.AtRest(t, db, o.FS, "db")
	opened := map[string]bool{} // tables whose data compaction has read
	for _, op := range files.Take() {
		if end, known := dataEnd[op.Name]; op.Kind == vfstest.OpReadAt && op.Compacting && (!known || op.Offset < end) {
			opened[op.Name] = true
		}
	}
	after := db.Metrics().Writes
	l.close(t) // the last TableRemoved event may come after the file is gone, but not after Close
	read, removed := heard()
	var want, skipped uint64
	for _, r := range removed[len(beforeRemoved):] {
		if opened[r.Path] {
			want += r.Bytes
		} else {
			skipped += r.Bytes
		}
	}
	if got := read - beforeRead; got != want || want == 0 || skipped == 0 {
		t.Errorf("compactions report %d bytes read, files of %d bytes were read, of %d bytes dropped unread; "+
			"want some of both",
			got, want, skipped)
	}
	if got := after.CompactedBytesRead - before.CompactedBytesRead; got != want {
		t.Errorf("Metrics reports %d bytes read, want %d", got, want)
	}
}

// merged returns the only reported compaction that did not just move tables.
func (l *listener) merged(t *testing.T) (merge bloomkv.CompactionInfo) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, c := range l.compacted {
		if !c.Moved {
			merge = c
			n++
		} else if c.Keys+c.PredictedKeys != 0 {
			t.Errorf("a move reports %d keys and a prediction of %d", c.Keys, c.PredictedKeys)
		}
	}
	if n != 1 {
		t.Fatalf("%d merges, want 1: %+v", n, l.compacted)
	}
	return merge
}

// TestACompactionTellsWhatItHadPredicted has 20,000 keys and 20,000 newer ones, half of which are the same.
func TestACompactionTellsWhatItHadPredicted(t *testing.T) {
	testkit.Long(t)
	for _, kind := range []bloomkv.FilterKind{bloomkv.FilterBloom, bloomkv.FilterRibbon} {
		o := &bloomkv.Options{FS: vfstest.NewMem(), FilterKind: kind}
		l := listen(o)
		db := l.open(t, o)
		putNumbers(t, db, 40_000, 2)
		putNumbers(t, db, 80_000, 4)
		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		l.close(t)
		c := l.merged(t)
		if off := float64(c.PredictedKeys)/float64(c.Keys) - 1; c.Keys != 30_000 || math.Abs(off) > 0.03 {
			t.Errorf("%v: %d keys were written, want 30,000; predicted %d, want within 3 %%", kind, c.Keys,
				c.PredictedKeys)
		}
	}
}

// TestADamagedSampleIsReportedAndNotMissed checks that a compaction works without a sample and reports the damaged one.
func TestADamagedSampleIsReportedAndNotMissed(t *testing.T) {
	testkit.LongUnderRace(t)
	fsys := vfstest.NewMem()
	db := storetest.Open(t, "db", &bloomkv.Options{FS: fsys})
	putNumbers(t, db, 40_000, 2)
	meta := newestTable(t, fsys)
	putNumbers(t, db, 80_000, 4)
	must(t, db.Close())
	file := filename.Base(filename.Table, meta.Number)
	whole, err := vfs.ReadFile(fsys, filepath.Join("db", file), 1<<24)
	must(t, err)
	whole[meta.Size-meta.TailLen-meta.FilterLen-100] ^= 1 // the sample precedes the filter
	must(t, vfs.WriteFileAtomic(fsys, "db", "copy", file, whole))
	o := &bloomkv.Options{FS: fsys}
	if _, err := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: o.FS}); !errors.Is(err,
		bloomkv.ErrCorruption) {
		t.Errorf("Check: %v, want damage", err)
	}
	l := listen(o)
	db = l.open(t, o)
	if _, err := db.Get([]byte("key00000002")); err != nil {
		t.Error(err)
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	l.close(t)
	if c := l.merged(t); c.Keys != 30_000 || c.PredictedKeys != 0 {
		t.Errorf("%d keys were written, want 30,000; predicted %d, want 0", c.Keys, c.PredictedKeys)
	}
	if len(l.damage) != 1 || !errors.Is(l.damage[0], bloomkv.ErrCorruption) {
		t.Errorf("reported damage %v, want one report", l.damage)
	}
	if _, err := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: fsys}); err != nil {
		t.Errorf("Check after the compaction: %v", err)
	}
}

// TestLevel0IsMergedWhileNobodyWrites lets the time pass that a synctest bubble has: see below.
func TestACompactionOfNothingWritesNothing(t *testing.T) {
	db := storetest.OpenTiny(t)
	defer db.Close()
	must(t, db.Put([]byte("key"), nil))
	for _, r := range []bloomkv.KeyRange{
		{Lower: []byte("key"), Upper: []byte("key")}, {Lower: []byte("z"), Upper: []byte("a")}, {Upper: []byte{}},
	} {
		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Range: r}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Compact(ctx, bloomkv.CompactOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context has ended: %v", err)
	}
	if n := db.Metrics().Writes.Flushes; n != 0 {
		t.Errorf("%d flushes, want none", n)
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Range: bloomkv.KeyRange{Upper: []byte{0}}}))
	if n := db.Metrics().Writes.Flushes; n != 1 {
		t.Errorf("%d flushes for a range with one key, want 1", n)
	}
}

func TestLevel0IsMergedWhileNobodyWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := storetest.Small(vfstest.NewMem())
		o.Durability, o.Compression = bloomkv.DurabilityNoSync, bloomkv.CompressionNone
		o.MemtableSize, o.BaseLevelSize = 1<<20, 1<<20
		db := storetest.Open(t, "db", o)
		runs := func() (all int) {
			storetest.Settle(t, db)
			for _, l := range db.Metrics().Levels {
				all += l.Runs
			}
			return all
		}
		want := map[string]string{}
		write := func(value string, keys, flushes int) {
			for i := range flushes {
				for j := range keys {
					k, v := fmt.Sprintf("%04d", j), fmt.Sprint(value, i, strings.Repeat(".", 100))
					must(t, db.Put([]byte(k), []byte(v)))
					want[k] = v
				}
				must(t, db.Flush(t.Context()))
			}
		}
		write("first ", 1000, 1)
		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		write("second ", 200, triggerRuns-1)
		if got := runs(); got != triggerRuns {
			t.Fatalf("%d runs, want %d", got, triggerRuns)
		}
		time.Sleep(time.Hour)
		if got := runs(); got != 1 {
			t.Errorf("after an hour %d runs, want 1:\n%v", got, db.Metrics())
		}
		write("third ", 1, 1)
		synctest.Wait() // the store is not idle any more
		write("fourth ", 1, 1)
		if got := runs(); got != 3 {
			t.Errorf("after a write %d runs, want 3", got)
		}
		time.Sleep(time.Hour)
		if got := runs(); got != 2 {
			t.Errorf("after another hour %d runs, want 2, since the last level is far larger", got)
		}
		must(t, errors.Join(contains(db, want), db.Close()))
	})
}

// TestALargeMergeIsCarriedOutInSlices loads keys in a random order: no compaction then takes much space beside the
// tree.
func TestALargeMergeIsCarriedOutInSlices(t *testing.T) {
	testkit.Long(t)
	o := storetest.Small(vfstest.NewMem())
	o.Compression, o.MemtableSize, o.BaseLevelSize = bloomkv.CompressionNone, 256<<10, 64<<20
	o.Compactions = 1 // so that each run makes the same tree
	l := listen(o)
	db := l.open(t, o)
	want := map[string]string{}
	for i := range 30_000 {
		k, v := fmt.Sprintf("%05d", i*7919%30_000), strings.Repeat(".", 100)
		must(t, db.Put([]byte(k), []byte(v)))
		if want[k] = v; i%1000 == 999 {
			must(t, db.Flush(t.Context()))
			storetest.Settle(t, db)
		}
	}
	must(t, errors.Join(contains(db, want), sound(t, db)))
	size := uint64(0)
	for _, level := range db.Metrics().Levels {
		size += level.Bytes
	}
	l.close(t)
	down := 0
	for _, c := range l.compacted {
		if c.Moved || c.To == 0 {
			continue
		}
		if down++; c.BytesWritten > size/4 {
			t.Errorf("a compaction wrote %d bytes, the tree has %d: want a quarter at most", c.BytesWritten, size)
		}
	}
	if down < 10 {
		t.Errorf("%d compactions into the last level, want several slices of several merges", down)
	}
}

// TestManyWorkersShareAMergeOnASlowDisk uses the clock of a synctest bubble: each write to a table takes its time,
// beside other writes.
func TestManyWorkersShareAMergeOnASlowDisk(t *testing.T) {
	const n = 8000
	rate := map[int]float64{} // bytes per second
	for _, workers := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			var slow atomic.Bool
			o := storetest.Tiny(vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
				if slow.Load() && op.Kind == vfstest.OpWrite && filepath.Ext(op.Name) == ".sst" {
					time.Sleep(time.Duration(op.Size) * time.Microsecond)
				}
				return nil
			}))
			o.Durability, o.Compression, o.MemtableSize = bloomkv.DurabilityNoSync, bloomkv.CompressionNone, 1<<20
			o.Compactions = workers
			db := storetest.Open(t, "db", o)
			want := map[string]string{}
			for i := range n {
				k, v := fmt.Sprintf("%05d", i*7919%n), strings.Repeat(".", 200)
				must(t, db.Put([]byte(k), []byte(v)))
				want[k] = v
			}
			must(t, db.Flush(t.Context()))
			storetest.Settle(t, db)
			slow.Store(true)
			began, before := time.Now(), db.Metrics().Writes.CompactedBytes
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			rate[workers] = float64(db.Metrics().Writes.CompactedBytes-before) / time.Since(began).Seconds()
			must(t, errors.Join(contains(db, want), sound(t, db), db.Close()))
		})
	}
	if rate[4] < 3*rate[1] {
		t.Errorf("four compactions wrote %.0f bytes per second, one wrote %.0f: want three times as many at least",
			rate[4], rate[1])
	}
}

// TestCompactionsKeepTheirRate uses the clock of a synctest bubble, which advances only while all goroutines are
// blocked.
func TestCompactionsKeepTheirRate(t *testing.T) {
	const rate = 100 << 10
	synctest.Test(t, func(t *testing.T) {
		o := storetest.Tiny(vfstest.NewMem())
		o.Durability, o.MemtableSize, o.TableSize, o.Compression, o.CompactionRate = bloomkv.DurabilityNoSync, 1<<20,
			1<<20, bloomkv.CompressionNone, rate
		db := storetest.Open(t, "db", o)
		rng := rand.New(rand.NewPCG(1, 2))
		value := make([]byte, 1000)
		began := time.Now()
		for i := range 2000 {
			for j := range value {
				value[j] = byte(rng.Uint32())
			}
			must(t, db.Put(fmt.Appendf(nil, "key%d", i*7919%2000), value))
		}
		must(t, db.Flush(t.Context()))
		if took := time.Since(began); took > time.Second {
			t.Errorf("writes and flushes took %v: they must not be slowed", took)
		}
		before := db.Metrics().Writes.CompactedBytes
		began = time.Now()
		must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		written := db.Metrics().Writes.CompactedBytes - before
		want := time.Duration(written) * time.Second / rate
		if took := time.Since(began); written < 1<<20 || took < want*8/10 || took > want*11/10 {
			t.Errorf("wrote %d bytes in %v, want about %v", written, took, want)
		}
		// Close does not wait for the end of a pause.
		for i := range 2000 {
			must(t, db.Put(fmt.Appendf(nil, "key%d", i), value))
		}
		short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := db.Compact(short, bloomkv.CompactOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("compact for three seconds: %v", err)
		}
		began = time.Now()
		must(t, db.Close())
		if took := time.Since(began); took > time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

// sound returns the damage that Check finds.
func sound(t *testing.T, db *bloomkv.DB) error {
	t.Helper()
	_, err := db.Check(t.Context(), bloomkv.CheckOptions{})
	return err
}

// TestShortSessionsKeepFewFiles opens a store, writes one key and closes it, as a cron job or the tool's put does.
func TestShortSessionsKeepFewFiles(t *testing.T) {
	testkit.Long(t)
	const sessions = 400
	rng := rand.New(rand.NewPCG(3, 5))
	for name, key := range map[string]func(i int) string{
		"ascending keys": func(i int) string { return fmt.Sprintf("%08d", i) },
		"random keys":    func(int) string { return fmt.Sprintf("%08d", rng.IntN(1e8)) },
		"one key":        func(int) string { return "key" },
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfstest.NewMem()
			o := &bloomkv.Options{FS: mem, Durability: bloomkv.DurabilityNoSync}
			want, most := map[string]string{}, 0
			for i := range sessions {
				db := storetest.Open(t, "db", o)
				k, v := key(i), strconv.Itoa(i)
				must(t, errors.Join(db.Put([]byte(k), []byte(v)), db.Close()))
				want[k] = v
				most = max(most, tablesOnDisk(t, mem))
			}
			t.Logf("%d sessions: at most %d tables", sessions, most)
			if most > 30 { // level 0 has at most 12 runs, and the level below joins what is small
				t.Errorf("%d table files after a session, want at most 30", most)
			}
			db := storetest.Open(t, "db", o)
			storetest.Settle(t, db)
			if n := db.Metrics().Files.Tables; n > 8 {
				t.Errorf("%d tables once it is settled, want at most 8\n%v", n, db.Metrics())
			}
			must(t, errors.Join(contains(db, want), sound(t, db), db.Close()))
			must(t, holds(mem, "db", want))
		})
	}
}

// TestFlushesAndIngestedTablesOfAFewKeysBecomeFewTables keeps the store open.
func TestFlushesAndIngestedTablesOfAFewKeysBecomeFewTables(t *testing.T) {
	testkit.Long(t)
	const flushes = 300
	for name, add := range map[string]func(t *testing.T, db *bloomkv.DB, fsys vfs.FS, i int){
		"flushes": func(t *testing.T, db *bloomkv.DB, _ vfs.FS, i int) {
			t.Helper()
			must(t, errors.Join(db.Put(fmt.Appendf(nil, "k%03d", i), []byte("v")), db.Flush(t.Context())))
		},
		"checkpoints": func(t *testing.T, db *bloomkv.DB, _ vfs.FS, i int) {
			t.Helper()
			must(t, db.Put(fmt.Appendf(nil, "k%03d", i), []byte("v")))
			must(t, db.Checkpoint(t.Context(), fmt.Sprintf("checkpoint%d", i)))
		},
		"ingested tables": func(t *testing.T, db *bloomkv.DB, fsys vfs.FS, i int) {
			t.Helper()
			built(t, fsys, "table", i, i+1, "v")
			must(t, errors.Join(db.IngestTables(t.Context(), "table"), fsys.Remove("table")))
		},
		"ranges that replace others": func(t *testing.T, db *bloomkv.DB, _ vfs.FS, i int) {
			t.Helper()
			k := fmt.Appendf(nil, "k%03d", i)
			must(t, db.Put(k, []byte("old")))
			must(t, db.DeleteRange(bloomkv.KeyRange{Lower: k, Upper: append(k, 0)}))
			must(t, errors.Join(db.Flush(t.Context()), db.Put(k, []byte("v"))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfstest.NewMem()
			db := storetest.Open(t, "db", &bloomkv.Options{FS: mem, Durability: bloomkv.DurabilityNoSync})
			want := map[string]string{}
			for i := range flushes {
				add(t, db, mem, i)
				want[fmt.Sprintf("k%03d", i)] = "v"
			}
			must(t, db.Flush(t.Context()))
			storetest.Settle(t, db)
			m := db.Metrics()
			in := m.Writes.FlushBytes + m.Writes.IngestBytes
			t.Logf("%d tables, %d bytes flushed or ingested, %d by compactions", m.Files.Tables, in,
				m.Writes.CompactedBytes)
			if m.Files.Tables > 8 || m.Writes.CompactedBytes > 4*in {
				t.Errorf("%d tables, %d bytes flushed or ingested, %d by compactions, want at most 8, and 4 for each",
					m.Files.Tables, in, m.Writes.CompactedBytes)
			}
			must(t, errors.Join(contains(db, want), sound(t, db), db.Close()))
		})
	}
}

// TestSmallTablesAreJoinedOnceAStoreIsOpen makes tables that only become small by a larger TableSize.
func TestSmallTablesAreJoinedOnceAStoreIsOpen(t *testing.T) {
	testkit.Long(t)
	mem := vfstest.NewMem()
	o := &bloomkv.Options{
		FS: mem, Durability: bloomkv.DurabilityNoSync, TableSize: 16 << 10, Compression: bloomkv.CompressionNone,
	}
	db, err := bloomkv.Open("db", o)
	must(t, err)
	want := map[string]string{}
	for i := range 200 {
		k, v := fmt.Sprintf("%04d", i), string(slices.Repeat([]byte{byte(i)}, 3000))
		must(t, errors.Join(db.Put([]byte(k), []byte(v)), db.Flush(t.Context())))
		want[k] = v
	}
	storetest.Settle(t, db)
	if n := db.Metrics().Files.Tables; n != 200 {
		t.Fatalf("%d tables, want 200 that are not small", n)
	}
	must(t, db.Close())

	o.TableSize, o.ReadOnly = 0, true
	db = storetest.Open(t, "db", o)
	storetest.Settle(t, db)
	if n := db.Metrics().Files.Tables; n != 200 {
		t.Errorf("for a reader, %d tables, want all 200 as they are", n)
	}
	must(t, errors.Join(contains(db, want), db.Close()))

	o.ReadOnly = false
	db = storetest.Open(t, "db", o)
	snapshot, err := db.Snapshot()
	must(t, err)
	before := maps.Clone(want)
	must(t, db.Delete([]byte("0007")))
	delete(want, "0007")
	storetest.Settle(t, db)
	if m := db.Metrics(); m.Files.Tables > 8 || m.Writes.CompactedBytes > 3*m.Levels[len(m.Levels)-1].Bytes {
		t.Errorf("%d tables, %d bytes written, want at most 8, and three for each\n%v", m.Files.Tables,
			m.Writes.CompactedBytes, m)
	}
	must(t, errors.Join(contains(db, want), contains(snapshot, before), snapshot.Close()))
	must(t, errors.Join(sound(t, db), db.Close()))
	must(t, holds(mem, "db", want))
}

// TestRunsInWhichManySeeksLookAreMerged seeks in the runs of level 0 of a store that is written to now and then.
func TestRunsInWhichManySeeksLookAreMerged(t *testing.T) {
	db := storetest.OpenTiny(t)
	defer func() { must(t, db.Close()) }()
	const runs = 5 // fewer than start a compaction
	want := map[string]string{}
	put := func(i int) {
		k, v := fmt.Sprintf("%04d", i), strings.Repeat(".", i)
		must(t, db.Put([]byte(k), []byte(v)))
		want[k] = v
	}
	for i := range runs {
		for j := range 200 {
			put(i*37 + j*7)
		}
		must(t, db.Flush(t.Context()))
	}
	storetest.Settle(t, db)
	before := db.Metrics()
	if before.Levels[0].Runs != runs {
		t.Fatalf("%d runs in level 0, want %d", before.Levels[0].Runs, runs)
	}
	seek := func(n int) {
		for i := range n {
			it := db.Iter(bloomkv.IterOptions{})
			if !it.SeekGE(fmt.Appendf(nil, "%04d", i%1000)) {
				t.Fatal("nothing found", it.Err())
			}
			must(t, it.Close())
			if i%1000 == 0 {
				put(5000)
			}
		}
	}
	seek(100)
	storetest.Settle(t, db)
	if m := db.Metrics(); m.Writes.Compactions != before.Writes.Compactions {
		t.Errorf("%d compactions after few seeks", m.Writes.Compactions-before.Writes.Compactions)
	}
	for n := 0; db.Metrics().Levels[0].Runs > 0; n++ {
		if seek(1000); n == 100 { // much less than a memtable was put
			t.Fatalf("runs in which many seeks look are not merged\n%v", db.Metrics())
		}
	}
	must(t, contains(db, want))
}

// tablesOnDisk counts the tables in a store's directory.
func tablesOnDisk(t *testing.T, fsys vfs.FS) (n int) {
	t.Helper()
	names, err := fsys.List("db")
	must(t, err)
	for _, name := range names {
		if kind, _ := filename.Parse(name); kind == filename.Table {
			n++
		}
	}
	return n
}

// TestTablesGoWhenTheLastLookupInThemEnds has a lookup read tables while a compaction replaces them. Nothing uses the
// store afterwards.
func TestTablesGoWhenTheLastLookupInThemEnds(t *testing.T) {
	mem := vfstest.NewMem()
	var reading atomic.Bool
	slow, open := storetest.Gated(mem, func(op vfstest.Op) bool {
		waits := op.Kind == vfstest.OpReadAt && storetest.Inside(storetest.DBGet)
		if waits {
			reading.Store(true)
		}
		return waits
	})
	opts := storetest.Tiny(slow)
	opts.Durability, opts.Compression = bloomkv.DurabilityNoSync, bloomkv.CompressionNone
	db := storetest.Open(t, "db", opts)
	testkit.Soon(t, "it is warm", func() bool { return db.Metrics().Warm })
	fillTables(t, db)
	done := make(chan error)
	go func() {
		_, err := db.Get([]byte("0500"))
		done <- err
	}()
	testkit.Soon(t, "the lookup reads a block", reading.Load)
	fillTables(t, db)
	want := db.Metrics().Files.Tables
	if n := tablesOnDisk(t, mem); n == want {
		t.Fatalf("%d tables on the disk, want some more, kept by the lookup", n)
	}
	open()
	must(t, <-done)
	testkit.Soon(t, "only the tables of the tree are left", func() bool { return tablesOnDisk(t, mem) == want })
	must(t, db.Close())
}

// fillTables writes the same keys at each call, into new tables of the last level.
func fillTables(t *testing.T, db *bloomkv.DB) {
	t.Helper()
	for i := range 1000 {
		must(t, db.Put(fmt.Appendf(nil, "%04d", i), bytes.Repeat([]byte{byte(i)}, 100)))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	storetest.Settle(t, db)
}

func TestAnInstallThatFailsLeavesNoTable(t *testing.T) {
	mem := vfstest.NewMem()
	fails := 3
	opts := storetest.Small(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpOpen && strings.HasSuffix(op.Name, ".sst") && fails > 0 {
			fails--
			return errors.New("no descriptor is left")
		}
		return nil
	}))
	opts.TableSize = 16 << 10
	opts.Compression = bloomkv.CompressionNone
	db := storetest.Open(t, "db", opts)
	for i := range 20 {
		must(t, db.Put(fmt.Appendf(nil, "%04d", i), make([]byte, 1000)))
	}
	must(t, db.Flush(t.Context()))
	names, err := mem.List("db")
	must(t, err)
	tables := 0
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			tables++
		}
	}
	if want := db.Metrics().Levels[0].Tables; tables != want || fails != 0 {
		t.Errorf("%d tables on the disk, want %d; %d failures to come, want 0", tables, want, fails)
	}
	must(t, db.Close())
}

func TestALargeManifestIsNotBegunAnewAtEveryEdit(t *testing.T) {
	testkit.Long(t)
	manifests := 0
	opts := storetest.Small(vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpCreate && strings.Contains(op.Name, "MANIFEST-") {
			manifests++
		}
		return nil
	}))
	opts.MemtableSize, opts.Durability = 2<<20, bloomkv.DurabilityNoSync
	db := storetest.Open(t, "db", opts)
	key := bytes.Repeat([]byte("k"), 60_000) // bounds that fill a manifest
	for i := range 80 {
		must(t, db.Put(fmt.Appendf(key, "%04d", i), make([]byte, 20_000)))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	version := storetest.Recorded(t, opts.FS, "db").Version
	if tables := len(version.Levels[lastLevel][0].Tables); tables < 40 {
		t.Fatalf("%d bytes in %d tables, want 40", version.Bytes(lastLevel), tables)
	}
	before := manifests
	for i := range 20 {
		must(t, db.Put(fmt.Appendf(nil, "%04d", i), nil))
		must(t, db.Flush(t.Context()))
	}
	if manifests-before > 3 {
		t.Errorf("%d manifests for some 25 small edits", manifests-before)
	}
	must(t, db.Close())
}
