package replica

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// recentOf returns a log that has entries with the given data in memory.
func recentOf(t *testing.T, first uint64, data ...[]byte) *guardedLog {
	t.Helper()
	l := filledLog(t, vfstest.NewMem(), 1, 0)
	t.Cleanup(func() { testkit.Must(t, l.Close()) })
	c := &guardedLog{storeLog: l, snapshots: new(snapshots), fail: func(err error) { t.Error(err) }}
	for i, d := range data {
		index := first + uint64(i)
		testkit.Must(t, c.StoreLog(&raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: d}))
	}
	return c
}

func TestTheNewestEntriesAreInMemoryWithinBounds(t *testing.T) {
	large, larger := make([]byte, newestBytes/4), make([]byte, newestBytes+1)
	for name, c := range map[string]struct {
		data [][]byte
		want int
	}{
		"none":       {nil, 0},
		"small":      {make([][]byte, newestEntries-1), newestEntries - 1},
		"many":       {make([][]byte, newestEntries+10), newestEntries},
		"large":      {[][]byte{large, large, large, large, large, large}, 4},
		"too large":  {[][]byte{large, larger}, 1},
		"large once": {[][]byte{larger, large}, 1},
	} {
		l := recentOf(t, 5, c.data...)
		if len(l.newest) != c.want {
			t.Errorf("%s: %d entries, want %d", name, len(l.newest), c.want)
		}
		for i := range c.data {
			var e raft.Log
			index := uint64(5 + i)
			if err := l.GetLog(index, &e); err != nil || e.Index != index || len(e.Data) != len(c.data[i]) {
				t.Errorf("%s: entry %d: %d, %d bytes, %v", name, index, e.Index, len(e.Data), err)
			}
		}
	}
}

func TestAnEndOfALogThatCannotBeReadIsReported(t *testing.T) {
	l := filledLog(t, vfstest.NewMem(), 1, 5)
	var got []error
	g := &guardedLog{storeLog: l, fail: func(err error) { got = append(got, err) }}
	testkit.Must(t, l.Close())
	for name, end := range map[string]func() (uint64, error){"first": g.FirstIndex, "last": g.LastIndex} {
		got = nil
		if _, err := end(); !errors.Is(err, bloomkv.ErrClosed) || len(got) != 1 {
			t.Errorf("%s index of a closed log: %v, reported are %v, want one error", name, err, got)
		}
	}
}

func TestEntriesInMemoryAreThoseOfTheLog(t *testing.T) {
	l := recentOf(t, 5, nil, nil, nil)
	if l.inMemory(4) != nil || l.inMemory(5) == nil || l.inMemory(7) == nil || l.inMemory(8) != nil {
		t.Error("want entries 5 to 7 in memory")
	}
	testkit.Must(t, l.DeleteRange(6, 7))
	for index := uint64(5); index <= 7; index++ {
		if l.inMemory(index) != nil {
			t.Errorf("entry %d is in memory after some are deleted", index)
		}
	}
	testkit.Must(t, l.StoreLog(&raft.Log{Index: 6, Term: 2, Type: raft.LogNoop}))
	testkit.Must(t, l.StoreLog(&raft.Log{Index: 9, Term: 3, Type: raft.LogNoop})) // as after a snapshot
	if l.inMemory(6) != nil || l.inMemory(9) == nil || len(l.newest) != 1 {
		t.Error("want entry 9 alone in memory")
	}
	if !l.IsMonotonic() {
		t.Error("raft must see that the log has no gap")
	}
}
