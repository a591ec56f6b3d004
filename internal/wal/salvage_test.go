package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// A stretch is a range of bytes of a file.
type stretch struct{ from, to int64 }

func salvageBytes(data []byte) (payloads []string, lost []stretch, err error) {
	f, name := &file{data: data}, "dir/000007.log"
	err = Salvage(context.Background(), f, name, testNumber, func(p []byte, at int64) error {
		if !bytes.Equal(data[at:at+int64(len(p))], p) {
			return fmt.Errorf("payload %q is not at %d", p, at)
		}
		payloads = append(payloads, string(p))
		return nil
	}, func(from, to int64, reason error) {
		if reason == nil || from >= to {
			reason = fmt.Errorf("lost %d…%d without a reason: %w", from, to, reason)
			panic(reason)
		}
		lost = append(lost, stretch{from, to})
	})
	return payloads, lost, err
}

// TestOneDamagedByteCostsOneRecord damages each byte of a log, and truncates it at each length.
func TestOneDamagedByteCostsOneRecord(t *testing.T) {
	want := []string{"a", "bb", "", strings.Repeat("\xb7", 100), "d", "last"}
	data, ends := build(t, "a", "bb", "sync", "", want[3], "older", "sync", "d", "last")
	if got, lost, err := salvageBytes(data); err != nil || len(lost) > 0 || !slices.Equal(got, want) {
		t.Fatalf("of a whole log: %q, lost %v, %v", got, lost, err)
	}
	for i := range data {
		for bit := range 8 {
			damaged := bytes.Clone(data)
			damaged[i] ^= 1 << bit
			record, _ := slices.BinarySearch(ends, int64(i)+1) // 0 is the file header
			left, bad := want, stretch{0, fileHeaderSize}
			if record > 0 {
				left = slices.Delete(slices.Clone(want), record-1, record)
				bad = stretch{ends[record-1], ends[record]}
			}
			got, lost, err := salvageBytes(damaged)
			if err != nil || !slices.Equal(got, left) || !slices.Equal(lost, []stretch{bad}) {
				t.Errorf("byte %d bit %d: %q, lost %v, %v; want %q, lost %v", i, bit, got, lost, err, left, bad)
			}
		}
		got, lost, err := salvageBytes(data[:i])
		whole := 0
		for whole < len(want) && ends[whole+1] <= int64(i) {
			whole++
		}
		zeros := i > fileHeaderSize && len(bytes.Trim(data[ends[whole]:i], "\x00")) == 0 // like reserved space
		clean := i == 0 || slices.Contains(ends, int64(i)) || zeros
		if err != nil || !slices.Equal(got, want[:whole]) || (len(lost) > 0) == clean {
			t.Errorf("%d bytes: %q, lost %v, %v; want %q", i, got, lost, err, want[:whole])
		}
		got, lost, err = salvageBytes(append(bytes.Clone(data[:i]), make([]byte, 600)...))
		if err != nil || !slices.Equal(got[:whole], want[:whole]) {
			t.Errorf("%d bytes and zeros: %q, lost %v, %v; want %q", i, got, lost, err, want[:whole])
		}
	}
}

func TestManyDamagesCostTheirRecords(t *testing.T) {
	var steps, want []string
	for i := range 2000 {
		steps = append(steps, fmt.Sprintf("%04d%s", i, strings.Repeat("p", i*7%3000)))
	}
	data, ends := build(t, steps...)
	data = append(data, make([]byte, 100_000)...) // reserved
	copy(data[:fileHeaderSize], "nothing of a header")
	for i := range steps {
		if i%10 == 3 || i > 500 && i < 700 {
			data[ends[i]+int64(i%29)]++
		} else {
			want = append(want, steps[i])
		}
	}
	got, lost, err := salvageBytes(data)
	if err != nil || !slices.Equal(got, want) || len(lost) != 181+1 {
		t.Errorf("%d records of %d, %d stretches lost, %v", len(got), len(want), len(lost), err)
	}
}

func TestSalvageRefusesALogOfTheFuture(t *testing.T) {
	data, _ := build(t, "a")
	data[8]++
	fixFile(data)
	if _, _, err := salvageBytes(data); !errors.Is(err, ErrUnsupportedVersion) || isCorrupt(err) {
		t.Errorf("error is %v, want %v", err, ErrUnsupportedVersion)
	}
}

func TestSalvageReturnsTheErrorOfEach(t *testing.T) {
	data, _ := build(t, "a", "b")
	fail := func([]byte, int64) error { return errDisk }
	err := Salvage(t.Context(), &file{data: data}, "x", testNumber, fail, nil)
	if !errors.Is(err, errDisk) {
		t.Errorf("error is %v, want %v", err, errDisk)
	}
}

// counted counts the bytes that are read.
type counted struct {
	*file
	bytes int64
}

func (c *counted) ReadAt(b []byte, off int64) (int, error) {
	c.bytes += int64(len(b))
	return c.file.ReadAt(b, off)
}

// A log of valid headers only, each for a payload up to the end with a wrong checksum, is read a few times and not once
// for each.
func TestHeadersWithoutPayloadsTakeNoQuadraticTime(t *testing.T) {
	const n = 20_000
	data, _ := build(t)
	for i := range n {
		left := (n - 1 - i) * recordHeaderSize
		h := recordHeader{payloadCRC: 1, length: uint32(left), salt: saltOf(testID)}
		data = appendRecordHeader(data, h, testNumber, int64(len(data)))
	}
	f := &counted{file: &file{data: data}}
	each, lost := func([]byte, int64) error { return nil }, func(int64, int64, error) {}
	err := Salvage(t.Context(), f, "x", testNumber, each, lost)
	if limit := int64(40 * len(data)); err != nil || f.bytes > limit {
		t.Errorf("read %d bytes of a log of %d, want at most %d; %v", f.bytes, len(data), limit, err)
	}
}

func TestSalvageReadsAroundABadSector(t *testing.T) {
	var steps []string
	for i := range 1000 {
		steps = append(steps, fmt.Sprintf("record %04d", i))
	}
	data, ends := build(t, steps...)
	var want []string
	for i, s := range steps {
		if ends[i+1] <= 8192 || ends[i] >= 12288 {
			want = append(want, s)
		}
	}
	var got []string
	err := Salvage(t.Context(), &sectorFile{&file{data: data}}, "x", testNumber, func(p []byte, _ int64) error {
		got = append(got, string(p))
		return nil
	}, func(_, _ int64, reason error) {
		if !errors.Is(reason, errDisk) {
			t.Errorf("reason is %v, want %v", reason, errDisk)
		}
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d records, want %d; %v", len(got), len(want), err)
	}
}

// sectorFile cannot be read from 8192 to 12288.
type sectorFile struct{ *file }

func (f *sectorFile) ReadAt(b []byte, off int64) (int, error) {
	if off < 12288 && off+int64(len(b)) > 8192 {
		return 0, errDisk
	}
	n, err := f.file.ReadAt(b, off)
	if errors.Is(err, io.EOF) && n == len(b) {
		err = nil
	}
	return n, err
}

// FuzzSalvage checks that Salvage finds at least the records that Replay finds, and that each byte is read or lost
// once.
func FuzzSalvage(f *testing.F) {
	whole, ends, _ := promised(f)
	f.Add(whole, uint8(0))
	for _, at := range []int64{0, 20, ends[0], ends[1] + 9, ends[3] + 22} {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 0x81
		f.Add(damaged, uint8(0))
		f.Add(damaged, uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, fix uint8) {
		if fix&1 != 0 {
			fixAll(data, fix&2 != 0)
		}
		replayed, _, err := replayBytes(data)
		got, lost, salvageErr := salvageBytes(data)
		if salvageErr != nil {
			if err == nil || !errors.Is(salvageErr, ErrUnsupportedVersion) {
				t.Fatalf("error is %v, of Replay %v", salvageErr, err)
			}
			return
		}
		if len(got) < len(replayed) || !slices.Equal(got[:len(replayed)], replayed) {
			t.Fatalf("%q, of Replay %q", got, replayed)
		}
		bytesOf := int64(fileHeaderSize)
		for _, p := range got {
			bytesOf += recordHeaderSize + int64(len(p))
		}
		for i, l := range lost {
			if i > 0 && l.from < lost[i-1].to {
				t.Fatalf("lost %v", lost)
			}
			if l.from > 0 {
				bytesOf += l.to - l.from
			}
		}
		n := int64(len(data))
		if n >= fileHeaderSize && bytesOf > n || bytesOf < n && len(bytes.Trim(data[bytesOf:], "\x00")) > 0 {
			t.Fatalf("%d bytes are read or lost, the log has %d", bytesOf, n)
		}
	})
}
