package tests

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestACheckpointKeepsTheTablesThatItHasYetToTake stops a checkpoint before a table and replaces all tables of the
// store.
func TestACheckpointKeepsTheTablesThatItHasYetToTake(t *testing.T) {
	for _, copies := range []bool{false, true} {
		for stop := range 3 {
			g := storetest.NewGate()
			n := 0
			mem := vfstest.NewMem()
			db, want := grown(t, vfstest.NewHook(mem, func(op vfstest.Op) error {
				if op.Kind == vfstest.OpLink && isOfCopy(op) {
					if n++; n == stop+1 {
						g.Pass()
					}
					if copies {
						return errors.ErrUnsupported
					}
				}
				return nil
			}))
			enlarge(t, db, want)
			done := make(chan error, 1)
			go func() { done <- db.Checkpoint(t.Context(), "copy") }()
			g.Wait(t, "the table")
			for round := range 3 {
				for i := range 400 {
					must(t, db.Put(fmt.Appendf(nil, "k%03d", i), fmt.Append(nil, round)))
				}
				must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			}
			removeObsolete(t, db)
			close(g.Open)
			if err := <-done; err != nil {
				t.Fatalf("stopped at table %d, copies: %v: %v", stop, copies, err)
			}
			if err := errors.Join(holds(mem, "copy", want), db.Close()); err != nil {
				t.Errorf("stopped at table %d, copies: %v: %v", stop, copies, err)
			}
		}
	}
}

// TestACheckpointTakesItsStateBetweenTwoEdits begins a checkpoint while a compaction's edit is under way, and removes
// the tables that the compaction replaced before the checkpoint links one. The manifest's counts and the state that
// keeps the tables must be of one moment.
func TestACheckpointTakesItsStateBetweenTwoEdits(t *testing.T) {
	enter, edit, take := storetest.NewGate(), storetest.NewGate(), storetest.NewGate()
	var editing atomic.Bool
	mem := vfstest.NewMem()
	db, want := grown(t, vfstest.NewHook(mem, func(op vfstest.Op) error {
		switch {
		case op.Kind == vfstest.OpLock && op.Name == "copy/"+filename.LockName:
			enter.Pass()
		case op.Kind == vfstest.OpLink && isOfCopy(op):
			take.Pass()
		case op.Kind == vfstest.OpSync && strings.Contains(op.Name, "MANIFEST") && editing.Load() &&
			storetest.Inside(storetest.CompactLoop):
			edit.Pass()
		}
		return nil
	}))
	made, compacted := make(chan error, 1), make(chan error, 1)
	go func() { made <- db.Checkpoint(t.Context(), "copy") }()
	enter.Wait(t, "the checkpoint's directory")
	for k, v := range want { // something to compact, which may else be done already
		must(t, db.Put([]byte(k), []byte(v)))
		break
	}
	editing.Store(true)
	go func() { compacted <- db.Compact(t.Context(), bloomkv.CompactOptions{}) }()
	edit.Wait(t, "the compaction's edit")
	close(enter.Open)
	storetest.Soon(t, "the checkpoint waits for the edit, or takes a table", func() bool {
		return len(take.Come) > 0 || storetest.Waiting(storetest.CopyTo)
	})
	if len(take.Come) > 0 {
		t.Error("a table is taken while an edit is under way")
	}
	close(edit.Open)
	must(t, <-compacted)
	take.Wait(t, "the first table of the checkpoint, after it took its state")
	removeObsolete(t, db)
	close(take.Open)
	must(t, <-made)
	if err := errors.Join(holds(mem, "copy", want), db.Close()); err != nil {
		t.Error(err)
	}
}

// removeObsolete waits until the store has released the states that were replaced, and flushes, which removes the files
// that no state needs.
func removeObsolete(t *testing.T, db *bloomkv.DB) {
	t.Helper()
	storetest.Soon(t, "replaced states are released", func() bool {
		return storetest.Blocked(storetest.ReleaseStates, "select")
	})
	for range 2 {
		must(t, errors.Join(db.Put([]byte("k"), nil), db.Flush(t.Context())))
	}
}

// TestAScanKeepsItsTablesOnTheDisk stops a scan in the middle and replaces all tables that it reads.
func TestAScanKeepsItsTablesOnTheDisk(t *testing.T) {
	mem := vfstest.NewMem()
	db, want := grown(t, mem)
	got := map[string]string{}
	for kv, err := range db.Scan(bloomkv.IterOptions{}) {
		must(t, err)
		if len(got) == 3 {
			for i := range 400 {
				must(t, db.Put(fmt.Appendf(nil, "k%03d", i), []byte(strings.Repeat("n", 50))))
			}
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
			removeObsolete(t, db)
			if obsolete := db.Metrics().Files.Obsolete; obsolete == 0 {
				t.Error("no file is kept for the scan")
			}
		}
		got[string(kv.Key)] = string(kv.Value)
	}
	if d := storetest.Diff(got, want); d != "" {
		t.Errorf("the scan: %s", d)
	}
	storetest.AtRest(t, db, mem, "db")
	if obsolete := db.Metrics().Files.Obsolete; obsolete != 0 {
		t.Errorf("%d obsolete files are kept after the scan", obsolete)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
