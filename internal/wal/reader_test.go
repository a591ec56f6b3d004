package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestRecordsOfAnotherFileAreNotThisLogs(t *testing.T) {
	for name, test := range map[string]struct {
		number, id uint64
		shift      int // bytes by which the other file's records are moved
	}{
		"of another number":                    {testNumber + 1, testID, 0},
		"of another id":                        {testNumber, testID + 1<<40, 0},
		"of this log, but from another offset": {testNumber, testID, 5},
	} {
		t.Run(name, func(t *testing.T) {
			f := new(file)
			w, err := NewWriter(f, test.number, test.id)
			must(t, err)
			own, _ := build(t, "own")
			must(t, w.Append(make([]byte, HeaderSize+len(own)-2*fileHeaderSize+8+test.shift)))
			from := int(w.Size())
			w.SetOlderDurable()
			for range 20 {
				syncLog(t, w)
				appendAll(t, w, "stale")
			}
			// Directly behind, and behind rubbish: neither is a record, and their promises do not count.
			for _, rubbish := range []int{0, 1, 40} {
				data := append(bytes.Clone(own), make([]byte, rubbish)...)
				for len(data) < from-test.shift {
					data = append(data, 0)
				}
				data = append(data, f.data[len(data)+test.shift:]...)
				got, r, err := replayBytes(data)
				if err != nil || !slices.Equal(got, []string{"own"}) || !r.Torn || r.Promise != 0 || r.OlderDurable {
					t.Errorf("%d bytes between: replayed %q, %+v, %v; want torn", rubbish, got, r, err)
				}
			}
		})
	}
}

// A store's own log may be a value in it.
func TestALogInsideAPayloadPromisesNothing(t *testing.T) {
	inner, _, _ := promised(t)
	data, ends := build(t, "a", string(inner), string(inner))
	data[ends[1]] ^= 1
	if got, r, err := replayBytes(data); err != nil || !r.Torn || len(got) != 1 || r.Promise != 0 {
		t.Errorf("replayed %d records, %+v, %v; want torn after 1", len(got), r, err)
	}
}

func TestFactsBehindATornRecordAreKept(t *testing.T) {
	data, ends := build(t, "a", "sync", "b", "older", "c")
	data[ends[1]] ^= 1
	got, r, err := replayBytes(data)
	if err != nil || len(got) != 1 || !r.Torn || r.Promise != ends[1] || !r.OlderDurable {
		t.Errorf("replayed %q, %+v, %v; want promise %d and older logs durable", got, r, err, ends[1])
	}
}

func TestAPromiseOfOlderLogsIsKept(t *testing.T) {
	data, ends := build(t, "a", "older", "b", "c")
	data[ends[2]+22] = 0
	fixRecord(data, ends[2], false)
	if got, r, err := replayBytes(data); !isCorrupt(err) || len(got) != 2 {
		t.Errorf("replayed %q, %+v, %v; want corruption", got, r, err)
	}
}

// A promise is found at every position relative to the chunks of the search.
func TestPromisesAreFoundAtEveryOffset(t *testing.T) {
	for _, lost := range []string{"the first record", "the file header"} {
		for shift := -recordHeaderSize - 2; shift <= recordHeaderSize+2; shift++ {
			filler := scanChunk - recordHeaderSize + shift
			data, _ := build(t, strings.Repeat("z", filler), "sync", "promise")
			clear(data[fileHeaderSize : fileHeaderSize+recordHeaderSize])
			if lost == "the file header" {
				clear(data[:fileHeaderSize])
			}
			if got, r, err := replayBytes(data); !isCorrupt(err) || len(got) != 0 {
				t.Errorf("%s, shift %d: %+v, %v; want corruption", lost, shift, r, err)
			}
		}
	}
}

// A record is read at every position relative to the chunks of the read.
func TestARecordEndsAtEachOfTheLastBytes(t *testing.T) {
	for back := range 2*recordHeaderSize + 4 {
		fill := strings.Repeat("y", readChunk-fileHeaderSize-recordHeaderSize-back)
		data, ends := build(t, fill, "", "next", "last")
		if ends[1] != int64(readChunk-back) {
			t.Fatalf("first record ends at %d, want %d", ends[1], readChunk-back)
		}
		want := []string{fill, "", "next", "last"}
		if got, r, err := replayBytes(data); err != nil || r.Torn || !slices.Equal(got, want) {
			t.Errorf("%d before the end: replayed %d records, %+v, %v", back, len(got), r, err)
		}
	}
}

// Every offset in the file looks like a record with a payload up to the end: the bytes are not read again for each.
func TestSearchIsLinear(t *testing.T) {
	data, _ := build(t, "a")
	base := int64(len(data))
	h := RecordHeader{length: 1 << 20, salt: saltOf(testID)}
	for len(data) < 8<<20 {
		data = appendRecordHeader(data, h, testNumber, int64(len(data)))
	}
	for i := range 3 { // also without a file header, which leaves less to search for
		f := &file{data: data}
		r, err := Replay(f, "x", testNumber, nil)
		if err != nil || !r.Torn {
			t.Fatalf("%+v, %v; want torn", r, err)
		}
		if limit := 2*int64(len(data)) + int64(h.length) + 4*readChunk; f.reads > limit {
			t.Errorf("read %d bytes of %d, want at most %d", f.reads, len(data), limit)
		}
		switch i {
		case 0:
			binary.LittleEndian.PutUint32(data[base:], 0)
		case 1:
			clear(data[:fileHeaderSize])
		}
	}
}

func TestALengthIsBelievedWithinTheFileOnly(t *testing.T) {
	data, _ := build(t, "a")
	offset := int64(len(data))
	data = appendRecordHeader(data, RecordHeader{length: maxLength, salt: saltOf(testID)}, testNumber, offset)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if r, err := Replay(&file{data: data}, "x", testNumber, nil); err != nil || !r.Torn || r.End != offset {
		t.Fatalf("%+v, %v; want torn at %d", r, err, offset)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("%d bytes allocated for a file of %d", got, len(data))
	}
}

func TestErrorsOfReadingAreNotDamage(t *testing.T) {
	large := strings.Repeat("b", 3*readChunk)
	data, ends := build(t, "a", "sync", large, "c")
	damaged := func(at int64, v byte) []byte {
		b := bytes.Clone(data)
		b[at] ^= v
		return b
	}
	flags := damaged(ends[0]+kindAt-1, 0x80) // an error, whatever follows
	fixRecord(flags, ends[0], false)
	for name, b := range map[string][]byte{
		"a bad payload":    damaged(ends[2]-1, 1),
		"a torn header":    data[:ends[2]+recordHeaderSize-1],
		"a torn beginning": data[:fileHeaderSize-1],
		"flags":            flags,
		"a large payload":  data,
	} {
		reads, fail, passed := 0, 0, false
		for ; !passed; fail++ {
			reads = 0
			f := &file{data: b, onRead: func() error {
				if reads++; reads == fail+1 {
					return errDisk
				}
				return nil
			}}
			_, err := Replay(f, "000007.log", testNumber, nil)
			if passed = reads <= fail; !passed && (!errors.Is(err, errDisk) || isCorrupt(err)) {
				t.Errorf("%s: read %d fails: error is %v, want %v", name, fail, err, errDisk)
			}
		}
		if fail < 2 {
			t.Errorf("%s: nothing is read", name)
		}
	}
	f := &file{data: data, size: int64(len(data)) + 1}
	if _, err := Replay(f, "x", testNumber, nil); !errors.Is(err, io.ErrUnexpectedEOF) || isCorrupt(err) {
		t.Errorf("a file that shrinks: error is %v, want %v", err, io.ErrUnexpectedEOF)
	}
	if _, err := Replay(sizeless{f}, "x", testNumber, nil); !errors.Is(err, errDisk) {
		t.Errorf("a file without a size: error is %v, want %v", err, errDisk)
	}
}

type sizeless struct{ *file }

func (sizeless) Size() (int64, error) { return 0, errDisk }

func TestAHeaderIsFoundByItsChecksum(t *testing.T) {
	data, ends := build(t, "a", "b")
	data[ends[0]] ^= 1 // the checksum of the first
	for _, salt := range []uint32{0, saltOf(testID)} {
		at, h := FindHeader(data[ends[0]:], testNumber, salt, ends[0])
		if at != int(ends[1]-ends[0]) || h.length != 1 {
			t.Errorf("salt %#x: found at %d: %+v, want the second at %d", salt, at, h, ends[1]-ends[0])
		}
		second := data[ends[1] : ends[1]+recordHeaderSize]
		if at, _ := FindHeader(second, testNumber, salt, ends[1]); at != 0 {
			t.Errorf("salt %#x: found at %d of a header alone", salt, at)
		}
		for n := range recordHeaderSize {
			if at, _ := FindHeader(second[:n], testNumber, salt, ends[1]); at != -1 {
				t.Errorf("salt %#x: found at %d of %d bytes of a header", salt, at, n)
			}
		}
	}
}

func TestRecordsHaveTheSaltOfTheWholeID(t *testing.T) {
	for _, id := range []uint64{1, 1 << 63, 0x1020408010204081} {
		f := new(file)
		w, err := NewWriter(f, testNumber, id)
		must(t, err)
		appendAll(t, w, "a")
		if got, r, err := replayBytes(f.data); err != nil || r.Records != 1 {
			t.Errorf("id %#x: replayed %q, %+v, %v", id, got, r, err)
		}
	}
}

func TestAnErrorOfEachStopsTheReplay(t *testing.T) {
	data, ends := build(t, "a", "b", "c")
	n := 0
	r, err := Replay(&file{data: data}, "x", testNumber, func([]byte, int64) error {
		if n++; n == 2 {
			return errDisk
		}
		return nil
	})
	if !errors.Is(err, errDisk) || n != 2 || r.End != ends[2] || r.Torn {
		t.Errorf("%d calls, %+v, %v", n, r, err)
	}
}

func BenchmarkReplay(b *testing.B) {
	f := new(file)
	w := newWriter(b, f)
	for len(f.data) < 8<<20 {
		appendAll(b, w, strings.Repeat("x", 128))
	}
	b.SetBytes(int64(len(f.data)))
	for b.Loop() {
		if _, err := Replay(f, "x", testNumber, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	data, _ := build(b, "a")
	data = append(data, make([]byte, 8<<20)...)
	data = append(data, 1)
	for name, damage := range map[string]func(){
		"zeros": func() {}, "zeros, no file header": func() { clear(data[:32]) },
	} {
		b.Run(name, func(b *testing.B) {
			damage()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if r, err := Replay(&file{data: data}, "x", testNumber, nil); err != nil || !r.Torn {
					b.Fatal(r, err)
				}
			}
		})
	}
}
