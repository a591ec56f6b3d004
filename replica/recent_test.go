package replica

import (
	"testing"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// recentOf returns a log that has entries with the given data in memory.
func recentOf(t *testing.T, first uint64, data ...[]byte) *recentLog {
	t.Helper()
	l := filledLog(t, vfstest.NewMem(), 1, 0)
	t.Cleanup(func() { testkit.Must(t, l.Close()) })
	c := &recentLog{guardedLog: guardedLog{l, new(snapshots), func(err error) { t.Error(err) }}}
	for i, d := range data {
		index := first + uint64(i)
		testkit.Must(t, c.StoreLog(&raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: d}))
	}
	return c
}

func TestTheNewestEntriesAreInMemoryWithinBounds(t *testing.T) {
	large, larger := make([]byte, recentBytes/4), make([]byte, recentBytes+1)
	for name, c := range map[string]struct {
		data [][]byte
		want int
	}{
		"none":       {nil, 0},
		"small":      {make([][]byte, recentEntries-1), recentEntries - 1},
		"many":       {make([][]byte, recentEntries+10), recentEntries},
		"large":      {[][]byte{large, large, large, large, large, large}, 4},
		"too large":  {[][]byte{large, larger}, 1},
		"large once": {[][]byte{larger, large}, 1},
	} {
		l := recentOf(t, 5, c.data...)
		bytes := 0
		for _, e := range l.entries {
			bytes += len(e.Data)
		}
		if len(l.entries) != c.want || l.bytes != bytes {
			t.Errorf("%s: %d entries, %d bytes counted, want %d and %d", name, len(l.entries), l.bytes, c.want, bytes)
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

func TestEntriesInMemoryAreThoseOfTheLog(t *testing.T) {
	l := recentOf(t, 5, nil, nil, nil)
	if l.recent(4) != nil || l.recent(5) == nil || l.recent(7) == nil || l.recent(8) != nil {
		t.Error("want entries 5 to 7 in memory")
	}
	testkit.Must(t, l.DeleteRange(6, 7))
	for index := uint64(5); index <= 7; index++ {
		if l.recent(index) != nil {
			t.Errorf("entry %d is in memory after some are deleted", index)
		}
	}
	testkit.Must(t, l.StoreLog(&raft.Log{Index: 6, Term: 2, Type: raft.LogNoop}))
	testkit.Must(t, l.StoreLog(&raft.Log{Index: 9, Term: 3, Type: raft.LogNoop})) // as after a snapshot
	if l.recent(6) != nil || l.recent(9) == nil || l.bytes != 0 {
		t.Error("want entry 9 alone in memory")
	}
	if !l.IsMonotonic() {
		t.Error("raft must see that the log has no gap")
	}
}
