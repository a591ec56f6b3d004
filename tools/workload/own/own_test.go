package own_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/workload"
	"github.com/bloomkv/bloomkv/tools/workload/own"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

var must = testkit.Must

func open(t *testing.T, options *bloomkv.Options) *own.Store {
	t.Helper()
	s, err := own.Open(t.TempDir(), options)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, bloomkv.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

func TestEveryPhaseIsRight(t *testing.T) {
	const records, ops = 3000, 2000
	set, err := workload.NewGenerated(workload.Decimal, records+2*ops*5/100, 1, 100)
	must(t, err)
	s := open(t, &bloomkv.Options{MemtableSize: 1 << 20, MemoryBudget: 16 << 20})
	run := func(set workload.Set, p workload.Phase) {
		t.Helper()
		f, err := workload.Run(t.Context(), s, set, p, nil)
		if err != nil || f.Wrong > 0 || f.Ops == 0 {
			t.Fatalf("%+v: %d operations, %d wrong: %s, %v", p, f.Ops, f.Wrong, f.FirstWrong, err)
		}
	}
	run(set, workload.Phase{Kind: workload.Load, Records: records})
	ledger := workload.NewLedger(set, records)
	for _, letter := range []byte("abcfde") {
		mix, err := workload.YCSB(letter)
		must(t, err)
		run(set, workload.Phase{Kind: workload.Serve, Mix: mix, Ledger: ledger, Ops: ops})
		run(set, workload.Phase{Kind: workload.Reopen})
	}
	for _, p := range []workload.Phase{
		{Kind: workload.Load, Batch: 100, Workers: 4}, // the first versions again
		{Kind: workload.Load, Durable: true, Ops: 20, Workers: 2},
		{Kind: workload.Flush},
		{Kind: workload.Settle},
		{Kind: workload.Absent},
		{Kind: workload.Absent, Batch: 64},
		{Kind: workload.Present, Workers: 2},
		{Kind: workload.Present, Batch: 100, Workers: 2},
		{Kind: workload.Mixed, PutPercent: 5},
		{Kind: workload.Seek, Ops: 100},
		{Kind: workload.PutSeek, Ops: 500},
		{Kind: workload.Compact},
		{Kind: workload.Reopen},
		{Kind: workload.Absent},
		{Kind: workload.Scan},
		{Kind: workload.Pop},
		{Kind: workload.Insert, Workers: 2},
	} {
		run(set, p)
	}
}

// Several goroutines may apply batches at once, and none gets pairs of another.
func TestBatchesOfSeveralGoroutinesStayApart(t *testing.T) {
	set, err := workload.NewGenerated(workload.Random, 20_000, 1, 20)
	must(t, err)
	s := open(t, nil)
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			if _, err := workload.Run(t.Context(), s, set, workload.Phase{Kind: workload.Load, Batch: 10, Workers: 4},
				nil); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	// Each batch is empty when it is used again.
	if n := s.Metrics().Writes.Operations; n != 2*20_000 {
		t.Errorf("%d operations, want those of two loads of 20,000 pairs", n)
	}
	f, err := workload.Run(t.Context(), s, set, workload.Phase{Kind: workload.Present}, nil)
	if err != nil || f.Wrong > 0 {
		t.Errorf("%d wrong: %s, %v", f.Wrong, f.FirstWrong, err)
	}
}

func TestADeletedKeyStaysDeleted(t *testing.T) {
	s := open(t, nil)
	for range 20 { // the pool of the DB may drop a batch
		err := errors.Join(s.PutSync([]byte("first"), nil), s.Delete([]byte("first")), s.PutSync([]byte("second"), nil))
		must(t, err)
		if _, found, err := s.AppendGet(nil, []byte("first")); err != nil || found {
			t.Fatalf("a deleted key: %v, %v; the batch before put it again", found, err)
		}
	}
}

func TestPutSyncIsDurableAndPutIsNot(t *testing.T) {
	disk := vfstest.NewMem()
	// The options ask for durable writes, but Put must not wait for the disk.
	s, err := own.Open("store", &bloomkv.Options{FS: disk, Durability: bloomkv.DurabilitySync})
	must(t, err)
	must(t, errors.Join(s.PutSync([]byte("synced"), []byte("1")), s.Put([]byte("not"), []byte("2"))))
	left, err := own.Open("store", &bloomkv.Options{FS: disk.Crash(vfstest.KeepNothing)})
	must(t, err)
	for key, want := range map[string]bool{"synced": true, "not": false} {
		if value, found, err := left.AppendGet(nil, []byte(key)); err != nil || found != want {
			t.Errorf("after a crash, key %q: %q, %v, %v; want %v", key, value, found, err, want)
		}
	}
	if err := errors.Join(left.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

func TestReopenNeedsTheOptions(t *testing.T) {
	db, err := bloomkv.Open(t.TempDir(), nil)
	must(t, err)
	defer db.Close()
	if _, err := (&own.Store{DB: db}).Reopen(); err == nil {
		t.Error("a DB that Open has not opened is opened again")
	}
	s := open(t, nil)
	must(t, s.Put([]byte("key"), []byte("value")))
	took, err := s.Reopen()
	if err != nil || took <= 0 {
		t.Fatalf("%v, %v", took, err)
	}
	if _, found, err := s.AppendGet(nil, []byte("key")); err != nil || !found {
		t.Errorf("what was put before is found: %v, %v", found, err)
	}
	must(t, s.Close())
	if _, err := s.Reopen(); !errors.Is(err, bloomkv.ErrClosed) {
		t.Errorf("a closed store: %v, want %v", err, bloomkv.ErrClosed)
	}
}

func TestOpenNamesWhatIsWrong(t *testing.T) {
	if s, err := own.Open(t.TempDir(), &bloomkv.Options{FilterFPR: 2}); err == nil || s != nil {
		t.Errorf("%v, %v, want an error and no store", s, err)
	}
}
