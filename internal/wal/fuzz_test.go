package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// FuzzReplay reads any bytes, with or without corrected checksums, as a log. Appending what is replayed must write the
// same bytes, and an error must be one of the three that a log's content can cause.
func FuzzReplay(f *testing.F) {
	whole, ends, _ := promised(f)
	f.Add(whole, uint8(0))
	f.Add(whole[:len(whole)-1], uint8(1))
	f.Add(whole[:fileHeaderSize+1], uint8(1))
	f.Add(append(bytes.Clone(whole), make([]byte, 100)...), uint8(0))
	f.Add(append(append(bytes.Clone(whole), make([]byte, 100)...), 1), uint8(0))
	for _, at := range []int64{
		0, 8, 20, ends[0], ends[0] + 8, ends[1] + 9, ends[1] + 11, ends[2] + 16, ends[3] + 22, ends[4] + 12,
	} {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 0x81
		f.Add(damaged, uint8(0))
		f.Add(damaged, uint8(1))
		f.Add(damaged, uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, fix uint8) {
		if fix&1 != 0 {
			fixAll(data, fix&2 != 0)
		}
		at := int64(fileHeaderSize)
		var last RecordHeader
		r, err := Replay(&file{data: data}, "x", testNumber, func(payload []byte, end int64) error {
			h, ok := parseRecordHeader(data[at:at+recordHeaderSize], testNumber, at)
			again := append(appendRecordHeader(nil, h, testNumber, at), payload...)
			if !ok || !bytes.Equal(again, data[at:end]) {
				t.Fatalf("record at %d is %x, and again %x", at, data[at:end], again)
			}
			if h.promise < last.promise || h.promise > at {
				t.Fatalf("record at %d promises %d after %d", at, h.promise, last.promise)
			}
			at, last = end, h
			return nil
		})
		if err != nil && !isCorrupt(err) && !errors.Is(err, ErrUnsupportedVersion) && !errors.Is(err, ErrTooLarge) {
			t.Fatalf("error is %v", err)
		}
		if r.End != at && r.End != 0 || r.End > r.Size || r.Size != int64(len(data)) {
			t.Fatalf("result is %+v, last record ends at %d", r, at)
		}
		if r.Reserved != 0 && (r.Reserved != r.Size-r.End || r.End == 0 || len(bytes.Trim(data[r.End:], "\x00")) > 0) {
			t.Fatalf("result is %+v", r)
		}
		if err == nil && (r.Torn != (r.End+r.Reserved != r.Size || r.End == 0) || r.Torn && r.Promise > r.End) {
			t.Fatalf("result is %+v", r)
		}
		if r.End == 0 {
			return
		}
		id := binary.LittleEndian.Uint64(data[24:])
		if again := appendFileHeader(nil, testNumber, id); !bytes.Equal(again, data[:fileHeaderSize]) {
			t.Fatalf("file header is %x, and again %x", data[:fileHeaderSize], again)
		}
	})
}

// fixAll corrects all checksums of data, following the length of each record to the next; with fields, also the magic,
// the version, the number and the salts.
func fixAll(data []byte, fields bool) {
	if len(data) < fileHeaderSize {
		return
	}
	if fields {
		copy(data, appendFileHeader(nil, testNumber, binary.LittleEndian.Uint64(data[24:])))
	}
	fixFile(data)
	salt := saltOf(binary.LittleEndian.Uint64(data[24:]))
	for at := int64(fileHeaderSize); at+recordHeaderSize <= int64(len(data)); {
		if fields {
			binary.LittleEndian.PutUint32(data[at+saltAt:], salt)
		}
		fixRecord(data, at, true)
		at += recordHeaderSize + int64(binary.LittleEndian.Uint32(data[at+8:]))
	}
}
