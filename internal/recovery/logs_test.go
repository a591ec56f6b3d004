package recovery

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

var must = testkit.Must

const (
	lastSeq    = ikey.Seq(100)   // of the manifest
	headerSize = wal.FirstRecord // of a log
	recordSize = 52              // of a record of two operations, each with a key of three digits

	firstPayload = headerSize + wal.HeaderSize // offset of the first payload, which has the sequence number
)

// A store is a directory with logs.
type store struct {
	t    *testing.T
	mem  *vfstest.Mem
	seq  ikey.Seq // the last that was written
	logs []uint64 // ascending
}

// newStore writes logs as a store does. The description "5 3 cut; 6 2 older" means: log 5 has three records of two
// operations, and is then cut; log 6 has two. The words are:
//
//	synced    all records except the last are synced, and the last promises them
//	older     all records except the first promise that older logs are durable
//	cut       the last record is incomplete
//	empty     the log is then cut to 0 bytes
//	flipped   a bit of the second record is flipped
//	absent    the log is then removed
//	jump      one sequence number before the log is not used
//	back      the log repeats the last two sequence numbers
func newStore(t *testing.T, logs string) *store {
	t.Helper()
	s := &store{t: t, mem: storeOf(t), seq: lastSeq}
	for description := range strings.SplitSeq(logs, ";") {
		words := strings.Fields(description)
		if len(words) == 0 {
			continue
		}
		number, err := strconv.ParseUint(words[0], 10, 64)
		must(t, err)
		records, err := strconv.Atoi(words[1])
		must(t, err)
		is := func(word string) bool { return slices.Contains(words[2:], word) }
		if is("jump") {
			s.seq++
		}
		if is("back") {
			s.seq -= 2
		}
		s.write(number, records, is("older"), is("synced"))
		size := headerSize + records*recordSize
		s.change(number, func(raw []byte) []byte {
			if len(raw) != size {
				t.Fatalf("log %d has %d bytes, want %d", number, len(raw), size)
			}
			if is("cut") {
				raw = raw[:size-1]
			}
			if is("empty") {
				raw = raw[:0]
			}
			if is("flipped") {
				raw[headerSize+recordSize+wal.HeaderSize] ^= 1
			}
			return raw
		})
		if is("absent") {
			must(t, s.mem.Remove(filename.Make("db", filename.Log, number)))
			continue
		}
		s.logs = append(s.logs, number)
	}
	return s
}

func (s *store) write(number uint64, records int, older, synced bool) {
	s.t.Helper()
	f, err := s.mem.Create(filename.Make("db", filename.Log, number))
	must(s.t, err)
	w, err := wal.NewWriter(f, number, number*77)
	must(s.t, err)
	for i := range records {
		if older && i > 0 {
			w.SetOlderDurable()
		}
		if synced {
			err = w.Sync()
		}
		record := batch.AppendRecordHeader(make([]byte, wal.HeaderSize), s.seq+1, 2)
		record = batch.AppendOp(record, ikey.Set, fmt.Append(nil, s.seq+1), []byte("value"))
		record = batch.AppendOp(record, ikey.Delete, fmt.Append(nil, s.seq+2), nil)
		s.seq += 2
		must(s.t, errors.Join(err, w.Append(record)))
	}
	must(s.t, w.Close())
}

// change rewrites a log.
func (s *store) change(number uint64, change func([]byte) []byte) {
	s.t.Helper()
	name := filename.Make("db", filename.Log, number)
	raw, err := vfs.ReadFile(s.mem, name, 1<<20)
	if err == nil {
		err = s.mem.Remove(name)
	}
	must(s.t, err)
	put(s.t, s.mem, name, string(change(raw)))
}

func (s *store) reader(mark *manifest.LogMark) *Logs {
	return &Logs{FS: s.mem, Dir: "db", Mark: mark, Last: lastSeq}
}

// end returns the size of a log with that number of records.
func end(records int) int64 { return int64(headerSize + records*recordSize) }

// address returns what the text of damage in log 5 begins with.
func address(offset int64) string {
	return fmt.Sprintf("000005.log: offset %d: ", offset)
}

// TestLogsAreJudgedByThePromises loses parts of logs. If the manifest or a younger log promises that they were durable,
// that is damage. Otherwise the logs before the gap count.
func TestLogsAreJudgedByThePromises(t *testing.T) {
	testkit.Script(t, "testdata/logs.txt", func(t *testing.T, input string) string {
		logs, named, _ := strings.Cut(input, "\nnamed ")
		var mark *manifest.LogMark
		if named != "" {
			mark = &manifest.LogMark{}
			_, err := fmt.Sscan(named+" 0", &mark.Number, &mark.Synced)
			must(t, err)
		}
		s := newStore(t, logs)
		l := s.reader(mark)
		counted, gap, err := l.Judge(s.logs)
		if l.Last != lastSeq {
			t.Errorf("the last sequence is %d afterwards, want %d as before", l.Last, lastSeq)
		}
		switch end := cmp.Or(err, gap); {
		case end == nil:
			return strconv.Itoa(counted)
		case !errors.Is(end, corrupt.Err):
			return fmt.Sprintf("no damage: %v", end)
		case err != nil:
			return fmt.Sprintf("damage: %v", end)
		default:
			return fmt.Sprintf("%d, then a gap: %v", counted, end)
		}
	})
}

func TestReadingLogsCallsForEachOperationInOrder(t *testing.T) {
	s := newStore(t, "5 3; 6 2")
	l := s.reader(nil)
	var seqs []ikey.Seq
	after := 0
	for i, number := range s.logs {
		res, err := l.Read(number, func(seq ikey.Seq, kind ikey.Kind, key, value []byte) {
			if string(key) != fmt.Sprint(seq) || (kind == ikey.Set) != (string(value) == "value") {
				t.Errorf("sequence %d: %v of %q, %q", seq, kind, key, value)
			}
			seqs = append(seqs, seq)
		}, func() error {
			after++
			if last := seqs[len(seqs)-1]; last != l.Last {
				t.Errorf("Last is %d after a record that ends with %d", l.Last, last)
			}
			return nil
		})
		if want := []int64{end(3), end(2)}[i]; err != nil || res.End != want {
			t.Errorf("log %d: %+v, %v, want the end %d", number, res, err, want)
		}
	}
	var want []ikey.Seq
	for seq := lastSeq + 1; seq <= lastSeq+10; seq++ {
		want = append(want, seq)
	}
	if !slices.Equal(seqs, want) || after != 5 || l.Records != 5 || l.Last != lastSeq+10 {
		t.Errorf("sequences %v after %d records (%d), last %d; want %v, 5, 110", seqs, after, l.Records, l.Last, want)
	}
}

// ignore does nothing with an operation.
func ignore(ikey.Seq, ikey.Kind, []byte, []byte) {}

func TestAnErrorAfterARecordEndsTheReading(t *testing.T) {
	s := newStore(t, "5 3")
	l := s.reader(nil)
	full := errors.New("full")
	calls := 0
	_, err := l.Read(5, func(ikey.Seq, ikey.Kind, []byte, []byte) { calls++ }, func() error { return full })
	if !errors.Is(err, full) || errors.Is(err, corrupt.Err) || calls != 2 || l.Records != 1 {
		t.Errorf("%v after %d operations and %d records, want the error after the first record", err, calls, l.Records)
	}
}

// TestRecordsThatDoNotContinueAreDamage writes intact records whose sequence numbers or operations are wrong.
func TestRecordsThatDoNotContinueAreDamage(t *testing.T) {
	record := func(first ikey.Seq, count uint32) []byte {
		r := batch.AppendRecordHeader(make([]byte, wal.HeaderSize), first, count)
		return batch.AppendOp(r, ikey.Delete, nil, nil)
	}
	second := int64(firstPayload + len(record(101, 1)))
	for _, tt := range []struct {
		name    string
		records [][]byte
		last    ikey.Seq
		want    string
	}{
		{
			"a jump inside a log",
			[][]byte{record(101, 1), record(103, 1)},
			100,
			address(second) + "sequence 103, want 102",
		},
		{
			"a first record of the past",
			[][]byte{record(101, 1)},
			102,
			address(firstPayload) + "sequence 101, want 103",
		},
		{
			"a sequence number behind the largest",
			[][]byte{record(manifest.MaxWrite, 1), record(manifest.MaxWrite+1, 1)},
			manifest.MaxWrite - 1,
			address(second) + "sequence 18014398509481984, want at most 18014398509481983",
		},
		{
			"a malformed record",
			[][]byte{record(101, 1), record(102, 2)},
			100,
			address(second) + "batch: malformed",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t, "")
			f, err := s.mem.Create(filename.Make("db", filename.Log, 5))
			must(t, err)
			w, err := wal.NewWriter(f, 5, 1)
			must(t, err)
			for _, r := range tt.records {
				must(t, w.Append(r))
			}
			must(t, w.Close())
			l := s.reader(nil)
			l.Last = tt.last
			if _, _, err := l.Judge([]uint64{5}); !isDamage(err, tt.want) {
				t.Errorf("error is %v, want damage: %s", err, tt.want)
			}
		})
	}
}

// TestLogsAreClosedHoweverReadingEnds counts the open files after reading logs that are intact, torn, damaged, missing
// or unreadable, and after reading that was stopped.
func TestLogsAreClosedHoweverReadingEnds(t *testing.T) {
	s := newStore(t, "5 3 synced; 6 3 cut; 7 5 synced flipped")
	open, failing := 0, false
	ioError := errors.New("input/output error")
	l := s.reader(nil)
	l.FS = vfstest.NewHook(s.mem, func(op vfstest.Op) error {
		switch op.Kind {
		case vfstest.OpOpen:
			open++
		case vfstest.OpClose:
			open--
		default:
		}
		if failing && (op.Kind == vfstest.OpClose || op.Kind == vfstest.OpReadAt) {
			return ioError
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
	if _, err := l.Read(5, ignore, func() error { return stop }); !errors.Is(err, stop) || open != 0 {
		t.Errorf("stopped: %v, %d stay open", err, open)
	}
	failing = true
	if _, _, err := l.Judge([]uint64{5}); !errors.Is(err, ioError) || errors.Is(err, corrupt.Err) || open != 0 {
		t.Errorf("a log that cannot be read: %v, %d stay open", err, open)
	}
	if _, _, err := s.reader(nil).Judge([]uint64{99}); err == nil || errors.Is(err, corrupt.Err) {
		t.Errorf("a log that cannot be opened: %v", err)
	}
}
