package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// aloneFSM returns the fsm of a store with index 5, without raft.
func aloneFSM(t *testing.T) *fsm {
	t.Helper()
	f, err := newFSM(&Node{db: source(t, 1, 5), ended: make(chan struct{})})
	testkit.Must(t, err)
	return f
}

// commandOf returns an entry of the log with a batch.
func commandOf(t *testing.T, index uint64, key string, size int) *raft.Log {
	t.Helper()
	var b bloomkv.Batch
	b.Put([]byte(key), make([]byte, size))
	raw, err := b.MarshalBinary()
	testkit.Must(t, err)
	return &raft.Log{Index: index, Type: raft.LogCommand, Data: raw}
}

func TestCommandsThatTheStoreHasAreSkipped(t *testing.T) {
	f := aloneFSM(t)
	results := f.ApplyBatch([]*raft.Log{
		commandOf(t, 4, "four", 1),
		commandOf(t, 5, "five", 1),
		commandOf(t, 6, "six", joinedBytes),
		{Index: 7, Type: raft.LogCommand, Data: []byte("no batch")},
		commandOf(t, 8, "eight", 1),
		{Index: 9, Type: raft.LogConfiguration},
	})
	for i, result := range results {
		if failed := i == 3; (result != nil) != failed {
			t.Errorf("entry %d: %v, want an error: %v", i+4, result, failed)
		}
	}
	for key, want := range map[string]error{
		"four": bloomkv.ErrNotFound, "five": bloomkv.ErrNotFound, "six": nil, "eight": nil,
	} {
		if _, err := f.db.Get([]byte(key)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", key, err, want)
		}
	}
	if f.applied.load() != 8 || f.seen.load() != 9 {
		t.Errorf("applied %d, seen %d, want 8 and 9", f.applied.load(), f.seen.load())
	}
}

func TestTheFirstErrorOfAStoreIsTheReason(t *testing.T) {
	f := aloneFSM(t)
	f.node.end(syscall.EIO)
	f.node.end(fs.ErrClosed) // the next one is of what the first has ended
	results := f.ApplyBatch([]*raft.Log{commandOf(t, 6, "k", 1)})
	err, _ := results[0].(error)
	if !errors.Is(err, ErrUnknown) || !errors.Is(err, syscall.EIO) || errors.Is(err, fs.ErrClosed) {
		t.Errorf("a command after two errors: %v, want ErrUnknown and the first", err)
	}
	if _, err := f.Snapshot(); !errors.Is(err, syscall.EIO) {
		t.Errorf("a snapshot after two errors: %v, want the first", err)
	}
	if f.applied.load() != 5 || f.seen.load() != 0 {
		t.Errorf("applied %d, seen %d, want 5 and nothing", f.applied.load(), f.seen.load())
	}
}

// A store that fails after the first write it is given has the first of two commands only if they were not joined.
func TestCommandsAreAppliedTogetherUpToABound(t *testing.T) {
	for beyond, joined := range map[int]bool{0: true, 1: false} {
		var fails atomic.Int32 // the sync of a log that fails, and all after it
		fails.Store(math.MaxInt32)
		fsys := vfstest.NewMem()
		db, err := bloomkv.Open("db", &bloomkv.Options{FS: vfstest.NewHook(fsys, func(op vfstest.Op) error {
			if kind, _ := filename.Parse(filepath.Base(op.Name)); kind != filename.Log || op.Kind != vfstest.OpSync {
				return nil
			}
			if fails.Add(-1) < 0 {
				return syscall.EIO
			}
			return nil
		})})
		testkit.Must(t, err)
		var b bloomkv.Batch
		b.SetMark(mark(5))
		testkit.Must(t, db.Apply(&b)) // the log's head is durable, too
		fails.Store(1)
		f, err := newFSM(&Node{db: db, ended: make(chan struct{})})
		testkit.Must(t, err)
		var logs []*raft.Log
		for i, size := range []int{joinedBytes / 2, joinedBytes/2 + beyond} {
			raw, err := sized(t, size).MarshalBinary()
			testkit.Must(t, err)
			logs = append(logs, &raft.Log{Index: uint64(6 + i), Type: raft.LogCommand, Data: raw})
		}
		results := f.ApplyBatch(logs)
		if results[0] != nil || (results[1] == nil) != joined {
			t.Errorf("%d bytes beyond the bound: %v, want them joined: %v", beyond, results, joined)
		}
		_ = db.Close() // it has failed
	}
}

func TestAnEntryHasItsExtensions(t *testing.T) {
	raw := appendEntry(nil, &raft.Log{Term: 1, Extensions: []byte("ext"), Data: []byte("data")})
	for size, want := range map[uint64]string{
		0: "|extdata", 3: "ext|data", 7: "extdata|", 8: "an error", 1 << 63: "an error",
	} {
		binary.LittleEndian.PutUint64(raw[17:], size)
		var l raft.Log
		got := "an error"
		if err := parseEntry(raw, &l); err == nil {
			got = string(l.Extensions) + "|" + string(l.Data)
		}
		if got != want {
			t.Errorf("extensions of %d bytes: they and the data are %q, want %q", size, got, want)
		}
	}
	if err := parseEntry(raw[:entryHeader-1], new(raft.Log)); err == nil {
		t.Error("an entry shorter than its header: no error")
	}
}

// TestAnEntryIsReadAsItWasWritten reads entries into one that has been used.
func TestAnEntryIsReadAsItWasWritten(t *testing.T) {
	l := filledLog(t, vfstest.NewMem(), 1, 1)
	testkit.Must(t, l.StoreLogs(nil))
	at := time.Unix(7, 8)
	for index, appended := range map[uint64]time.Time{2: at, 3: {}} {
		want := raft.Log{Index: index, Term: 4, Type: raft.LogNoop, Data: []byte("data"), AppendedAt: appended}
		got := raft.Log{AppendedAt: at.Add(1)}
		testkit.Must(t, l.StoreLog(&want))
		testkit.Must(t, l.GetLog(index, &got))
		if got.Index != index || got.Term != 4 || got.Type != want.Type || !bytes.Equal(got.Data, want.Data) ||
			!got.AppendedAt.Equal(appended) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	testkit.Must(t, l.Close())
}

func TestTheVoteIsReadAsItWasWritten(t *testing.T) {
	fsys, key := vfstest.NewMem(), []byte("term")
	l := filledLog(t, fsys, 1, 1)
	if _, err := l.GetUint64(key); err == nil || err.Error() != "not found" {
		t.Errorf("what was never set: %v", err)
	}
	testkit.Must(t, errors.Join(l.SetUint64(key, 7), l.Set([]byte("short"), []byte{1}), l.Close()))
	if _, err := l.Get(key); err == nil || l.SetUint64(key, 8) == nil {
		t.Errorf("a closed log: %v, want errors", err)
	}
	l, err := openLog(t.Context(), "log", fsys)
	testkit.Must(t, err)
	if n, err := l.GetUint64(key); n != 7 || err != nil {
		t.Errorf("%d, %v, want 7", n, err)
	}
	if _, err := l.GetUint64([]byte("short")); err == nil {
		t.Error("a number of one byte: no error")
	}
	testkit.Must(t, l.Close())
}

func TestARestoreOfNoSnapshotIsAnError(t *testing.T) {
	f := aloneFSM(t)
	if err := f.Restore(io.NopCloser(strings.NewReader("short"))); err == nil || f.node.over() != nil {
		t.Errorf("%v, the store has failed with %v", err, f.node.over())
	}
}

func TestASnapshotIsOfWhatIsDurable(t *testing.T) {
	f, s := aloneFSM(t), &snapshots{fsys: vfstest.NewMem()}
	for _, c := range []struct {
		applied uint64
		want    string // of the error
	}{{5, "<nil>"}, {6, "index 5 is durable, want 6"}} {
		k := &sinkOf{of: s, next: saved{Index: c.applied}}
		if err := (snapshot{f.db, c.applied}).Persist(k); fmt.Sprint(err) != c.want || s.latest().Applied != 5 {
			t.Errorf("index %d: %v, %+v, want %s", c.applied, err, s.latest(), c.want)
		}
	}
}

func TestAStoreThatCannotBeOpenedIsAnError(t *testing.T) {
	o := Options{ID: "a", Address: "a:1", Dir: "d", FS: vfstest.NewMem(), Store: &bloomkv.Options{MemoryBudget: -1}}
	if n, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "MemoryBudget") {
		t.Errorf("%v, %v, want the error of the store", n, err)
	}
}

func TestOneCommandIsSeen(t *testing.T) {
	f := aloneFSM(t)
	if err := f.Apply(commandOf(t, 6, "k", 1)); err != nil || f.seen.load() != 6 || f.applied.load() != 6 {
		t.Errorf("%v, seen %d, applied %d, want 6", err, f.seen.load(), f.applied.load())
	}
}

// filledLog returns a log with the given entries.
func filledLog(t *testing.T, fsys vfs.FS, first, last uint64) *storeLog {
	t.Helper()
	l, err := openLog(t.Context(), "log", fsys)
	testkit.Must(t, err)
	for i := first; i <= last; i++ {
		testkit.Must(t, l.StoreLog(&raft.Log{Index: i, Term: 1, Type: raft.LogNoop}))
	}
	return l
}

func TestTheEndsOfALogAreThoseOfItsEntries(t *testing.T) {
	for _, c := range []struct{ lo, hi, first, last uint64 }{
		{1, 4, 10, 20},
		{1, 10, 11, 20},
		{11, 30, 10, 10},
		{10, 10, 11, 20},
		{20, 20, 10, 19},
		{15, 20, 10, 14},
		{10, 20, 0, 0},
		{1, 30, 0, 0},
		{1, 9, 10, 20},
		{21, 30, 10, 20},
		{31, 40, 10, 20},
	} {
		fsys := vfstest.NewMem()
		l := filledLog(t, fsys, 10, 20)
		testkit.Must(t, l.DeleteRange(c.lo, c.hi))
		for _, when := range []string{"at once", "after a restart"} {
			first, _ := l.FirstIndex()
			last, _ := l.LastIndex()
			if first != c.first || last != c.last {
				t.Errorf("%d to %d deleted, %s: the log has %d to %d, want %d to %d", c.lo, c.hi, when, first, last,
					c.first, c.last)
			}
			testkit.Must(t, l.Close())
			var err error
			l, err = openLog(t.Context(), "log", fsys)
			testkit.Must(t, err)
		}
		testkit.Must(t, l.Close())
	}
}

func TestALogHasNoGapAfterTheSnapshot(t *testing.T) {
	for _, c := range []struct {
		first, last uint64 // of term 1
		term        uint64 // of the snapshot
		want        error
		left        uint64 // the first entry that the log has then
	}{
		{21, 22, 1, nil, 21},
		{22, 23, 1, ErrOldStore, 22},
		{20, 20, 1, nil, 20},
		{10, 20, 1, nil, 10},
		{10, 19, 1, nil, 0},
		{20, 20, 2, nil, 0},
		{10, 30, 2, nil, 0},
		{21, 22, 2, nil, 21},
	} {
		f := aloneFSM(t)
		l := filledLog(t, vfstest.NewMem(), c.first, c.last)
		n := &Node{log: l, fsm: f, snapshots: &snapshots{current: saved{Index: 20, Term: c.term, Applied: 5}}}
		err := n.reconcile(t.Context())
		if left, _ := l.FirstIndex(); !errors.Is(err, c.want) || left != c.left {
			t.Errorf("a log of %d to %d after a snapshot of 20, term %d: %v, begins at %d; want %v, %d", c.first,
				c.last, c.term, err, left, c.want, c.left)
		}
		testkit.Must(t, l.Close())
	}
}

func TestSnapshotsGoForward(t *testing.T) {
	s := &snapshots{fsys: vfstest.NewMem()}
	for _, c := range []struct {
		index uint64
		saved bool
	}{{20, true}, {20, true}, {19, false}, {21, true}} {
		s.received = saved{Index: c.index}
		if err := s.commit(); (err == nil) != c.saved {
			t.Errorf("snapshot of index %d: %v, want it saved: %v", c.index, err, c.saved)
		}
		if err := s.commit(); err == nil {
			t.Errorf("snapshot of index %d: committed twice", c.index)
		}
	}
}

// A log that seemed to have no entries would let the node vote for one that lacks what was acknowledged.
func TestAnEndOfALogThatCannotBeReadIsAnError(t *testing.T) {
	mem := vfstest.NewMem()
	l := filledLog(t, mem, 1, 0)
	for index := range uint64(100) {
		testkit.Must(t, l.StoreLog(&raft.Log{Index: 1 + index, Term: 1, Data: make([]byte, 1000)}))
	}
	testkit.Must(t, errors.Join(l.db.Flush(t.Context()), l.Close()))
	var unread [2]int                         // errors for the first and for the last entry
	for at := int64(0); at < 4096; at += 32 { // each block of the table, and more
		db, err := bloomkv.Open("log", &bloomkv.Options{FS: vfstest.NewHook(mem, func(op vfstest.Op) error {
			if op.Kind == vfstest.OpReadAt && strings.HasSuffix(op.Name, ".sst") && at >= op.Offset &&
				at < op.Offset+int64(op.Size) {
				return io.ErrClosedPipe
			}
			return nil
		})})
		if err != nil {
			continue
		}
		l := &storeLog{db}
		for i, end := range []func() (uint64, error){l.FirstIndex, l.LastIndex} {
			got, err := end()
			if want := []uint64{1, 100}[i]; err == nil && got != want {
				t.Errorf("byte %d unreadable: %d without an error, want %d", at, got, want)
			}
			if err != nil {
				unread[i]++
			}
		}
		testkit.Must(t, l.Close())
	}
	if unread[0] == 0 || unread[1] == 0 {
		t.Errorf("%d errors, want some for each end", unread)
	}
}

func TestAnEntryThatIsMissingInsideOfALogIsAnError(t *testing.T) {
	l := filledLog(t, vfstest.NewMem(), 10, 20)
	testkit.Must(t, l.db.Delete(entryKey(15)))
	for index, want := range map[uint64]error{9: raft.ErrLogNotFound, 21: raft.ErrLogNotFound, 10: nil, 20: nil} {
		if err := l.GetLog(index, new(raft.Log)); !errors.Is(err, want) {
			t.Errorf("entry %d of 10 to 20: %v, want %v", index, err, want)
		}
	}
	if err := l.GetLog(15, new(raft.Log)); err == nil || errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("entry 15, which is lost: %v, want an error that raft does not expect", err)
	}
	testkit.Must(t, l.Close())
}

func TestASnapshotIsNoLongerThanItsRecord(t *testing.T) {
	k := &sinkOf{of: &snapshots{fsys: vfstest.NewMem()}, next: saved{Index: 1}}
	half := make([]byte, recordSize/2)
	for i, b := range [][]byte{half, half} {
		if n, err := k.Write(b); n != len(b) || err != nil {
			t.Errorf("part %d: %d bytes, %v", i, n, err)
		}
	}
	if _, err := k.Write([]byte{0}); err == nil {
		t.Error("a byte more than a record has: no error")
	}
}

func TestASnapshotEndsOnce(t *testing.T) {
	s := &snapshots{fsys: vfstest.NewMem()}
	k := &sinkOf{of: s, next: saved{Index: 1}, durable: true}
	_, err := k.Write(encodeRecord(1))
	testkit.Must(t, errors.Join(err, k.Close(), s.save(saved{Index: 2})))
	canceled := &sinkOf{of: s, next: saved{Index: 3}, durable: true}
	_, err = canceled.Write(encodeRecord(1))
	testkit.Must(t, errors.Join(err, canceled.Cancel()))
	if err := errors.Join(k.Close(), canceled.Close()); err != nil || s.latest().Index != 2 {
		t.Errorf("after ends of two that have ended: %v, %+v, want that of index 2", err, s.latest())
	}
}

func TestOptionsThatAreMissingAreNamed(t *testing.T) {
	for _, o := range []Options{{Address: "a:1", Dir: "d"}, {ID: "a", Dir: "d"}, {ID: "a", Address: "a:1"}} {
		if _, err := o.withDefaults(); err == nil || !strings.Contains(err.Error(), "want all") {
			t.Errorf("%q, %q, %q: %v, want an error", o.ID, o.Address, o.Dir, err)
		}
	}
}

func TestOptionsThatAreSetStay(t *testing.T) {
	store := &bloomkv.Options{MemoryBudget: 1 << 30}
	o := Options{ID: "a", Address: "a:1", Dir: "d", Store: store, Election: 5, Snapshot: 6, Trailing: 7, Check: 8}
	if d, err := o.withDefaults(); err != nil || d.Store != store || d.Election != 5 || d.Snapshot != 6 ||
		d.Trailing != 7 || d.Check != 8 {
		t.Errorf("%+v, %v, want what was set", d, err)
	}
	o = Options{ID: "a", Address: "a:1", Dir: "d"}
	if d, err := o.withDefaults(); err != nil || d.Store == nil || d.FS == nil || d.Logger == nil ||
		d.Election != time.Second || d.Snapshot != 8192 || d.Trailing != 10240 || d.Check != 10*time.Second {
		t.Errorf("%+v, %v, want the defaults", d, err)
	}
}

func TestTheMessagesOfRaftKeepTheirLevels(t *testing.T) {
	var got bytes.Buffer
	l := raftLogger(slog.New(slog.NewTextHandler(&got, nil)))
	l.Trace("none")
	l.Debug("none")
	l.Info("one")
	l.Warn("two")
	l.Error("three")
	for i, want := range []string{`INFO msg="raft: one"`, `WARN msg="raft: two"`, `ERROR msg="raft: three"`} {
		if line, _ := got.ReadString('\n'); !strings.Contains(line, want) {
			t.Errorf("message %d: %q, want %s", i, line, want)
		}
	}
}

func TestTheFirstErrorOfALogIsReported(t *testing.T) {
	var got []error
	g := guardedLog{fail: func(err error) { got = append(got, err) }}
	if err := errors.Join(g.check(nil), g.check(io.EOF)); !errors.Is(err, io.EOF) || len(got) != 1 {
		t.Errorf("%v, reported are %v, want one error", err, got)
	}
}

// raft's transport listens in a goroutine of its own, which tries for ever until the transport is closed.
func TestAnOpenThatFailsLeavesNoGoroutine(t *testing.T) {
	o := Options{ID: "a", Address: "127.0.0.1:1", Dir: t.TempDir()}
	l, err := openLog(t.Context(), filepath.Join(o.Dir, "log"), vfs.OS)
	testkit.Must(t, err)
	testkit.Must(t, errors.Join(l.StoreLog(&raft.Log{Index: 1, Term: 1, Type: 77}), l.Close()))
	if _, err := Open(t.Context(), o); err == nil {
		t.Fatal("no error")
	}
	stacks := make([]byte, 1<<20)
	for end := time.Now().Add(testkit.Patience); ; time.Sleep(10 * time.Millisecond) {
		all := stacks[:runtime.Stack(stacks, true)]
		if !bytes.Contains(all, []byte("NetworkTransport).listen")) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("a goroutine still listens:\n%s", all)
		}
	}
}

// A node that was down gets many commands in one message, each as large as a batch may be.
func TestALogTakesEntriesThatAreLargerThanABatchTogether(t *testing.T) {
	l := filledLog(t, vfstest.NewMem(), 1, 1)
	data := make([]byte, MaxBatchSize)
	var entries []*raft.Log
	for i := range uint64(bloomkv.MaxBatchSize/MaxBatchSize + 1) {
		entries = append(entries, &raft.Log{Index: i + 2, Term: 1, Type: raft.LogCommand, Data: data})
	}
	testkit.Must(t, l.StoreLogs(entries))
	want := entries[len(entries)-1].Index
	if last, err := l.LastIndex(); last != want || err != nil {
		t.Errorf("the log ends at %d, %v, want %d", last, err, want)
	}
	var got raft.Log
	if err := l.GetLog(want, &got); err != nil || len(got.Data) != len(data) {
		t.Errorf("the last entry has %d bytes, %v, want %d", len(got.Data), err, len(data))
	}
	testkit.Must(t, l.Close())
}
