package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// TestTornOrDamaged checks I8 for one log:
//
//	32   one    promises nothing          then it is synced
//	59   two    promises 59
//	86   three  promises 59               then it is synced in some tests
//	115  four   promises 115 or 59
//	143
func TestTornOrDamaged(t *testing.T) {
	const torn, damaged, unsupported = "torn", "damaged", "unsupported"
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	flip := func(at ...int) func([]byte) []byte {
		return func(b []byte) []byte {
			for _, i := range at {
				b[i] ^= 0x10
			}
			return b
		}
	}
	zero := func(from, to int) func([]byte) []byte {
		return func(b []byte) []byte { clear(b[from:to]); return b }
	}
	put32 := func(record, at int, v uint32) func([]byte) []byte { // in a header with a correct checksum
		return func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[record+at:], v)
			fixRecord(b, int64(record), false)
			return b
		}
	}
	add := func(tail ...byte) func([]byte) []byte { return func(b []byte) []byte { return append(b, tail...) } }
	const unsynced, synced = false, true
	for _, test := range []struct {
		name   string
		synced bool
		change func([]byte) []byte
		whole  int    // number of intact records
		is     string // "" means neither
		at     int64
	}{
		{"untouched", synced, add(), 4, "", 0},

		{"an empty file", synced, cut(0), 0, torn, 0},
		{"a part of the file header", synced, cut(31), 0, torn, 0},
		{"the file header alone", synced, cut(32), 0, "", 0},
		{"a short header at the end", synced, cut(33), 0, torn, 32},
		{"a header without its payload", synced, cut(32 + 24), 0, torn, 32},
		{"a short payload at the end", synced, cut(142), 3, torn, 115},
		{"cut between records", synced, cut(115), 3, "", 0},

		{"a zero behind", synced, add(0), 4, "", 0},
		{"zeros behind, less than a header", synced, add(make([]byte, 23)...), 4, "", 0},
		{"zeros behind", synced, add(make([]byte, 5000)...), 4, "", 0},
		{"zeros behind, as many as one search reads", synced, add(make([]byte, scanChunk)...), 4, "", 0},
		{"zeros behind, one more", synced, add(make([]byte, scanChunk+1)...), 4, "", 0},
		{"a one behind", synced, add(1), 4, torn, 143},
		{"zeros behind, and a last byte", synced, add(append(make([]byte, 5000), 1)...), 4, torn, 143},
		{
			"zeros behind, as many as one search reads, and a last byte", synced,
			add(append(make([]byte, scanChunk), 1)...), 4, torn, 143,
		},
		{"zeros behind, and a record that does not promise them", unsynced, func(b []byte) []byte {
			h := RecordHeader{salt: saltOf(testID), promise: 59}
			return appendRecordHeader(append(b, make([]byte, 5000)...), h, testNumber, 5143)
		}, 4, torn, 143},
		{"zeros behind, and a record that promises them", unsynced, func(b []byte) []byte {
			h := RecordHeader{salt: saltOf(testID), promise: 144}
			return appendRecordHeader(append(b, make([]byte, 5000)...), h, testNumber, 5143)
		}, 4, damaged, 143},
		{"a part of the file header, and zeros", synced, func(b []byte) []byte { clear(b[12:]); return b }, 0, torn, 0},
		{"nothing but zeros", synced, func(b []byte) []byte { clear(b); return b }, 0, torn, 0},
		{"the file header, and zeros", synced, zero(32, 143), 0, "", 0},
		{"a part of the last record, and zeros", synced, func(b []byte) []byte {
			clear(b[120:])
			return append(b, make([]byte, 5000)...)
		}, 3, torn, 115},
		{"ones behind", synced, add(bytes.Repeat([]byte{0xff}, 5000)...), 4, torn, 143},
		{"kinds behind", synced, add(bytes.Repeat([]byte{recordKind}, 5000)...), 4, torn, 143},

		{"a bad last header, without a promise", synced, flip(115), 3, torn, 115},
		{"a bad last payload, without a promise", synced, flip(142), 3, torn, 115},
		{"zeros for the last record, without a promise", synced, zero(115, 143), 3, "", 0},
		{"a bad header before a promise", synced, flip(86), 2, damaged, 86},
		{"a bad payload before a promise", synced, flip(86 + 24), 2, damaged, 86},
		{"zeros before a promise", synced, zero(86, 115), 2, damaged, 86},
		{"a bad first record before promises", synced, flip(40), 0, damaged, 32},
		{"zeros for all but the last record, which promises", synced, zero(32, 115), 0, damaged, 32},
		{"zeros for all but the last header, which promises", synced, func(b []byte) []byte {
			clear(b[32:115])
			return b[:115+24]
		}, 0, damaged, 32},
		{"a bad record after the promise", unsynced, flip(86), 2, torn, 86},
		{"a bad record that ends where the promise begins", unsynced, flip(58), 0, damaged, 32},
		{"a bad record that begins where the promise ends", unsynced, flip(59), 1, torn, 59},
		{"zeros after the promise", unsynced, zero(59, 115), 1, torn, 59},

		{"a bad magic before promises", synced, flip(0), 0, damaged, 0},
		{"a bad file header before promises", synced, flip(31), 0, damaged, 0},
		{"zeros for the file header before promises", synced, zero(0, 32), 0, damaged, 0},
		{"zeros for the file header, and the only promise bad", synced, func(b []byte) []byte {
			clear(b[:32])
			clear(b[59:])
			return b
		}, 0, torn, 0},
		{"another number in a file header that is whole", synced, func(b []byte) []byte {
			b[16]++
			fixFile(b)
			return b
		}, 0, damaged, 0},
		{"a newer version", synced, func(b []byte) []byte {
			b[8]++
			fixFile(b)
			return b
		}, 0, unsupported, 0},
		{"a newer version that is a flipped bit", synced, func(b []byte) []byte { b[8]++; return b }, 0, damaged, 0},
		{"another id in a file header that is whole", synced, func(b []byte) []byte {
			b[24] ^= 0x10
			fixFile(b)
			return b
		}, 0, torn, 32}, // all records belong to another file

		{"a length of 2^32-1", unsynced, put32(86, 8, 1<<32-1), 2, damaged, 86},
		{"a length of 2^31", unsynced, put32(86, 8, 1<<31), 2, damaged, 86},
		{"a length one over the limit", unsynced, put32(86, 8, maxLength+1), 2, damaged, 86},
		{"a length at the limit, over the file's end", unsynced, put32(86, 8, maxLength), 2, torn, 86},
		{"a length one over the file's end", unsynced, put32(86, 8, 34), 2, torn, 86},
		{"a length one over the file's end, with a promise behind", synced, put32(86, 8, 34), 2, damaged, 86},
		{"a length up to the file's end", unsynced, put32(86, 8, 33), 2, torn, 86},
		{"a length of 0", unsynced, put32(86, 8, 0), 2, torn, 86},
		{"an unknown flag", unsynced, func(b []byte) []byte {
			b[86+22] = 2
			fixRecord(b, 86, false)
			return b
		}, 2, damaged, 86},
		{"an unknown kind", unsynced, func(b []byte) []byte { b[86+23] = 1; return b }, 2, torn, 86},
		{"a promise further than itself", unsynced, put32(86, 16, 87), 2, damaged, 86},
		{"a promise that falls", unsynced, put32(86, 16, 58), 2, damaged, 86},
		{"a promise of itself", unsynced, put32(86, 16, 86), 4 - 1, damaged, 115}, // the next promise is smaller
		{"a last record that promises itself", unsynced, put32(115, 16, 115), 4, "", 0},
		{"a bad record, and the only promise is one byte into it", unsynced, func(b []byte) []byte {
			b[86] ^= 0x10
			return put32(115, 16, 87)(b)
		}, 2, damaged, 86},
		{"another salt", unsynced, put32(86, 12, 5), 2, torn, 86},
	} {
		t.Run(test.name, func(t *testing.T) {
			steps := []string{"one", "sync", "two", "three", "sync", "four"}
			if !test.synced {
				steps = slices.Delete(steps, 4, 5)
			}
			data, ends := build(t, steps...)
			if want := []int64{32, 59, 86, 115, 143}; !slices.Equal(ends, want) {
				t.Fatalf("records end at %v, want %v", ends, want)
			}
			whole := bytes.Clone(data)
			got, r, err := replayBytes(test.change(data))
			want := []string{"one", "two", "three", "four"}[:test.whole]
			if !slices.Equal(got, want) || r.Records != test.whole {
				t.Errorf("replayed %q, %d records; want %q", got, r.Records, want)
			}
			switch test.is {
			case damaged:
				var at *corrupt.Error
				if !errors.As(err, &at) || !isCorrupt(err) || at.Offset != test.at || at.File != "000007.log" {
					t.Errorf("error is %v, want corruption of 000007.log at %d", err, test.at)
				}
			case unsupported:
				if !errors.Is(err, ErrUnsupportedVersion) || isCorrupt(err) {
					t.Errorf("error is %v, want %v", err, ErrUnsupportedVersion)
				}
			default:
				if err != nil {
					t.Errorf("error is %v, want none", err)
				}
			}
			left := r.Size - r.End
			if r.Reserved != 0 && (r.Reserved != left || r.Torn) ||
				test.is == "" && r.Reserved != left || test.is == damaged && r.Reserved != 0 {
				t.Errorf("%d bytes reserved of %d behind the records: %+v", r.Reserved, left, r)
			}
			behind, next := headersBehind(test.change(bytes.Clone(whole)), test.at)
			if (test.is == torn || test.is == damaged) && (r.Behind != behind || behind > 0 && r.NextAt != next) {
				t.Errorf("%d records behind, the next at %d, want %d at %d", r.Behind, r.NextAt, behind, next)
			}
			if r.Torn != (test.is == torn) || r.Torn != (r.Reason != nil) ||
				r.Torn && r.End != test.at {
				t.Errorf("result is %+v, want torn at %d: %v", r, test.at, test.is == torn)
			}
		})
	}
}

// headersBehind returns the number of the log's headers behind an offset, and the offset of the first, found by trying
// each offset.
func headersBehind(data []byte, at int64) (n int, first int64) {
	for o := len(data) - recordHeaderSize; int64(o) > at; o-- {
		h, ok := parseRecordHeader(data[o:o+recordHeaderSize], testNumber, int64(o))
		if ok && (at == 0 || h.salt == saltOf(binary.LittleEndian.Uint64(data[24:]))) {
			n, first = n+1, int64(o)
		}
	}
	return n, first
}

// promised returns a log whose last record promises every byte in front of it.
func promised(tb testing.TB) (data []byte, ends []int64, want []string) {
	tb.Helper()
	data, ends = build(tb, "a", "bb", "sync", "", "cccc", "older", "sync", "d", "sync", "last")
	return data, ends, []string{"a", "bb", "", "cccc", "d", "last"}
}

func TestEveryFlippedBitIsNoticed(t *testing.T) {
	data, ends, want := promised(t)
	durable := ends[len(ends)-2]
	for i := range data {
		for bit := range 8 {
			damaged := bytes.Clone(data)
			damaged[i] ^= 1 << bit
			got, r, err := replayBytes(damaged)
			if n := len(got); n >= len(want) || !slices.Equal(got, want[:n]) {
				t.Fatalf("byte %d bit %d: replayed %q", i, bit, got)
			}
			switch {
			case int64(i) < durable && !isCorrupt(err):
				t.Errorf("byte %d bit %d: %+v, %v; want corruption", i, bit, r, err)
			case int64(i) >= durable && (err != nil || !r.Torn || r.End != durable || len(got) != len(want)-1):
				t.Errorf("byte %d bit %d: %+v, %v; want torn at %d", i, bit, r, err, durable)
			}
		}
	}
}

func TestEveryTruncationIsTheEnd(t *testing.T) {
	data, ends, want := promised(t)
	for n := range data {
		whole := 0 // number of intact records
		for whole < len(ends)-1 && ends[whole+1] <= int64(n) {
			whole++
		}
		got, r, err := replayBytes(data[:n])
		if err != nil || !slices.Equal(got, want[:whole]) {
			t.Errorf("%d bytes: replayed %q, %v; want %q", n, got, err, want[:whole])
		}
		// A zero may be the first byte of a truncated record: nothing shows that there was one.
		between := slices.Contains(ends, int64(n)) || r.Reserved > 0 && len(bytes.Trim(data[r.End:n], "\x00")) == 0
		if r.Torn == between {
			t.Errorf("%d bytes: %+v, want torn: %v", n, r, !between)
		}
		// A crash may also leave zeros behind the end.
		for _, tail := range []int{1, 23, 24, 25, 512} {
			got, _, err := replayBytes(append(bytes.Clone(data[:n]), make([]byte, tail)...))
			if err != nil || len(got) < whole || len(got) == len(want) {
				t.Errorf("%d bytes and %d zeros: replayed %q, %v; want %q", n, tail, got, err, want[:whole])
			}
		}
	}
}

// An unsynced sector may be lost while later ones are kept.
func TestLostSectors(t *testing.T) {
	const sector = 512
	rng := rand.New(rand.NewPCG(3, 4))
	f := new(file)
	w := newWriter(t, f)
	var want []string
	var ends []int64
	durable := int64(0)
	for i := range 100 {
		p := fmt.Sprintf("%03d%s", i, strings.Repeat("p", rng.IntN(200)))
		appendAll(t, w, p)
		want, ends = append(want, p), append(ends, w.Size())
		if i == 50 {
			syncLog(t, w)
			durable = w.Size()
		}
	}
	for from := int64(0); from < int64(len(f.data)); from += sector {
		data := bytes.Clone(f.data)
		hole := data[from:min(from+sector, int64(len(data)))]
		for what, lose := range map[string]func(){
			"zeros": func() { clear(hole) },
			"older bytes": func() {
				for i := range hole {
					hole[i] = byte(rng.Uint32())
				}
			},
		} {
			lose()
			got, r, err := replayBytes(data)
			if !slices.Equal(got, want[:len(got)]) {
				t.Fatalf("%s at %d: replayed %d records that were not appended", what, from, len(got))
			}
			if from < durable {
				if !isCorrupt(err) {
					t.Errorf("%s at %d: %+v, %v; want corruption", what, from, r, err)
				}
				continue
			}
			i, _ := slices.BinarySearch(ends, from+1)
			if err != nil || !r.Torn || len(got) != i || r.Promise != durable {
				t.Errorf("%s at %d: %d records, %+v, %v; want %d", what, from, len(got), r, err, i)
			}
		}
	}
}
