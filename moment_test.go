package bloomkv

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/memtable"
)

// TestAnIteratorHasAllWritesUpToItsMoment begins iterators while memtables are exchanged: what was written before the sequence
// that one reads at is in the state that it reads.
func TestAnIteratorHasAllWritesUpToItsMoment(t *testing.T) {
	db := openTiny(t)
	k := []byte("k")
	h := db.hash(k).Mixed
	put := func() {
		if err := db.Put(k, nil); err != nil {
			t.Error(err)
		}
	}
	put()
	var stop atomic.Bool
	var missing atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for !stop.Load() {
				it := db.Iter(IterOptions{})
				if _, newest, ok := it.c.state.mem.Get(k, h, ikey.MaxSeq); !ok || newest.Seq() < it.c.seq {
					missing.Add(1)
				}
				if err := it.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); put() {
		m := memtable.New(nil, 0, 0)
		m.Add(k, h, db.lastSeq, ikey.Set, nil)
		db.commitMu.Lock()
		db.swap(func(s *state) { s.mem = m })
		db.commitMu.Unlock()
	}
	stop.Store(true)
	wg.Wait()
	if n := missing.Load(); n > 0 {
		t.Errorf("%d iterators did not know a write that they should see", n)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestWhatIsIngestedIsNotTakenForDead stops an ingest between its sequence and its state, where an iterator finds a long row
// of dead keys, and a snapshot has to wait.
func TestWhatIsIngestedIsNotTakenForDead(t *testing.T) {
	db := openTiny(t)
	for i := range 3 * deadWorth {
		if err := db.Delete(fmt.Appendf(nil, "a%03d", i)); err != nil {
			t.Fatal(err)
		}
	}
	walk := func() {
		it := db.Iter(IterOptions{})
		it.First()
		if err := it.Close(); err != nil {
			t.Error(err)
		}
	}
	walk() // turns the notes on, which need a write
	if err := db.Put([]byte("z"), nil); err != nil {
		t.Fatal(err)
	}
	taken := make(chan *Snapshot, 1)
	db.commitMu.Lock()
	seq := db.lastSeq + 1
	db.deadKeys.ingested(seq)
	db.swap(func(*state) { // as takeIn's install
		db.lastSeq = seq
		db.visible.Store(uint64(seq))
		walk()
		go func() {
			s, err := db.Snapshot()
			if err != nil {
				t.Error(err)
			}
			taken <- s
		}()
		time.Sleep(20 * time.Millisecond)
		if len(taken) > 0 {
			t.Error("a snapshot has the sequence of an ingest, before there is a state with it")
		}
	})
	db.commitMu.Unlock()
	if all := db.deadKeys.ranges.Load(); all != nil && len(*all) > 0 {
		t.Errorf("%d stretches are dead that an ingest may have put keys into", len(*all))
	}
	if err := (<-taken).Close(); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestASeekBehindTheRangeForgetsAnError seeks past both ends after a move that failed.
func TestASeekBehindTheRangeForgetsAnError(t *testing.T) {
	db := openTiny(t)
	it := db.Iter(IterOptions{Lower: []byte("k"), Upper: []byte("m")})
	for _, seek := range []func() bool{
		func() bool { return it.SeekGE([]byte("z")) },
		func() bool { return it.SeekLT([]byte("a")) },
	} {
		it.c.at, it.c.err = broken, ErrCorruption
		if seek() || it.Err() != nil {
			t.Errorf("Err: %v, want none", it.Err())
		}
	}
	if err := it.Close(); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
