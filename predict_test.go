package bloomkv_test

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/vfs"
)

// putNumbers puts the keys 0, step, 2*step and so on below hi, and flushes.
func putNumbers(t *testing.T, db *bloomkv.DB, hi, step int) {
	t.Helper()
	var b bloomkv.Batch
	for i := 0; i < hi; i += step {
		b.Put(fmt.Appendf(nil, "key%08d", i), []byte("value"))
	}
	if err := db.With(bloomkv.NoSync).Apply(&b); err != nil {
		t.Fatal(err)
	}
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
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
		o := &bloomkv.Options{FS: vfs.NewMem(), FilterKind: kind}
		l := listen(o)
		db := l.open(t, o)
		putNumbers(t, db, 40_000, 2)
		putNumbers(t, db, 80_000, 4)
		if err := db.Compact(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
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
	fsys := vfs.NewMem()
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	putNumbers(t, db, 40_000, 2)
	meta := db.Tree().Load().Runs[0].Tables[0].Meta
	putNumbers(t, db, 80_000, 4)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file := filename.Base(filename.Table, meta.Number)
	whole, err := vfs.ReadFile(fsys, filepath.Join("db", file), 1<<24)
	if err != nil {
		t.Fatal(err)
	}
	whole[meta.Size-meta.TailLen-meta.FilterLen-100] ^= 1 // the sample precedes the filter
	if err := vfs.WriteFileAtomic(fsys, "db", "copy", file, whole); err != nil {
		t.Fatal(err)
	}
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
	if err := db.Compact(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
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
