package bloomkv_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/tree"
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
	atRest(t, db)
	heard := func() (read uint64, removed []bloomkv.TableInfo) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, c := range l.compacted {
			read += c.BytesRead
		}
		return read, append(removed, l.removed...)
	}
	dataEnd := map[string]int64{} // of the current tables
	db.Tree().Load().EachTable(func(_ int, t *tree.Table) {
		dataEnd[t.File.Path] = int64(t.Meta.Size - t.Meta.TailLen - t.Meta.FilterLen)
	})
	storetest.Soon(t, "every TableRemoved event has come", func() bool {
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
	if err := errors.Join(
		db.DeleteRange(bloomkv.KeyRange{Lower: []byte("key00200"), Upper: []byte("key01200")}),
		db.Put([]byte("key00100"), nil), db.Put([]byte("key01300"), nil),
		db.Compact(t.Context(), bloomkv.CompactOptions{}),
	); err != nil {
		t.Fatal(err)
	}
	atRest(t, db)
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
	fsys := vfstest.NewMem()
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: fsys})
	must(t, err)
	putNumbers(t, db, 40_000, 2)
	meta := db.Tree().Load().Runs[0].Tables[0].Meta
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
