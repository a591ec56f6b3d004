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

// A roomy is a file whose room can be reserved: zeros behind what was written.
type roomy struct {
	file
	written   int
	reserves  []int64 // what each Reserve asked for
	onReserve func() error
}

func (f *roomy) Reserve(n int64) error {
	f.reserves = append(f.reserves, n)
	if f.onReserve != nil {
		if err := f.onReserve(); err != nil {
			return err
		}
	}
	f.data = append(f.data, make([]byte, max(0, f.written+int(n)-len(f.data)))...)
	return nil
}

func (f *roomy) Write(b []byte) (int, error) {
	f.writes++
	n := copy(f.data[f.written:], b)
	f.data = append(f.data, b[n:]...)
	f.written += len(b)
	return len(b), nil
}

func newReserving(tb testing.TB, f Sink) *Writer {
	tb.Helper()
	w, err := NewReserving(f, testNumber, testID)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

func TestRoomIsReservedAheadOfTheRecords(t *testing.T) {
	f, plain := new(roomy), new(file)
	w, v := newReserving(t, f), newWriter(t, plain)
	var want []string
	for i := range 60_000 {
		p := strings.Repeat(fmt.Sprint(i, "."), i%40)
		switch i {
		case 1000, 30_000:
			p = strings.Repeat("x", mostRoom+1) // is not reserved for
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
		t.Error("the records are not those of a log without reserved room")
	}
	if want := []int64{firstRoom, 2 * firstRoom, 4 * firstRoom, 8 * firstRoom, 16 * firstRoom, 32 * firstRoom, mostRoom, mostRoom}; len(f.reserves) < len(want) || !slices.Equal(f.reserves[:len(want)], want) {
		t.Errorf("reserved %d, want %d and so on", f.reserves, want)
	}
	for _, n := range f.reserves[6:] {
		if n != mostRoom {
			t.Errorf("reserved %d, want %d in the end", f.reserves, mostRoom)
		}
	}
	got, r, err := replayBytes(f.data)
	if err != nil || r.Torn || r.End != w.Size() || r.Reserved != int64(len(f.data)-f.written) || !slices.Equal(got, want) {
		t.Errorf("replayed %d records, %+v, %v; want %d", len(got), r, err, len(want))
	}
}

func TestWhereNothingIsReservedTheLogGrows(t *testing.T) {
	f := &roomy{onReserve: func() error { return fmt.Errorf("not here: %w", errors.ErrUnsupported) }}
	w := newReserving(t, f)
	appendAll(t, w, "a", strings.Repeat("b", 3*firstRoom), "c")
	if len(f.reserves) != 1 || int64(len(f.data)) != w.Size() {
		t.Errorf("asked %d times, %d bytes in the file, %d in the log", len(f.reserves), len(f.data), w.Size())
	}
	if w := newReserving(t, new(file)); w.reserve != nil {
		t.Error("a file that is no Reserver has one")
	}
	g := new(roomy)
	if _, err := NewWriter(g, 1, 2); err != nil || len(g.reserves) != 0 {
		t.Errorf("NewWriter reserved %d, %v", g.reserves, err)
	}
}

func TestWhatIsLeftOfADiskIsWritten(t *testing.T) {
	for _, room := range []int{0, 1, 3} { // can be reserved
		f := &roomy{}
		f.onReserve = func() error {
			if len(f.reserves) > room {
				return errDisk
			}
			return nil
		}
		w := newReserving(t, f)
		var want []string
		for range 10 * firstRoom / 1000 {
			want = append(want, strings.Repeat("p", 1000))
		}
		appendAll(t, w, want...)
		if got, r, err := replayBytes(f.data); err != nil || r.Torn || r.Reserved != 0 || !slices.Equal(got, want) || len(f.reserves) != room+1 {
			t.Errorf("room for %d, asked for %d: replayed %d records, %+v, %v; want %d", room, len(f.reserves), len(got), r, err, len(want))
		}
	}
}

// What a crash may leave of a log that was reserved: each sector of what was not synced is there or zero.
func TestLostSectorsOfReservedRoom(t *testing.T) {
	const sector = 512
	f := new(roomy)
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
		for _, to := range []int64{from + sector, int64(len(f.data))} { // one, or all from there on
			data := bytes.Clone(f.data)
			clear(data[max(from, durable):max(to, durable)])
			i, _ := slices.BinarySearch(ends, max(from, durable)+1)
			got, r, err := replayBytes(data)
			if err != nil || !slices.Equal(got, want[:len(got)]) || len(got) < i || r.Torn == (r.Reserved > 0) {
				t.Errorf("zeros from %d to %d: %d records, %+v, %v; want %d", from, to, len(got), r, err, i)
			}
			// The same of what was synced is damage where a header that promises it is left, and else a shorter log (I9).
			data = bytes.Clone(f.data)
			clear(data[from:to])
			got, r, err = replayBytes(data)
			if !slices.Equal(got, want[:len(got)]) || from < durable && to < int64(len(data)) && !isCorrupt(err) && r.End < durable {
				t.Errorf("synced zeros from %d to %d: %d records, %+v, %v", from, to, len(got), r, err)
			}
		}
	}
}
