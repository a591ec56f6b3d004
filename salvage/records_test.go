package salvage

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/wal"
)

const (
	testNumber = 7
	testID     = 0x0123456789abcdef
)

// A logFile is a log in memory.
type logFile struct {
	data   []byte
	size   int64                      // if not 0, zeros follow up to it
	bytes  int64                      // read
	onRead func(from, to int64) error // may be nil
}

func (f *logFile) Write(b []byte) (int, error) {
	f.data = append(f.data, b...)
	return len(b), nil
}

func (f *logFile) Sync() error          { return nil }
func (f *logFile) Close() error         { return nil }
func (f *logFile) Size() (int64, error) { return cmp.Or(f.size, int64(len(f.data))), nil }

func (f *logFile) ReadAt(b []byte, off int64) (int, error) {
	f.bytes += int64(len(b))
	if f.onRead != nil {
		if err := f.onRead(off, off+int64(len(b))); err != nil {
			return 0, err
		}
	}
	n := copy(b, f.data[min(off, int64(len(f.data))):])
	if f.size != 0 {
		clear(b[n:])
		n = len(b)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

var errDisk = errors.New("disk on fire")

// buildLog writes a log. Each step is a payload, or "sync" or "older" for a promise. It returns where the file header
// and each record ends.
func buildLog(tb testing.TB, steps ...string) (data []byte, ends []int64) {
	tb.Helper()
	f := new(logFile)
	w, err := wal.NewWriter(f, testNumber, testID)
	must(tb, err)
	ends = append(ends, w.Size())
	for _, s := range steps {
		switch s {
		case "sync":
			must(tb, w.Sync())
		case "older":
			w.SetOlderDurable()
		default:
			must(tb, w.Append(append(make([]byte, wal.HeaderSize), s...)))
			ends = append(ends, w.Size())
		}
	}
	return f.data, ends
}

// seal corrects the checksum of a record's header, which lies at offset.
func seal(h []byte, offset int64) {
	h[23] = 0xb7
	number := uint64(testNumber)
	seed := uint32((number*0x9e3779b97f4a7c15 ^ uint64(offset)*0xc2b2ae3d27d4eb4f) >> 32)
	binary.LittleEndian.PutUint32(h, crc32.Update(seed, castagnoli, h[4:wal.HeaderSize]))
}

// sealFile corrects the checksum of the file header.
func sealFile(data []byte) {
	sum := crc32.Update(crc32.Checksum(data[:12], castagnoli), castagnoli, data[16:wal.FirstRecord])
	binary.LittleEndian.PutUint32(data[12:], sum)
}

// sealAll corrects all checksums of a log, following the length of each record to the next; with fields, also the salts
// and, from head, the fields of the file header.
func sealAll(data, head []byte, fields bool) {
	if len(data) < wal.FirstRecord {
		return
	}
	if fields {
		copy(data[:24], head)
	}
	sealFile(data)
	salt, _ := wal.ParseFileHeader(data[:wal.FirstRecord], testNumber)
	for at := wal.FirstRecord; at+wal.HeaderSize <= len(data); {
		h, rest := data[at:at+wal.HeaderSize], data[at+wal.HeaderSize:]
		n := int64(binary.LittleEndian.Uint32(h[8:]))
		if fields {
			binary.LittleEndian.PutUint32(h[12:], salt)
		}
		if n <= int64(len(rest)) {
			binary.LittleEndian.PutUint32(h[4:], crc32.Checksum(rest[:n], castagnoli))
		}
		seal(h, int64(at))
		if n > int64(len(rest)) {
			return
		}
		at += wal.HeaderSize + int(n)
	}
}

// A stretch is a range of bytes of a file.
type stretch struct{ from, to int64 }

func recordsIn(data []byte) (payloads []string, lost []stretch, err error) {
	f, name := &logFile{data: data}, "000007.log"
	err = readRecords(context.Background(), f, name, testNumber, func(p []byte, at int64) error {
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
	data, ends := buildLog(t, "a", "bb", "sync", "", want[3], "older", "sync", "d", "last")
	if got, lost, err := recordsIn(data); err != nil || len(lost) > 0 || !slices.Equal(got, want) {
		t.Fatalf("of a whole log: %q, lost %v, %v", got, lost, err)
	}
	for i := range data {
		for bit := range 8 {
			damaged := bytes.Clone(data)
			damaged[i] ^= 1 << bit
			record, _ := slices.BinarySearch(ends, int64(i)+1) // 0 is the file header
			left, bad := want, stretch{0, wal.FirstRecord}
			if record > 0 {
				left = slices.Delete(slices.Clone(want), record-1, record)
				bad = stretch{ends[record-1], ends[record]}
			}
			got, lost, err := recordsIn(damaged)
			if err != nil || !slices.Equal(got, left) || !slices.Equal(lost, []stretch{bad}) {
				t.Errorf("byte %d bit %d: %q, lost %v, %v; want %q, lost %v", i, bit, got, lost, err, left, bad)
			}
		}
		got, lost, err := recordsIn(data[:i])
		whole := 0
		for whole < len(want) && ends[whole+1] <= int64(i) {
			whole++
		}
		zeros := i > wal.FirstRecord && len(bytes.Trim(data[ends[whole]:i], "\x00")) == 0 // like reserved space
		clean := i == 0 || slices.Contains(ends, int64(i)) || zeros
		if err != nil || !slices.Equal(got, want[:whole]) || (len(lost) > 0) == clean {
			t.Errorf("%d bytes: %q, lost %v, %v; want %q", i, got, lost, err, want[:whole])
		}
		got, lost, err = recordsIn(append(bytes.Clone(data[:i]), make([]byte, 600)...))
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
	data, ends := buildLog(t, steps...)
	data = append(data, make([]byte, 100_000)...) // reserved
	copy(data[:wal.FirstRecord], "nothing of a header")
	for i := range steps {
		if i%10 == 3 || i > 500 && i < 700 {
			data[ends[i]+int64(i%29)]++
		} else {
			want = append(want, steps[i])
		}
	}
	got, lost, err := recordsIn(data)
	if err != nil || !slices.Equal(got, want) || len(lost) != 181+1 {
		t.Errorf("%d records of %d, %d stretches lost, %v", len(got), len(want), len(lost), err)
	}
}

// TestARecordBehindOneLostByteIsFound has a byte between the header of the file and the only record.
func TestARecordBehindOneLostByteIsFound(t *testing.T) {
	for _, payload := range []string{"a", ""} {
		data, _ := buildLog(t, payload)
		data = slices.Insert(data, wal.FirstRecord, 0xff)
		seal(data[wal.FirstRecord+1:], wal.FirstRecord+1)
		got, lost, err := recordsIn(data)
		if err != nil || !slices.Equal(got, []string{payload}) ||
			!slices.Equal(lost, []stretch{{wal.FirstRecord, wal.FirstRecord + 1}}) {
			t.Errorf("%q, lost %v, %v; want the record %q and the byte", got, lost, err, payload)
		}
	}
}

// TestALossOfACutRecordSaysWhatIsMissing cuts a log within a header and within a payload.
func TestALossOfACutRecordSaysWhatIsMissing(t *testing.T) {
	data, ends := buildLog(t, "a", "bb")
	for cut, want := range map[int64]string{
		ends[1] + 10: "10 bytes, want 24",
		ends[2] - 1:  "1 bytes of payload, want 2",
	} {
		var got error
		err := readRecords(t.Context(), &logFile{data: data[:cut]}, "x", testNumber,
			func([]byte, int64) error { return nil }, func(_, _ int64, reason error) { got = reason })
		if err != nil || got == nil || !strings.Contains(got.Error(), want) {
			t.Errorf("%d bytes of %d: lost for %v, %v; want %q", cut, len(data), got, err, want)
		}
	}
}

func TestALogOfTheFutureIsRefused(t *testing.T) {
	data, _ := buildLog(t, "a")
	data[8]++
	sealFile(data)
	_, _, err := recordsIn(data)
	if !errors.Is(err, wal.ErrUnsupportedVersion) || errors.Is(err, corrupt.Err) {
		t.Errorf("error is %v, want %v", err, wal.ErrUnsupportedVersion)
	}
	data[wal.FirstRecord-1] = 0 // so that zeros behind the end complete it
	sealFile(data)
	const part = wal.FirstRecord - 1
	if _, lost, err := recordsIn(data[:part]); err != nil || !slices.Equal(lost, []stretch{{0, part}}) {
		t.Errorf("of a part of its file header: lost %v, %v; want all of it, and no version", lost, err)
	}
}

func TestAnErrorOfEachEndsTheLog(t *testing.T) {
	data, _ := buildLog(t, "a", "b")
	fail := func([]byte, int64) error { return errDisk }
	err := readRecords(t.Context(), &logFile{data: data}, "x", testNumber, fail, nil)
	if !errors.Is(err, errDisk) {
		t.Errorf("error is %v, want %v", err, errDisk)
	}
}

// A log of valid headers only, each for a payload up to the end with a wrong checksum, is read a few times and not once
// for each.
func TestHeadersWithoutPayloadsTakeNoQuadraticTime(t *testing.T) {
	const n = 20_000
	data, _ := buildLog(t)
	salt, err := wal.ParseFileHeader(data, testNumber)
	must(t, err)
	for i := range n {
		at := len(data)
		data = append(data, make([]byte, wal.HeaderSize)...)
		h := data[at:]
		binary.LittleEndian.PutUint32(h[4:], 1) // checksum of the payload
		binary.LittleEndian.PutUint32(h[8:], uint32((n-1-i)*wal.HeaderSize))
		binary.LittleEndian.PutUint32(h[12:], salt)
		seal(h, int64(at))
	}
	f := &logFile{data: data}
	found := 0
	each, lost := func([]byte, int64) error { found++; return nil }, func(int64, int64, error) {}
	err = readRecords(t.Context(), f, "x", testNumber, each, lost)
	if limit := int64(40 * len(data)); err != nil || f.bytes > limit || found > 1 { // the last has no payload
		t.Errorf("read %d bytes of a log of %d, want at most %d; %d records, %v", f.bytes, len(data), limit, found, err)
	}
}

func TestABadSectorCostsItsRecords(t *testing.T) {
	var steps []string
	for i := range 1000 {
		steps = append(steps, fmt.Sprintf("record %04d", i))
	}
	data, ends := buildLog(t, steps...)
	var want []string
	for i, s := range steps {
		if ends[i+1] <= 8192 || ends[i] >= 12288 {
			want = append(want, s)
		}
	}
	var got []string
	f := &logFile{data: data, onRead: func(from, to int64) error {
		if from < 12288 && to > 8192 {
			return errDisk
		}
		return nil
	}}
	err := readRecords(t.Context(), f, "x", testNumber, func(p []byte, _ int64) error {
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

func TestARecordBehindTheLargestSizeIsLostAndNotRead(t *testing.T) {
	data, _ := buildLog(t, "a", "b")
	f := &logFile{data: data, size: 8 << 40}
	var got []string
	var lost []stretch
	err := readRecords(t.Context(), f, "x", testNumber, func(p []byte, _ int64) error {
		got = append(got, string(p))
		return nil
	}, func(from, to int64, _ error) { lost = append(lost, stretch{from, to}) })
	if want := []stretch{{wal.MaxSize, f.size}}; err != nil || !slices.Equal(got, []string{"a", "b"}) ||
		!slices.Equal(lost, want) {
		t.Errorf("records %q, lost %v, %v; want a, b and %v", got, lost, err, want)
	}
	if limit := int64(4 * wal.MaxSize); f.bytes > limit {
		t.Errorf("read %d bytes, want at most %d", f.bytes, limit)
	}
}

func TestASearchForRecordsEndsWithItsContext(t *testing.T) {
	data, _ := buildLog(t, "a", "b")
	for _, reads := range []int{0, 1, 2, 100} {
		ctx, cancel := context.WithCancel(t.Context())
		f := &logFile{data: data, size: wal.MaxSize}
		f.onRead = func(int64, int64) error {
			if reads--; reads < 0 {
				cancel()
			}
			return nil
		}
		each := func([]byte, int64) error { return nil }
		err := readRecords(ctx, f, "x", testNumber, each, func(from, to int64, _ error) {
			t.Errorf("lost %d to %d, want no loss that is none", from, to)
		})
		if limit := int64(110 * chunk); !errors.Is(err, context.Canceled) || f.bytes > limit {
			t.Errorf("error is %v, read %d bytes; want %v and at most %d", err, f.bytes, context.Canceled, limit)
		}
		cancel()
	}
}

// FuzzRecords checks that at least the records that wal.Replay finds are found, and that each byte is read or lost
// once.
func FuzzRecords(f *testing.F) {
	whole, ends := buildLog(f, "a", "bb", "sync", "", "cccc", "older", "sync", "d", "sync", "last")
	f.Add(whole, uint8(0))
	for _, at := range []int64{0, 20, ends[0], ends[1] + 9, ends[3] + 22} {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 0x81
		f.Add(damaged, uint8(0))
		f.Add(damaged, uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, fix uint8) {
		if fix&1 != 0 {
			sealAll(data, whole, fix&2 != 0)
		}
		var replayed []string
		_, err := wal.Replay(&logFile{data: data}, "x", testNumber, func(p []byte, _ int64) error {
			replayed = append(replayed, string(p))
			return nil
		})
		got, lost, failed := recordsIn(data)
		if failed != nil {
			if err == nil || !errors.Is(failed, wal.ErrUnsupportedVersion) {
				t.Fatalf("error is %v, of Replay %v", failed, err)
			}
			return
		}
		if len(got) < len(replayed) || !slices.Equal(got[:len(replayed)], replayed) {
			t.Fatalf("%q, of Replay %q", got, replayed)
		}
		bytesOf := int64(wal.FirstRecord)
		for _, p := range got {
			bytesOf += wal.HeaderSize + int64(len(p))
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
		if n >= wal.FirstRecord && bytesOf > n || bytesOf < n && len(bytes.Trim(data[bytesOf:], "\x00")) > 0 {
			t.Fatalf("%d bytes are read or lost, the log has %d", bytesOf, n)
		}
	})
}
