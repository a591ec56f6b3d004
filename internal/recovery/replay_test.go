package recovery

import (
	"errors"
	"testing"

	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A recorder is a manifest whose edit of a number fails.
type recorder struct {
	edits []*manifest.Edit
	fails int
	err   error
}

func (r *recorder) Record(e *manifest.Edit) error {
	if r.edits = append(r.edits, e); len(r.edits) == r.fails {
		return r.err
	}
	return nil
}

// TestAReplayStopsAtTheFirstFailure fails one operation of a replay of two logs. Before the first edit nothing is
// written, and logs stay until the last edit is durable.
func TestAReplayStopsAtTheFirstFailure(t *testing.T) {
	failed := errors.New("no operation")
	for _, c := range []struct {
		name          string
		edit          int // that fails
		kind          vfstest.OpKind
		file          string // of the operation that fails
		edits, tables int
	}{
		{"the first edit", 1, 0, "", 1, 0},
		{"a log", 0, vfstest.OpOpen, "000005.log", 0, 0},
		{"the new table", 0, vfstest.OpCreate, "000001.sst", 1, 0},
		{"the directory", 0, vfstest.OpSyncDir, "db", 1, 1},
		{"the second edit", 2, 0, "", 2, 1},
		{"nothing", 0, 0, "", 2, 1},
	} {
		s := newStore(t, "5 2; 6 3")
		fsys := failing(s.mem, c.kind, c.file, failed)
		m := &recorder{fails: c.edit, err: failed}
		logs := s.reader(nil)
		logs.FS = fsys
		r := Replay{
			Logs: *logs, MemtableSize: 1 << 20, Record: m.Record, Observer: new(stays),
			Env: compaction.Env{FS: fsys, Dir: "db", Numbers: new(compaction.Counter), TableSize: 1 << 20},
		}
		got, err := r.Run(t.Context(), s.logs)
		left, listErr := Survey(s.mem, "db")
		must(t, listErr)
		ok := c.name == "nothing"
		if !ok && !errors.Is(err, failed) || ok && (err != nil || got.Last != skip(s.seq)) {
			t.Errorf("%s fails: %+v, %v", c.name, got, err)
		}
		if n := len(left.LogsFrom(0)); len(m.edits) != c.edits || len(r.added) != c.tables || n == 0 != ok {
			t.Errorf("%s fails: %d edits, want %d; %d tables, want %d; %d logs stay",
				c.name, len(m.edits), c.edits, len(r.added), c.tables, n)
		}
	}
}

// TestAReplayKeepsNoMoreThanItsMemtable replays five records, each of which fills a memtable.
func TestAReplayKeepsNoMoreThanItsMemtable(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		s := newStore(t, "5 2; 6 3")
		r := Replay{
			Logs: *s.reader(nil), MemtableSize: 1, Observer: new(stays),
			Env: compaction.Env{FS: s.mem, Dir: "db", Numbers: new(compaction.Counter), TableSize: 1 << 20},
		}
		if !readOnly {
			r.Record = new(recorder).Record
		}
		got, err := r.Run(t.Context(), s.logs)
		must(t, err)
		if n := len(r.added) + len(got.Memtables); n != 5 || readOnly != (len(r.added) == 0) {
			t.Errorf("read-only %v: %d tables and %d memtables, want 5", readOnly, len(r.added), len(got.Memtables))
		}
	}
}
