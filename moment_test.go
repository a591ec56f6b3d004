package bloomkv_test

import (
	"fmt"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/deadkeys"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// TestWhatIsIngestedIsNotTakenForDead stops an ingest after it was assigned its sequence number and before its state is
// installed. Meanwhile an iterator finds a long row of dead keys, and a snapshot has to wait.
func TestWhatIsIngestedIsNotTakenForDead(t *testing.T) {
	db := storetest.OpenTiny(t)
	for i := range 3 * deadkeys.Worth {
		if err := db.Delete(fmt.Appendf(nil, "a%03d", i)); err != nil {
			t.Fatal(err)
		}
	}
	walk := func() {
		it := db.Iter(bloomkv.IterOptions{})
		it.First()
		if err := it.Close(); err != nil {
			t.Error(err)
		}
	}
	walk() // enables the recording of dead keys, which takes effect with a write
	if err := db.Put([]byte("z"), nil); err != nil {
		t.Fatal(err)
	}
	taken := make(chan *bloomkv.Snapshot, 1)
	seq, err := db.Writer().Halt(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db.Tree().Await(func(tree.View) bool { // the tree is locked, as during the installation of ingested tables
		db.Tree().Publish(seq)
		walk()
		go func() {
			s, err := db.Snapshot()
			if err != nil {
				t.Error(err)
			}
			taken <- s
		}()
		storetest.Soon(t, "the snapshot waits", func() bool {
			return len(taken) > 0 || storetest.Waiting("(*DB).Snapshot")
		})
		if len(taken) > 0 {
			t.Error("a snapshot has the sequence number of an ingest before its state is installed")
		}
		return true
	})
	db.Writer().Resume(true)
	if n := db.Reads().DeadKeys.Len(); n > 0 {
		t.Errorf("%d ranges are recorded as dead, but an ingest may have put keys into them", n)
	}
	if err := (<-taken).Close(); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
