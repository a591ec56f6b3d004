package wal

import (
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

var must = testkit.Must

func TestLogByteForByte(t *testing.T) {
	data, _ := build(t, "hi", "sync", "older", "", "you")
	// magic, version, crc, number, id; then per record: crc, payload crc, length, salt, promise, flags, kind, payload
	const want = "" +
		"626c6f6f6d77616c" + "01000000" + "c21c1a9f" + "0700000000000000" + "efcdab8967452301" +
		"a94aa392" + "c2d99df5" + "02000000" + "89888888" + "000000000000" + "00" + "b7" + "6869" +
		"873c7539" + "00000000" + "00000000" + "89888888" + "3a0000000000" + "01" + "b7" +
		"3ebfe906" + "6c667b88" + "03000000" + "89888888" + "3a0000000000" + "01" + "b7" + "796f75"
	if got := hex.EncodeToString(data); got != want {
		t.Errorf("log is\n%s, want\n%s", got, want)
	}
}

// TestARecordInPartsIsTheSameRecord appends payloads whose end is in other slices.
func TestARecordInPartsIsTheSameRecord(t *testing.T) {
	whole, parts := new(file), new(file)
	a, b := newWriter(t, whole), newWriter(t, parts)
	for _, payload := range [][]string{{"one"}, {"", "two"}, {"th", "re", "e"}, {"four", "", ""}} {
		must(t, a.Append(framed(strings.Join(payload, ""))))
		var more [][]byte
		for _, p := range payload[1:] {
			more = append(more, []byte(p))
		}
		must(t, b.Append(framed(payload[0]), more...))
		if a.Size() != b.Size() || !slices.Equal(whole.data, parts.data) {
			t.Errorf("%q: the log is\n%x, want\n%x", payload, parts.data, whole.data)
		}
	}
	if err := b.Append(framed(""), make([]byte, MaxPayload), []byte{1}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a payload that is too large in parts: %v, want ErrTooLarge", err)
	}
}

func TestWhatIsAppendedIsReplayed(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	for name, want := range map[string][]string{
		"nothing":                             nil,
		"an empty payload":                    {""},
		"some":                                {"a", "bc", "", "def"},
		"large payloads among small ones":     {"a", big, "b", big, big, "c"},
		"a payload that is as large as a log": {strings.Repeat("\xb7", 3*readChunk)},
	} {
		t.Run(name, func(t *testing.T) {
			f := new(file)
			w := newWriter(t, f)
			before := f.writes
			appendAll(t, w, want...)
			if w.Size() != int64(len(f.data)) || f.writes-before != len(want) {
				t.Errorf("Size is %d after %d writes, want %d and %d",
					w.Size(), f.writes-before, len(f.data), len(want))
			}
			got, r, err := replayBytes(f.data)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("replayed %d records, %v; want %d", len(got), err, len(want))
			}
			if r.Torn || r.Reason != nil || r.End != w.Size() || r.Size != w.Size() || r.Records != len(want) {
				t.Errorf("result is %+v", r)
			}
		})
	}
}

func TestOffsetsGivenToEachAreWhereRecordsEnd(t *testing.T) {
	data, ends := build(t, "a", "", "sync", "bcd")
	got := []int64{fileHeaderSize}
	if _, err := Replay(&file{data: data}, "x", testNumber, func(_ []byte, end int64) error {
		got = append(got, end)
		return nil
	}); err != nil || !slices.Equal(got, ends) {
		t.Errorf("ends are %v, %v; want %v", got, err, ends)
	}
}

func TestPromiseIsTheSizeWhenTheSyncBegan(t *testing.T) {
	f := new(file)
	w := newWriter(t, f)
	appendAll(t, w, "before")
	began := w.Size()
	f.onSync = func() error {
		appendAll(t, w, "meanwhile")
		return nil
	}
	syncLog(t, w)
	if w.Synced() != began {
		t.Errorf("Synced is %d, want %d", w.Synced(), began)
	}
	appendAll(t, w, "after")
	if _, r, err := replayBytes(f.data); err != nil || r.Promise != began || r.OlderDurable {
		t.Errorf("result is %+v, %v; want promise %d", r, err, began)
	}
}

func TestSyncToSyncsWhatNoSyncHasMadeDurable(t *testing.T) {
	f, syncs := new(file), 0
	f.onSync = func() error { syncs++; return nil }
	w := newWriter(t, f)
	syncLog(t, w) // of the file header
	appendAll(t, w, "first")
	end := w.Size()
	for range 2 {
		if err := w.SyncTo(end); err != nil || w.Synced() != end || syncs != 2 {
			t.Errorf("%v, synced %d, %d syncs; want %d and 2, the second for the record", err, w.Synced(), syncs, end)
		}
	}
	appendAll(t, w, "second")
	if err := w.SyncTo(end); err != nil || syncs != 2 {
		t.Errorf("%v, %d syncs; want none for a record behind the end", err, syncs)
	}
}

func TestOlderLogsAreDurableOncePromised(t *testing.T) {
	if _, r, err := replayBytes(first(build(t, "a", "older"))); err != nil || r.OlderDurable {
		t.Errorf("result is %+v, %v; want no promise before a record carries it", r, err)
	}
	if _, r, err := replayBytes(first(build(t, "a", "older", "b"))); err != nil || !r.OlderDurable {
		t.Errorf("result is %+v, %v; want the promise", r, err)
	}
}

func first(data []byte, _ []int64) []byte { return data }

func TestFirstErrorStays(t *testing.T) {
	other := errors.New("another error")
	for name, test := range map[string]struct {
		fail func(f *file, w *Writer) error
		want error
	}{
		"of a write": {func(f *file, w *Writer) error {
			f.onWrite = func([]byte) (int, error) { return 0, errDisk }
			return w.Append(framed("x"))
		}, errDisk},
		"of a short write without an error": {func(f *file, w *Writer) error {
			f.onWrite = func(b []byte) (int, error) { return len(b) / 2, nil }
			return w.Append(framed("x"))
		}, io.ErrShortWrite},
		"of a sync": {func(f *file, w *Writer) error {
			f.onSync = func() error { return errDisk }
			return w.Sync()
		}, errDisk},
	} {
		t.Run(name, func(t *testing.T) {
			f := new(file)
			w := newWriter(t, f)
			appendAll(t, w, "a")
			size, synced := w.Size(), w.Synced()
			if err := test.fail(f, w); !errors.Is(err, test.want) || !strings.HasPrefix(err.Error(), "log 7: ") {
				t.Fatalf("error is %v, want log 7 and %v", err, test.want)
			}
			written := len(f.data)
			f.onWrite = func([]byte) (int, error) { return 0, other }
			f.onSync = func() error { return other }
			for range 2 {
				if err := w.Append(framed("b")); !errors.Is(err, test.want) {
					t.Errorf("Append returns %v, want %v", err, test.want)
				}
				if err := w.Sync(); !errors.Is(err, test.want) {
					t.Errorf("Sync returns %v, want %v", err, test.want)
				}
			}
			if len(f.data) != written || w.Size() != size || w.Synced() != synced {
				t.Errorf("%d bytes written, size %d, synced %d; want %d, %d, %d",
					len(f.data), w.Size(), w.Synced(), written, size, synced)
			}
			if err := w.Close(); err != nil || f.closed != 1 {
				t.Errorf("Close returns %v, file closed %d times", err, f.closed)
			}
		})
	}
}

func TestPayloadTooLargeIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	f := new(file)
	w := newWriter(t, f)
	huge := make([]byte, HeaderSize+MaxPayload+1) // never touched, so never backed by memory
	if err := w.Append(huge); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error is %v, want %v", err, ErrTooLarge)
	}
	if w.Size() != fileHeaderSize || len(f.data) != fileHeaderSize {
		t.Errorf("size %d, file %d; want %d", w.Size(), len(f.data), fileHeaderSize)
	}
	appendAll(t, w, "b")
	if got, _, err := replayBytes(f.data); err != nil || !slices.Equal(got, []string{"b"}) {
		t.Errorf("replayed %q, %v", got, err)
	}
	w.size.Store(maxEnd - recordHeaderSize)
	if err := w.Append(framed("c")); !errors.Is(err, ErrTooLarge) || w.HasSpace(1) || !w.HasSpace(0) {
		t.Errorf("a log of %d bytes: error is %v, want %v; has space for one byte %v, for none %v", w.Size()+25, err,
			ErrTooLarge, w.HasSpace(1), w.HasSpace(0))
	}
}

func TestALogBeginsInAnEmptyFile(t *testing.T) {
	f := &file{data: []byte("x")}
	if _, err := NewWriter(f, 1, 2); err == nil || f.closed != 1 || len(f.data) != 1 {
		t.Errorf("error is %v, closed %d times, %d bytes", err, f.closed, len(f.data))
	}
	f = &file{onWrite: func([]byte) (int, error) { return 3, errDisk }}
	if _, err := NewWriter(f, 1, 2); !errors.Is(err, errDisk) || f.closed != 1 {
		t.Errorf("error is %v, closed %d times", err, f.closed)
	}
}

func TestAfterCloseEverythingIsErrClosed(t *testing.T) {
	f := new(file)
	w := newWriter(t, f)
	must(t, w.Close())
	for name, err := range map[string]error{"Append": w.Append(framed("a")), "Sync": w.Sync(), "Close": w.Close()} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s returns %v, want %v", name, err, os.ErrClosed)
		}
	}
	if f.closed != 1 || w.Number() != testNumber {
		t.Errorf("file closed %d times, number %d", f.closed, w.Number())
	}
	if err := newWriter(t, &file{onClose: errDisk}).Close(); !errors.Is(err, errDisk) {
		t.Errorf("Close returns %v, want that of the file", err)
	}
}

func TestSyncRunsWhileAppendRuns(t *testing.T) {
	f := new(file)
	w := newWriter(t, f)
	stop, done := make(chan struct{}), sync.WaitGroup{}
	for range 3 {
		done.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				before := w.Size()
				if err := w.Sync(); err != nil || w.Synced() < before {
					t.Errorf("Sync: %v, synced %d, want at least %d", err, w.Synced(), before)
					return
				}
			}
		})
	}
	rng, n := rand.New(rand.NewPCG(1, 2)), 2000
	for i := range n {
		if i == n/2 {
			w.SetOlderDurable()
		}
		must(t, w.Append(make([]byte, HeaderSize+rng.IntN(300))))
	}
	close(stop)
	done.Wait()
	if got, r, err := replayBytes(f.data); err != nil || len(got) != n || r.Torn || !r.OlderDurable {
		t.Errorf("replayed %d records, %+v, %v", len(got), r, err)
	}
}

func TestSaltIsNeverFoundInZeros(t *testing.T) {
	for _, id := range []uint64{0, 1, 1 << 32, 1<<32 | 1, ^uint64(0), testID} {
		if byte(saltOf(id)) == 0 {
			t.Errorf("salt of %x is %08x", id, saltOf(id))
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	f := &file{onWrite: func(p []byte) (int, error) { return len(p), nil }}
	w := newWriter(b, f)
	record := make([]byte, HeaderSize+128)
	b.SetBytes(int64(len(record)))
	b.ReportAllocs()
	for b.Loop() {
		f.data = f.data[:0]
		must(b, w.Append(record))
	}
}
