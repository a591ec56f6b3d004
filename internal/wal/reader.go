package wal

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// A Source is the file Replay reads; vfs.File is one.
type Source interface {
	io.ReaderAt
	Size() (int64, error)
}

// A Result is what a log says about itself and about the logs before it.
type Result struct {
	Records int   // whole records, before a torn one
	End     int64 // where the last of them ends, in bytes; 0 if not even the file header is whole
	Size    int64 // of the file

	// Reserved is how many bytes of zeros follow, up to the end of the file: room that was reserved for records, or what a
	// loss of power left of records that no promise covers.
	Reserved int64

	Torn   bool  // something that is not a record follows, and no promise covers it
	TornAt int64 // where that begins: End
	Reason error // what is wrong with it; nil unless Torn

	// Behind is how many records of this log begin behind a torn or damaged one, by their headers, and NextAt where the first of
	// them does: what is between End and there is what cannot be read, and all of them are lost with it.
	Behind int
	NextAt int64

	// Promises of every header of this log in the file, also of those after a torn record, whose payloads are not
	// returned: what they promise is true all the same.
	Promise      int64 // the log was durable up to here, in bytes; 0 is no promise
	OlderDurable bool  // every log with a smaller number was durable, all of it
}

const (
	readChunk = 256 << 10
	scanChunk = 256 << 10
)

// Replay reads the log of that number from its beginning and calls each for every whole record, with its payload, valid
// until each returns, and the offset at which the record ends. each may be nil, where only the Result is wanted; its error
// stops the replay and is returned as it is.
//
// A log ends at its last byte, or where nothing but zeros follow, Reserved; or, after a crash, at the first thing that is
// not a record: the Result is Torn, and it is for the caller to know whether this log may be (it may not, if it was closed cleanly or another log's OlderDurable covers
// it). Nothing after that is returned. But if a header anywhere behind it promises that the log was durable further than
// that, or if a valid header says what no Writer writes, it is damage: an error that Is corrupt.Err, with the offset. An
// error of reading is returned as it is, wrapped. The Result is filled as far as the replay came in any case.
//
// The time is linear in the file's size, whatever is in it, and the memory at most that of the largest record, which is
// believed only within the file's size.
func Replay(f Source, name string, number uint64, each func(payload []byte, end int64) error) (Result, error) {
	size, err := f.Size()
	if err != nil {
		return Result{}, fmt.Errorf("size of %s: %w", name, err)
	}
	r := &replay{f: f, name: name, number: number, result: Result{Size: size}}
	err = r.run(each)
	return r.result, err
}

type replay struct {
	f      Source
	name   string
	number uint64
	salt   uint32 // 0 until the file header is read
	result Result
}

func (r *replay) run(each func(payload []byte, end int64) error) error {
	size := r.result.Size
	in := bufio.NewReaderSize(io.NewSectionReader(r.f, 0, size), int(min(size+1, readChunk)))
	var head [fileHeaderSize]byte
	if size < fileHeaderSize {
		return r.stop(fmt.Errorf("%w file header: %d bytes, want %d", errBroken, size, fileHeaderSize))
	}
	if err := r.read(in, head[:]); err != nil {
		return err
	}
	id, err := parseFileHeader(head[:], r.number)
	if err != nil {
		return r.stop(err)
	}
	r.salt = saltOf(id)
	r.result.End = fileHeaderSize

	var payload []byte
	for r.result.End < size {
		left := size - r.result.End - recordHeaderSize
		if left < 0 {
			return r.stop(fmt.Errorf("%w record: %d bytes, want %d", errBroken, left+recordHeaderSize, recordHeaderSize))
		}
		if err := r.read(in, head[:recordHeaderSize]); err != nil {
			return err
		}
		h, err := r.header(head[:recordHeaderSize], left)
		if err != nil {
			return r.stop(err)
		}
		if int64(h.length) > int64(cap(payload)) {
			payload = make([]byte, h.length)
		}
		payload = payload[:h.length]
		if err := r.read(in, payload); err != nil {
			return err
		}
		if got := crc32.Checksum(payload, castagnoli); got != h.payloadCRC {
			return r.stop(fmt.Errorf("%w record: payload checksum %08x, want %08x", errBroken, got, h.payloadCRC))
		}
		r.result.Records++
		r.result.End += recordHeaderSize + int64(h.length)
		r.note(h)
		if each == nil {
			continue
		}
		if err := each(payload, r.result.End); err != nil {
			return err
		}
	}
	return nil
}

// header reads the header at End, which has left bytes of file behind it.
func (r *replay) header(b []byte, left int64) (recordHeader, error) {
	offset := r.result.End
	h, ok := parseRecordHeader(b, r.number, offset)
	switch {
	case !ok:
		return h, fmt.Errorf("%w record: header %x", errBroken, b)
	case h.salt != r.salt:
		return h, fmt.Errorf("%w record: salt %08x, want %08x", errBroken, h.salt, r.salt)
	case h.flags&^flagOlder != 0:
		return h, fmt.Errorf("record: flags %#x, want at most %#x", h.flags, flagOlder)
	case h.promise > offset || h.promise < r.result.Promise:
		return h, fmt.Errorf("record: promise %d, want %d..%d", h.promise, r.result.Promise, offset)
	case r.result.OlderDurable && h.flags&flagOlder == 0:
		return h, errors.New("record: older logs are no longer durable")
	case h.length > maxLength:
		return h, fmt.Errorf("record: length %d, want at most %d", h.length, maxLength)
	case int64(h.length) > left:
		return h, fmt.Errorf("%w record: %d bytes of payload, want %d", errBroken, left, h.length)
	case h.length > MaxPayload:
		return h, fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, h.length, MaxPayload)
	}
	return h, nil
}

func (r *replay) note(h recordHeader) {
	r.result.Promise = max(r.result.Promise, h.promise)
	r.result.OlderDurable = r.result.OlderDurable || h.flags&flagOlder != 0
}

// behind counts a header that is not that of the record at End.
func (r *replay) behind(offset int64) {
	if offset == r.result.End {
		return
	}
	if r.result.Behind == 0 {
		r.result.NextAt = offset
	}
	r.result.Behind++
}

// stop ends the replay at End, for that reason: the log has only zeros from there on, is torn there, or damaged.
func (r *replay) stop(reason error) error {
	at := r.result.End
	switch {
	case errors.Is(reason, ErrUnsupportedVersion), errors.Is(reason, ErrTooLarge):
		return fmt.Errorf("%s: offset %d: %w", r.name, at, reason)
	case !errors.Is(reason, errBroken):
		if err := r.search(at); err != nil {
			return err
		}
		return corrupt.At(r.name, at, reason)
	}
	if at > 0 {
		if zero, err := r.zeros(at); err != nil {
			return err
		} else if zero {
			r.result.Reserved = r.result.Size - at
			return nil
		}
	}
	if err := r.search(at); err != nil {
		return err
	}
	if r.result.Promise > at {
		return corrupt.At(r.name, at, fmt.Errorf("%w; a later record says it was durable up to %d", reason, r.result.Promise))
	}
	r.result.Torn, r.result.TornAt, r.result.Reason = true, at, reason
	return nil
}

// zeros says whether all from an offset on, which lies before the end, is zero: no header is in there then, and no promise.
func (r *replay) zeros(from int64) (bool, error) {
	buf := make([]byte, min(scanChunk, r.result.Size-from))
	for base := from; base < r.result.Size; base += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), r.result.Size-base)]
		if err := r.read(io.NewSectionReader(r.f, base, int64(len(buf))), buf); err != nil {
			return false, err
		}
		if buf[0] != 0 || !bytes.Equal(buf[1:], buf[:len(buf)-1]) {
			return false, nil
		}
	}
	return true, nil
}

// search notes the promise of every header of this log from an offset on. Payloads are neither skipped nor checked: a
// length that lies could hide a promise, and a header proves itself. Each byte is read once.
func (r *replay) search(from int64) error {
	// What to look for and where it stands in a header: the salt; without a file header, the kind.
	pattern, at := binary.LittleEndian.AppendUint32(nil, r.salt), saltAt
	if r.salt == 0 {
		pattern, at = []byte{recordKind}, kindAt
	}
	buf := make([]byte, min(scanChunk, r.result.Size-from))
	for base := from; r.result.Size-base >= recordHeaderSize; base += int64(len(buf)) - recordHeaderSize + 1 {
		buf = buf[:min(int64(len(buf)), r.result.Size-base)]
		if err := r.read(io.NewSectionReader(r.f, base, int64(len(buf))), buf); err != nil {
			return err
		}
		for o := 0; o+recordHeaderSize <= len(buf); o++ {
			// The next place whose pattern, and the header around it, lies in buf.
			i := bytes.Index(buf[o+at:len(buf)-recordHeaderSize+at+len(pattern)], pattern)
			if i < 0 {
				break
			}
			o += i
			if h, ok := parseRecordHeader(buf[o:o+recordHeaderSize], r.number, base+int64(o)); ok {
				r.note(h)
				r.behind(base + int64(o))
			}
		}
	}
	return nil
}

func (r *replay) read(in io.Reader, b []byte) error {
	if _, err := io.ReadFull(in, b); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // the file had more when it was opened
		}
		return fmt.Errorf("%s: offset %d: %w", r.name, r.result.End, err)
	}
	return nil
}
