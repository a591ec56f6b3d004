package wal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// A Sink is the file a Writer writes; vfs.File is one. Sync is called while Write may run.
type Sink interface {
	io.Writer
	io.Closer
	Sync() error
	Size() (int64, error)
}

// A Reserver is a Sink that can be made longer ahead of what is written; a vfs.Reserver is one, and its words hold.
type Reserver interface {
	Reserve(n int64) error
}

const (
	// What is reserved ahead: little for a log that stays small, and then twice as much each time, up to where more gains
	// nothing.
	firstRoom = 64 << 10
	mostRoom  = 4 << 20
)

// A Writer appends to one log.
//
//	NewWriter (Append | Sync | SetOlderDurable)* Close
//
// Append is called by one goroutine at a time; everything else may be called at any time by any. The first error of a
// write or a sync stays: from then on what is in the file is unknown, nothing more is written, and Append and Sync return
// that error (I5, I21).
type Writer struct {
	// constant after NewWriter
	f      Sink
	number uint64
	salt   uint32

	// of Append
	reserve  func(n int64) error // nil: nothing is reserved
	reserved int64               // up to here
	room     int64               // what to reserve next

	size   atomic.Int64 // stored by Append, after its bytes are written
	synced atomic.Int64 // stored by Sync
	older  atomic.Bool
	failed atomic.Pointer[error]

	// syncing lets one Sync run at a time: of two that overlap, a kernel may tell only one of a failure. It is held
	// during the file's Sync and never while another lock of this room is taken; there is none.
	syncing sync.Mutex
}

// NewWriter begins the log of that number in an empty file, which the Writer owns from here on, also after an error. The
// id should be random: it tells this file from any other of its number.
func NewWriter(f Sink, number, id uint64) (*Writer, error) { return begin(f, nil, number, id) }

// NewReserving is NewWriter for a log that will have many small records: room is reserved ahead of them, where the file is a
// Reserver and can do it, and the file ends in zeros.
func NewReserving(f Sink, number, id uint64) (*Writer, error) {
	if r, ok := f.(Reserver); ok {
		return begin(f, r.Reserve, number, id)
	}
	return begin(f, nil, number, id)
}

func begin(f Sink, reserve func(int64) error, number, id uint64) (*Writer, error) {
	w := &Writer{f: f, number: number, salt: saltOf(id), reserve: reserve, room: firstRoom}
	size, err := f.Size()
	if err == nil && size != 0 {
		err = fmt.Errorf("log %d: file has %d bytes, want 0", number, size)
	}
	if err == nil {
		w.makeRoom(0, fileHeaderSize)
		err = w.write(appendFileHeader(nil, number, id))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	w.size.Store(fileHeaderSize)
	return w, nil
}

// Append writes one record: HeaderSize bytes, which it fills in, and the payload. When it returns nil the record has reached
// the operating system; after an error any part of it may be in the file. A payload over MaxPayload is refused with
// ErrTooLarge before anything is written, and leaves the Writer as it was. The slice is used during the call only.
func (w *Writer) Append(record []byte) error {
	if err := w.err(); err != nil {
		return err
	}
	payload := record[HeaderSize:]
	if len(payload) > MaxPayload {
		return fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, len(payload), MaxPayload)
	}
	offset := w.size.Load()
	end := offset + int64(len(record))
	if end > maxPromise {
		return fmt.Errorf("%w: log %d would have %d bytes, limit %d", ErrTooLarge, w.number, end, int64(maxPromise))
	}
	h := recordHeader{
		payloadCRC: crc32.Checksum(payload, castagnoli), length: uint32(len(payload)), //nolint:gosec // at most MaxPayload
		salt: w.salt, promise: w.synced.Load(),
	}
	if w.older.Load() {
		h.flags = flagOlder
	}
	appendRecordHeader(record[:0], h, w.number, offset)
	w.makeRoom(offset, end)
	if err := w.write(record); err != nil {
		return err
	}
	w.size.Store(end)
	return nil
}

// makeRoom reserves more where what lies from offset up to end does not fit. What is larger than all that would be reserved
// is written as it is, and so is everything once nothing can be reserved: on a full disk, what is left of it.
func (w *Writer) makeRoom(offset, end int64) {
	if end <= w.reserved || w.reserve == nil || end-offset > w.room {
		return
	}
	if w.reserve(w.room) != nil {
		w.reserve = nil
		return
	}
	w.reserved, w.room = offset+w.room, min(2*w.room, mostRoom)
}

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

// Sync makes durable what was appended before the call. Records appended after it returned carry the promise.
func (w *Writer) Sync() error {
	w.syncing.Lock()
	defer w.syncing.Unlock()
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

// SetOlderDurable has later records say that every log with a smaller number is durable, all of it. It is called once
// that is true.
func (w *Writer) SetOlderDurable() { w.older.Store(true) }

// Size is the length of the log in bytes, as of the last Append that returned nil, without what is reserved behind it.
func (w *Writer) Size() int64 { return w.size.Load() }

// Synced is the length that is known to be durable.
func (w *Writer) Synced() int64 { return w.synced.Load() }

// Number is the log's number.
func (w *Writer) Number() uint64 { return w.number }

// Close waits for a Sync that runs and closes the file, without syncing it. Its error is one of the writes (I12): what was
// not synced before may be lost. Later calls return an error that Is os.ErrClosed.
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

// fail keeps the first error, wrapped, and returns it.
func (w *Writer) fail(err error) error {
	err = fmt.Errorf("log %d: %w", w.number, err)
	w.failed.CompareAndSwap(nil, &err)
	return w.err()
}
