package wal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/step"
)

// A Sink is the file that a Writer writes; vfs.File implements it. Sync may be called concurrently with Write.
type Sink interface {
	io.Writer
	io.Closer
	Sync() error
	Size() (int64, error)
}

// A Reserver is a Sink that can be extended ahead of what is written; see vfs.Reserver.
type Reserver interface {
	Reserve(n int64) error
}

const (
	// The space reserved ahead: little for a log that may stay small, then twice as much each time, up to where more
	// gains nothing.
	firstReserve = 64 << 10
	maxReserve   = 4 << 20

	maxEnd = MaxSize - maxReserve // of the last record, so that no reservation makes the file too long
)

// A Writer appends to one log.
//
//	NewWriter (Append | StopReserving | Sync | SyncTo | SetOlderDurable)* Close
//
// Only one goroutine at a time may call Append or StopReserving; all other methods may be called at any time by any.
// The first error of a write or a sync stays: from then on the content of the file is unknown, nothing more is written,
// and Append and Sync return that error (I5, I21).
type Writer struct {
	// constant after NewWriter
	f      Sink
	number uint64
	salt   uint32

	// used by Append
	reserver    Reserver // nil: nothing is reserved
	reserved    int64    // end of the reserved bytes
	nextReserve int64    // bytes to reserve next

	size   atomic.Int64 // stored by Append, after its bytes are written
	synced atomic.Int64 // stored by Sync
	older  atomic.Bool
	failed atomic.Pointer[error]

	// syncing lets one Sync run at a time: a kernel may report a failure to only one of two that overlap. It is held
	// during the file's Sync; no other lock of this package exists.
	syncing step.Mutex
}

// NewWriter begins the log with that number in an empty file. The Writer owns the file from here on; if NewWriter
// fails, it closes the file. The id should be random: it distinguishes this file from any other with the same number.
func NewWriter(f Sink, number, id uint64) (*Writer, error) { return begin(f, nil, number, id, 0) }

// NewReserving calls NewWriter for a log that will have many small records: the Writer reserves space ahead of them, if
// the file is a Reserver, and the file then ends in zeros. The log is expected to have that many bytes, 0 if that is
// unknown.
func NewReserving(f Sink, number, id uint64, expected int64) (*Writer, error) {
	r, _ := f.(Reserver)
	return begin(f, r, number, id, min(max(expected, firstReserve), maxReserve))
}

// begin begins a log that reserves that many bytes first, if r is not nil.
func begin(f Sink, r Reserver, number, id uint64, reserve int64) (*Writer, error) {
	w := &Writer{f: f, number: number, salt: saltOf(id), reserver: r, nextReserve: reserve}
	size, err := f.Size()
	if err == nil && size != 0 {
		err = fmt.Errorf("log %d: file has %d bytes, want 0", number, size)
	}
	if err == nil {
		w.reserveFor(0, fileHeaderSize)
		err = w.write(appendFileHeader(nil, number, id))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	w.size.Store(fileHeaderSize)
	return w, nil
}

// Begin returns the beginning of a record for Append, HeaderSize bytes in the memory of b. The payload follows.
func Begin(b []byte) []byte { return append(b[:0], make([]byte, HeaderSize)...) }

// Append writes one record: HeaderSize bytes, which Append fills in, and the payload, whose end may be in more slices,
// so that a large payload need not be copied. If it returns nil, the record has reached the operating system; after an
// error any part of it may be in the file. A payload over MaxPayload is refused with ErrTooLarge before anything is
// written, and the Writer stays usable. Append does not keep the slices.
func (w *Writer) Append(record []byte, more ...[]byte) error {
	if err := w.err(); err != nil {
		return err
	}
	payload := record[HeaderSize:]
	length, sum := len(payload), crc32.Checksum(payload, castagnoli)
	for _, b := range more {
		length += len(b)
		sum = crc32.Update(sum, castagnoli, b)
	}
	if length > MaxPayload {
		return fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, length, MaxPayload)
	}
	offset := w.size.Load()
	end := offset + HeaderSize + int64(length)
	if end > maxEnd {
		return fmt.Errorf("%w: log %d would have %d bytes, limit %d", ErrTooLarge, w.number, end, int64(maxEnd))
	}
	h := RecordHeader{
		payloadCRC: sum,
		length:     uint32(length),
		salt:       w.salt,
		promise:    w.synced.Load(),
	}
	if w.older.Load() {
		h.flags = flagOlder
	}
	appendRecordHeader(record[:0], h, w.number, offset)
	w.reserveFor(offset, end)
	if err := w.write(record); err != nil {
		return err
	}
	for _, b := range more {
		if err := w.write(b); err != nil {
			return err
		}
	}
	w.size.Store(end)
	return nil
}

// HasSpace reports whether a record with a payload of n bytes fits into the log.
func (w *Writer) HasSpace(n int64) bool { return w.size.Load()+recordHeaderSize+n <= maxEnd }

// reserveFor reserves more space if the bytes from offset to end do not fit into what is reserved. A record larger than
// the next reservation is written without one. After a failed reservation there are no more: on a full disk, writes use
// what is left.
func (w *Writer) reserveFor(offset, end int64) {
	if end <= w.reserved || w.reserver == nil || end-offset > w.nextReserve {
		return
	}
	if w.reserver.Reserve(w.nextReserve) != nil {
		w.reserver = nil
		return
	}
	w.reserved, w.nextReserve = offset+w.nextReserve, min(2*w.nextReserve, maxReserve)
}

// StopReserving makes the Writer reserve no more space.
func (w *Writer) StopReserving() { w.reserver = nil }

func (w *Writer) write(b []byte) error {
	n, err := w.f.Write(b)
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return w.fail(err)
	}
	return nil
}

// Sync makes everything appended before the call durable. Records appended after it returns carry the promise.
func (w *Writer) Sync() error { return w.SyncTo(math.MaxInt64) }

// SyncTo makes the log durable up to end, an offset in bytes, or to Size if that is less. It does nothing if an earlier
// Sync, or one that is running, has made it durable up to end.
func (w *Writer) SyncTo(end int64) error {
	w.syncing.Lock()
	defer w.syncing.Unlock()
	if w.synced.Load() >= end {
		return nil
	}
	if err := w.err(); err != nil {
		return err
	}
	size := w.size.Load() // before the file's Sync: what an Append adds meanwhile is not promised
	if err := w.f.Sync(); err != nil {
		return w.fail(err)
	}
	w.synced.Store(size)
	return nil
}

// SetOlderDurable makes later records promise that every log with a smaller number is durable in full. Call it once
// that is true.
func (w *Writer) SetOlderDurable() { w.older.Store(true) }

// Size returns the length of the log in bytes, as of the last Append that returned nil, without reserved space.
func (w *Writer) Size() int64 { return w.size.Load() }

// Synced returns the length that is known to be durable.
func (w *Writer) Synced() int64 { return w.synced.Load() }

// Number returns the log's number.
func (w *Writer) Number() uint64 { return w.number }

// Close waits for a running Sync and closes the file without syncing it. An error of Close is an error of the writes
// (I12): what was not synced before may be lost. Later calls return an error matching os.ErrClosed.
func (w *Writer) Close() error {
	w.syncing.Lock()
	defer w.syncing.Unlock()
	if err := w.err(); errors.Is(err, os.ErrClosed) {
		return err
	}
	closed := fmt.Errorf("log %d: %w", w.number, os.ErrClosed)
	w.failed.Store(&closed)
	return w.f.Close()
}

func (w *Writer) err() error {
	if p := w.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// fail records err, wrapped, if it is the first error, and returns the first error.
func (w *Writer) fail(err error) error {
	err = fmt.Errorf("log %d: %w", w.number, err)
	w.failed.CompareAndSwap(nil, &err)
	return w.err()
}
