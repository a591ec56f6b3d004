package wal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A reservingFile is a file that is a Reserver: it keeps zeros behind what was written.
type reservingFile struct {
	file
	written   int
	reserves  []int64 // the argument of each Reserve
	onReserve func() error
}

func (f *reservingFile) Reserve(n int64) error {
	f.reserves = append(f.reserves, n)
	if f.onReserve != nil {
		if err := f.onReserve(); err != nil {
			return err
		}
	}
	f.data = append(f.data, make([]byte, max(0, f.written+int(n)-len(f.data)))...)
	return nil
}

func (f *reservingFile) Write(b []byte) (int, error) {
	f.writes++
	n := copy(f.data[f.written:], b)
	f.data = append(f.data, b[n:]...)
	f.written += len(b)
	return len(b), nil
}

func newReserving(tb testing.TB, f Sink) *Writer {
	tb.Helper()
	w, err := NewReserving(f, testNumber, testID, 0)
	must(tb, err)
	return w
}

func TestSpaceIsReservedAheadOfTheRecords(t *testing.T) {
	f, plain := new(reservingFile), new(file)
	w, v := newReserving(t, f), newWriter(t, plain)
	var want []string
	for i := range 60_000 {
		p := strings.Repeat(fmt.Sprint(i, "."), i%40)
		switch i {
		case 1000, 30_000:
			p = strings.Repeat("x", maxReserve+1) // larger than any reservation
		case 40_000:
			syncLog(t, w)
			syncLog(t, v)
		}
		appendAll(t, w, p)
		appendAll(t, v, p)
		want = append(want, p)
		if w.reserved > int64(len(f.data)) || len(f.data) < f.written || int64(f.written) != w.Size() {
			t.Fatalf("%d bytes written, size %d, file %d", f.written, w.Size(), len(f.data))
		}
	}
	if !bytes.Equal(f.data[:f.written], plain.data) {
		t.Error("the records differ from those of a log without reserved space")
	}
	first := []int64{
		firstReserve, 2 * firstReserve, 4 * firstReserve, 8 * firstReserve, 16 * firstReserve, 32 * firstReserve,
		maxReserve, maxReserve,
	}
	if len(f.reserves) < len(first) || !slices.Equal(f.reserves[:len(first)], first) {
		t.Errorf("reserved %d, want %d and so on", f.reserves, first)
	}
	for _, n := range f.reserves[6:] {
		if n != maxReserve {
			t.Errorf("reserved %d, want %d in the end", f.reserves, maxReserve)
		}
	}
	got, r, err := replayBytes(f.data)
	if err != nil || r.Torn || r.End != w.Size() || r.Reserved != int64(len(f.data)-f.written) ||
		!slices.Equal(got, want) {
		t.Errorf("replayed %d records, %+v, %v; want %d", len(got), r, err, len(want))
	}
}

func TestALogOfAnExpectedSizeIsReservedAtOnce(t *testing.T) {
	for _, c := range []struct{ expected, want int64 }{
		{0, firstReserve},
		{firstReserve - 1, firstReserve},
		{3*firstReserve + 5, 3*firstReserve + 5},
		{maxReserve + 1, maxReserve},
		{1 << 40, maxReserve},
	} {
		f := new(reservingFile)
		_, err := NewReserving(f, testNumber, testID, c.expected)
		must(t, err)
		if !slices.Equal(f.reserves, []int64{c.want}) {
			t.Errorf("%d bytes expected: reserved %d, want %d", c.expected, f.reserves, c.want)
		}
	}
}

func TestWhereNothingIsReservedTheLogGrows(t *testing.T) {
	f := &reservingFile{onReserve: func() error { return fmt.Errorf("not here: %w", errors.ErrUnsupported) }}
	w := newReserving(t, f)
	appendAll(t, w, "a", strings.Repeat("b", 3*firstReserve), "c")
	if len(f.reserves) != 1 || int64(len(f.data)) != w.Size() {
		t.Errorf("asked %d times, %d bytes in the file, %d in the log", len(f.reserves), len(f.data), w.Size())
	}
	if w := newReserving(t, new(file)); w.reserver != nil {
		t.Error("the Writer has a Reserver that its file is not")
	}
	g := new(reservingFile)
	if _, err := NewWriter(g, 1, 2); err != nil || len(g.reserves) != 0 {
		t.Errorf("NewWriter reserved %d, %v", g.reserves, err)
	}
}

func TestNothingIsReservedOnceThatIsStopped(t *testing.T) {
	f := new(reservingFile)
	w := newReserving(t, f)
	w.StopReserving()
	appendAll(t, w, strings.Repeat("a", firstReserve), strings.Repeat("b", firstReserve))
	if len(f.reserves) != 1 || int64(len(f.data)) != w.Size() {
		t.Errorf("asked %d times, %d bytes in the file, %d in the log", len(f.reserves), len(f.data), w.Size())
	}
}

func TestWhatIsLeftOfADiskIsWritten(t *testing.T) {
	for _, most := range []int{0, 1, 3} { // number of successful reservations
		f := &reservingFile{}
		f.onReserve = func() error {
			if len(f.reserves) > most {
				return errDisk
			}
			return nil
		}
		w := newReserving(t, f)
		var want []string
		for range 10 * firstReserve / 1000 {
			want = append(want, strings.Repeat("p", 1000))
		}
		appendAll(t, w, want...)
		got, r, err := replayBytes(f.data)
		if err != nil || r.Torn || r.Reserved != 0 || !slices.Equal(got, want) || len(f.reserves) != most+1 {
			t.Errorf("%d of %d reservations succeed: replayed %d records, %+v, %v; want %d",
				most, len(f.reserves), len(got), r, err, len(want))
		}
	}
}

// After a crash, each unsynced sector of a log with reserved space is intact or zero.
func TestLostSectorsOfReservedSpace(t *testing.T) {
	const sector = 512
	f := new(reservingFile)
	w := newReserving(t, f)
	var want []string
	var ends []int64
	durable := int64(0)
	for i := range 100 {
		p := strings.Repeat(strconv.Itoa(i%7+1), i)
		appendAll(t, w, p)
		want, ends = append(want, p), append(ends, w.Size())
		if i == 50 {
			syncLog(t, w)
			durable = w.Size()
		}
	}
	for from := int64(0); from < w.Size(); from += sector {
		for _, to := range []int64{from + sector, int64(len(f.data))} { // one sector, or all from there on
			data := bytes.Clone(f.data)
			clear(data[max(from, durable):max(to, durable)])
			i, _ := slices.BinarySearch(ends, max(from, durable)+1)
			got, r, err := replayBytes(data)
			if err != nil || !slices.Equal(got, want[:len(got)]) || len(got) < i || r.Torn == (r.Reserved > 0) {
				t.Errorf("zeros from %d to %d: %d records, %+v, %v; want %d", from, to, len(got), r, err, i)
			}
			// Zeros in synced bytes are damage if a header that promises them is left, and otherwise a shorter log
			// (I9).
			data = bytes.Clone(f.data)
			clear(data[from:to])
			got, r, err = replayBytes(data)
			if !slices.Equal(got, want[:len(got)]) ||
				from < durable && to < int64(len(data)) && !isCorrupt(err) && r.End < durable {
				t.Errorf("synced zeros from %d to %d: %d records, %+v, %v", from, to, len(got), r, err)
			}
		}
	}
}
