package wal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// A Source is the file that Replay reads; vfs.File implements it.
type Source interface {
	io.ReaderAt
	Size() (int64, error)
}

// A Result describes a log, and what it promises about the logs before it.
type Result struct {
	Records int   // intact records, before a torn one
	End     int64 // end of the last of them, in bytes; 0 if even the file header is torn
	Size    int64 // of the file

	// Reserved is the number of zero bytes at the end of the file: reserved space, or what a loss of power left of
	// records that no promise covers.
	Reserved int64

	Torn   bool  // after the records, at End, follows something else, and no promise covers it
	Reason error // its defect; nil unless Torn

	// Behind is the number of this log's record headers found behind a torn or damaged record, and NextAt is the offset
	// of the first. The bytes between End and NextAt cannot be read, and the records behind are lost with them.
	Behind int
	NextAt int64

	// The strongest promises of all headers of this log in the file, including those after a torn record, whose
	// payloads are not returned: their promises are true nonetheless.
	Promise      int64 // the log was durable up to here, in bytes; 0 without a promise
	OlderDurable bool  // every log with a smaller number was durable in full
}

const (
	readChunk = 256 << 10
	scanChunk = 256 << 10
)

// Replay reads the log with that number from its beginning and calls each for every intact record, with its payload,
// valid until each returns, and the offset of the record's end. each may be nil if only the Result is wanted; its error
// stops the replay and is returned unchanged.
//
// A log ends at its last byte, or where only zeros follow (Reserved), or, after a crash, at the first bytes that are
// not a record: then the Result is Torn, and nothing behind them is returned. The caller knows whether this log may be
// torn: it may not if it was closed cleanly or another log's OlderDurable covers it. If a header behind the torn bytes
// promises that the log was durable beyond them, or a valid header has values that no Writer writes, the log is
// damaged: the error matches corrupt.Err and has the offset. An error of reading is returned wrapped. In any case the
// Result is filled in as far as the replay came.
//
// The time is linear in the file's size, whatever its content. A file longer than MaxSize is damaged, and none of it is
// read. The memory is at most that of the largest record; a length is trusted only within the file's size (I30).
func Replay(f Source, name string, number uint64, each func(payload []byte, end int64) error) (Result, error) {
	size, err := f.Size()
	if err != nil {
		return Result{}, fmt.Errorf("size of %s: %w", name, err)
	}
	if size > MaxSize {
		return Result{Size: size}, corrupt.Newf(name, MaxSize, "%d bytes, want at most %d", size, int64(MaxSize))
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
	first := head[:min(size, fileHeaderSize)]
	if err := r.read(in, first); err != nil {
		return err
	}
	salt, err := ParseFileHeader(first, r.number)
	if err != nil {
		return r.stop(err)
	}
	r.salt = salt
	r.result.End = fileHeaderSize

	var payload []byte
	for r.result.End < size {
		left := size - r.result.End - recordHeaderSize
		if left < 0 {
			n := left + recordHeaderSize
			return r.stop(fmt.Errorf("%w record: %d bytes, want %d", errBroken, n, recordHeaderSize))
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
		if err := h.Check(payload); err != nil {
			return r.stop(err)
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

// header parses the header at End, with left bytes of file behind it.
func (r *replay) header(b []byte, left int64) (RecordHeader, error) {
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
	}
	return h, h.CheckLength(left)
}

func (r *replay) note(h RecordHeader) {
	r.result.Promise = max(r.result.Promise, h.promise)
	r.result.OlderDurable = r.result.OlderDurable || h.flags&flagOlder != 0
}

// stop ends the replay at End, for that reason. The rest of the log is zeros, torn or damaged.
func (r *replay) stop(reason error) error {
	at := r.result.End
	if errors.Is(reason, ErrUnsupportedVersion) || errors.Is(reason, ErrTooLarge) {
		return fmt.Errorf("%s: offset %d: %w", r.name, at, reason)
	}
	zero, err := r.search(at)
	switch {
	case err != nil:
		return err
	case !errors.Is(reason, errBroken):
		return corrupt.At(r.name, at, reason)
	case zero && at > 0:
		r.result.Reserved = r.result.Size - at
		return nil
	case r.result.Promise > at:
		return corrupt.Newf(r.name, at, "%w; a later record says it was durable up to %d", reason, r.result.Promise)
	}
	r.result.Torn, r.result.Reason = true, reason
	return nil
}

// allZero reports whether b, which is not empty, has only zeros.
func allZero(b []byte) bool { return b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1]) }

// search notes the promises of every header of this log from an offset on, and reports whether the file has only zeros
// from there on. It neither skips nor checks payloads: a wrong length could hide a promise, and a header proves itself.
// It reads each byte once.
func (r *replay) search(from int64) (zero bool, err error) {
	buf := make([]byte, min(scanChunk, r.result.Size-from))
	zero = true
	for base := from; base < r.result.Size; {
		buf = buf[:min(int64(len(buf)), r.result.Size-base)]
		if err := r.read(io.NewSectionReader(r.f, base, int64(len(buf))), buf); err != nil {
			return false, err
		}
		zero = zero && allZero(buf)
		for o := 0; ; o++ {
			i, h := FindHeader(buf[o:], r.number, r.salt, base+int64(o))
			if i < 0 {
				break
			}
			o += i
			r.note(h)
			offset := base + int64(o)
			if offset == r.result.End { // the header of the record that is torn or damaged
				continue
			}
			if r.result.Behind == 0 {
				r.result.NextAt = offset
			}
			r.result.Behind++
		}
		if base += int64(len(buf)); base < r.result.Size {
			base -= recordHeaderSize - 1 // a header may begin there
		}
	}
	return zero, nil
}

func (r *replay) read(in io.Reader, b []byte) error {
	if _, err := io.ReadFull(in, b); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // the file was longer when it was opened
		}
		return fmt.Errorf("%s: offset %d: %w", r.name, r.result.End, err)
	}
	return nil
}
