package recovery

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
)

// A logBuilder writes logs as a store does.
type logBuilder struct {
	t    *testing.T
	mem  *vfs.Mem
	seq  ikey.Seq         // the last that was written
	ends map[uint64]int64 // of the logs, with their numbers
}

func newLogs(t *testing.T) *logBuilder {
	t.Helper()
	return &logBuilder{t, storeOf(t), 100, map[uint64]int64{}}
}

// log writes one log of n records of two operations. Where older is true all but the first record say that the older
// logs are durable; where durable is true all but the last were synced.
func (b *logBuilder) log(number uint64, n int, older, durable bool) {
	b.t.Helper()
	f, err := b.mem.Create(filename.Make("db", filename.Log, number))
	if err != nil {
		b.t.Fatal(err)
	}
	w, err := wal.NewWriter(f, number, number*77)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range n {
		if older && i > 0 {
			w.SetOlderDurable()
		}
		if durable {
			err = w.Sync()
		}
		record := batch.AppendRecordHeader(make([]byte, wal.HeaderSize), b.seq+1, 2)
		record = batch.AppendOp(record, ikey.Set, fmt.Append(nil, b.seq+1), []byte("value"))
		record = batch.AppendOp(record, ikey.Delete, fmt.Append(nil, b.seq+2), nil)
		b.seq += 2
		if err := errors.Join(err, w.Append(record)); err != nil {
			b.t.Fatal(err)
		}
	}
	b.ends[number] = w.Size()
	if err := w.Close(); err != nil {
		b.t.Fatal(err)
	}
}

// cut takes the last record off the end of a log.
func (b *logBuilder) cut(number uint64) {
	b.t.Helper()
	b.change(number, func(raw []byte) []byte { return raw[:b.ends[number]-lastRecord] })
}

func (b *logBuilder) change(number uint64, change func([]byte) []byte) {
	b.t.Helper()
	name := filename.Make("db", filename.Log, number)
	raw, err := vfs.ReadFile(b.mem, name, 1<<20)
	if err == nil {
		err = b.mem.Remove(name)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	put(b.t, b.mem, name, string(change(raw)))
}

func (b *logBuilder) logs(mark *manifest.LogMark) *Logs {
	return &Logs{FS: b.mem, Dir: "db", Mark: mark, Last: 100}
}

const lastRecord = 40 // bytes that are less than a record, so that taking them off loses one

// TestLogsAreJudgedByWhatSaysThatTheyWereDurable makes two or three logs, of which one lost its end. What says that its
// end was durable is the manifest, or a younger log, or nobody: then what follows does not count, and opening goes on.
func TestLogsAreJudgedByWhatSaysThatTheyWereDurable(t *testing.T) {
	type mark = manifest.LogMark
	names := func(number uint64) func(*logBuilder) *mark {
		return func(*logBuilder) *mark { return &mark{Number: number} }
	}
	synced := func(number uint64, beyond int64) func(*logBuilder) *mark { // its end, and so many bytes more
		return func(b *logBuilder) *mark { return &mark{Number: number, Synced: b.ends[number] + beyond} }
	}
	for _, tt := range []struct {
		name    string
		make    func(b *logBuilder)
		logs    []uint64
		mark    func(b *logBuilder) *mark
		counted int
		gap     bool
		damage  string // in the error
	}{
		{
			name: "whole logs",
			make: func(b *logBuilder) { b.log(5, 3, false, true); b.log(6, 3, true, true) },
			logs: []uint64{5, 6}, counted: 2,
		},
		{name: "no log", make: func(*logBuilder) {}, logs: nil, counted: 0},
		{
			name: "an empty last log",
			make: func(b *logBuilder) { b.log(5, 3, false, true); b.log(6, 0, false, false) },
			logs: []uint64{5, 6}, counted: 2,
		},
		{
			name: "the only log is torn", make: func(b *logBuilder) { b.log(5, 3, false, false); b.cut(5) },
			logs: []uint64{5}, counted: 1, gap: true,
		},
		{
			name: "an older log is torn, and nobody says that it was durable",
			make: func(b *logBuilder) { b.log(5, 3, false, false); b.cut(5); b.log(6, 3, false, false) },
			logs: []uint64{5, 6}, counted: 1, gap: true,
		},
		{
			name: "an older log is torn, and the younger says that it was durable",
			make: func(b *logBuilder) { b.log(5, 3, false, false); b.cut(5); b.log(6, 3, true, false) },
			logs: []uint64{5, 6}, damage: "yet all before 000006.log was durable",
		},
		{
			name: "an older log is torn, and the one after next says that it was durable",
			make: func(b *logBuilder) {
				b.log(5, 3, false, false)
				b.cut(5)
				b.log(6, 3, false, false)
				b.log(7, 3, true, false)
			},
			logs: []uint64{5, 6, 7}, damage: "yet all before 000007.log was durable",
		},
		{
			name: "an older log is torn, and the manifest names the younger",
			make: func(b *logBuilder) { b.log(5, 3, false, false); b.cut(5); b.log(6, 3, false, false) },
			logs: []uint64{5, 6}, mark: names(6), damage: "yet all before 000006.log was durable",
		},
		{
			name: "an older log is torn, and the manifest names the one after next",
			make: func(b *logBuilder) {
				b.log(5, 3, false, false)
				b.cut(5)
				b.log(6, 3, false, false)
				b.log(7, 1, false, false)
			},
			logs: []uint64{5, 6, 7}, mark: names(7), damage: "yet all before 000006.log was durable",
		},
		{
			name: "an older log is torn, and the manifest names itself",
			make: func(b *logBuilder) { b.log(5, 3, false, false); b.cut(5); b.log(6, 3, false, false) },
			logs: []uint64{5, 6}, mark: names(5), counted: 1, gap: true,
		},
		{
			name: "an older log is missing",
			make: func(b *logBuilder) { b.log(5, 3, false, false); b.log(6, 3, false, false); b.log(7, 3, false, false) },
			logs: []uint64{5, 7}, counted: 1, gap: true,
		},
		{
			name: "an older log is missing, and the younger says that it was durable",
			make: func(b *logBuilder) { b.log(5, 3, false, false); b.log(6, 3, false, false); b.log(7, 3, true, false) },
			logs: []uint64{5, 7}, damage: "what comes before this log is missing; yet all before 000007.log",
		},
		{
			name: "an older log is missing, and the manifest names the younger",
			make: func(b *logBuilder) { b.log(5, 3, false, false); b.log(6, 3, false, false); b.log(7, 3, false, false) },
			logs: []uint64{5, 7}, mark: names(7), damage: "yet all before 000007.log",
		},
		{
			name: "the log is as long as the manifest knows", make: func(b *logBuilder) { b.log(5, 3, false, false) },
			logs: []uint64{5}, mark: synced(5, 0), counted: 1,
		},
		{
			name: "the log is a byte shorter than the manifest knows",
			make: func(b *logBuilder) { b.log(5, 3, false, false) },
			logs: []uint64{5}, mark: synced(5, 1), damage: "ends here, want at least",
		},
		{
			name: "the log is torn where the manifest knows it to be durable",
			make: func(b *logBuilder) { b.log(5, 3, false, false); b.cut(5) },
			logs: []uint64{5}, mark: synced(5, 0), damage: "ends here, want at least",
		},
		{
			name: "what the manifest knows is of another log",
			make: func(b *logBuilder) { b.log(5, 3, false, false); b.log(6, 9, false, false) },
			logs: []uint64{5, 6}, mark: synced(6, 0), counted: 2,
		},
		{
			name: "a record of the middle is lost", make: func(b *logBuilder) {
				b.log(5, 5, false, true)
				b.change(5, func(raw []byte) []byte { raw[90] ^= 1; return raw })
			},
			logs: []uint64{5}, damage: "000005.log",
		},
		{
			name: "an older log lost its end without a trace",
			make: func(b *logBuilder) { b.log(5, 1, false, false); b.seq++; b.log(6, 1, false, false) },
			logs: []uint64{5, 6}, counted: 1, gap: true,
		},
		{
			name: "sequence numbers go back",
			make: func(b *logBuilder) { b.log(5, 3, false, false); b.seq -= 2; b.log(6, 3, false, false) },
			logs: []uint64{5, 6}, damage: "sequence numbers are not continuous",
		},
		{
			name: "a younger log cannot be read", make: func(b *logBuilder) {
				b.log(5, 3, false, false)
				b.cut(5)
				b.log(6, 5, false, true)
				b.change(6, func(raw []byte) []byte { raw[90] ^= 1; return raw })
			},
			logs: []uint64{5, 6}, damage: "000006.log",
		},
	} {
		b := newLogs(t)
		tt.make(b)
		var m *mark
		if tt.mark != nil {
			m = tt.mark(b)
		}
		l := b.logs(m)
		counted, gap, err := l.Judge(tt.logs)
		switch {
		case tt.damage != "" && !isDamage(err, tt.damage):
			t.Errorf("%s: %v, want damage: %s", tt.name, err, tt.damage)
		case tt.damage == "" && (err != nil || counted != tt.counted || (gap != nil) != tt.gap):
			t.Errorf("%s: %d count, gap %v, %v; want %d, a gap: %v", tt.name, counted, gap, err, tt.counted, tt.gap)
		}
		if l.Last != 100 {
			t.Errorf("%s: the last sequence is %d after it, want what it was", tt.name, l.Last)
		}
	}
	b := newLogs(t)
	if _, _, err := b.logs(nil).Judge([]uint64{5}); err == nil {
		t.Error("a log that cannot be opened was judged")
	}
}

func TestReadingLogsCallsForEachOperationInOrder(t *testing.T) {
	b := newLogs(t)
	b.log(5, 3, false, false)
	b.log(6, 2, false, false)
	l := b.logs(nil)
	var seqs []ikey.Seq
	after := 0
	for _, n := range []uint64{5, 6} {
		res, err := l.Read(n, func(seq ikey.Seq, kind ikey.Kind, key, value []byte) {
			if string(key) != fmt.Sprint(seq) || (kind == ikey.Set) != (string(value) == "value") {
				t.Errorf("sequence %d: %v of %q, %q", seq, kind, key, value)
			}
			seqs = append(seqs, seq)
		}, func() error {
			after++
			if want := l.Last; seqs[len(seqs)-1] != want {
				t.Errorf("after a record that ends at %d, Last is %d", seqs[len(seqs)-1], want)
			}
			return nil
		})
		if err != nil || res.End != b.ends[n] {
			t.Errorf("log %d: %+v, %v, want the end %d", n, res, err, b.ends[n])
		}
	}
	var want []ikey.Seq
	for s := ikey.Seq(101); s <= 110; s++ {
		want = append(want, s)
	}
	if !slices.Equal(seqs, want) || after != 5 || l.Records != 5 || l.Last != 110 {
		t.Errorf("sequences %v after %d records (%d), last %d; want %v, 5, 110", seqs, after, l.Records, l.Last, want)
	}

	full := errors.New("full")
	l = b.logs(nil)
	calls := 0
	_, err := l.Read(5, func(ikey.Seq, ikey.Kind, []byte, []byte) { calls++ }, func() error { return full })
	if !errors.Is(err, full) || calls != 2 || l.Records != 1 {
		t.Errorf("%v after %d operations and %d records, want the error after the first record", err, calls, l.Records)
	}
}

// TestASequenceThatJumpsInsideALogIsDamage writes records that are whole, and whose numbers do not follow on.
func TestASequenceThatJumpsInsideALogIsDamage(t *testing.T) {
	b := newLogs(t)
	f, err := b.mem.Create(filename.Make("db", filename.Log, 5))
	if err != nil {
		t.Fatal(err)
	}
	w, err := wal.NewWriter(f, 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, first := range []ikey.Seq{101, 103} {
		record := batch.AppendRecordHeader(make([]byte, wal.HeaderSize), first, 1)
		if err := w.Append(batch.AppendOp(record, ikey.Delete, nil, nil)); err != nil {
			t.Fatal(err)
		}
	}
	malformed := batch.AppendRecordHeader(make([]byte, wal.HeaderSize), 102, 2)
	if err := w.Append(batch.AppendOp(malformed, ikey.Delete, nil, nil)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.logs(nil).Judge([]uint64{5}); !isDamage(err, "sequence 103, want 102") {
		t.Errorf("a jump: %v", err)
	}
	l := b.logs(nil)
	l.Last = 102 // the first record is one of the past
	if _, _, err := l.Judge([]uint64{5}); !isDamage(err, "sequence 101, want 103") {
		t.Errorf("a log that begins in the past: %v", err)
	}
}

// TestLogsAreClosedHoweverReadingEnds counts what is open: of logs that are read, torn, damaged, missing, or left in
// the middle.
func TestLogsAreClosedHoweverReadingEnds(t *testing.T) {
	b := newLogs(t)
	b.log(5, 3, false, true)
	b.log(6, 3, false, false)
	b.cut(6)
	b.log(7, 5, false, true)
	b.change(7, func(raw []byte) []byte { raw[90] ^= 1; return raw })
	open := 0
	failing := false
	ioError := errors.New("input/output error")
	l := b.logs(nil)
	l.FS = vfs.NewHook(b.mem, func(op vfs.Op) error {
		switch op.Kind {
		case vfs.OpOpen:
			open++
		case vfs.OpClose:
			open--
			if failing {
				return ioError
			}
		case vfs.OpReadAt:
			if failing {
				return ioError
			}
		default:
		}
		return nil
	})
	for _, logs := range [][]uint64{{5}, {5, 6}, {5, 6, 7}, {7}} {
		_, _, _ = l.Judge(logs)
		if open != 0 {
			t.Errorf("logs %v: %d stay open", logs, open)
		}
	}
	stop := errors.New("stop")
	_, err := l.Read(5, func(ikey.Seq, ikey.Kind, []byte, []byte) {}, func() error { return stop })
	if !errors.Is(err, stop) || open != 0 {
		t.Errorf("stopped: %v, %d stay open", err, open)
	}
	failing = true
	if _, _, err := l.Judge([]uint64{5}); !errors.Is(err, ioError) || open != 0 {
		t.Errorf("a log that cannot be read: %v, %d stay open", err, open)
	}
}
