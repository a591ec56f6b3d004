package wal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// A file is a Sink and a Source in memory. Its hooks, if set, run before the operation and may make it fail.
type file struct {
	mu      sync.Mutex
	data    []byte
	reads   int64 // bytes
	writes  int
	closed  int
	onWrite func(b []byte) (int, error) // replaces the write of b if it returns an error or fewer bytes
	onSync  func() error
	onRead  func() error
	onClose error
	size    int64 // if not 0, the result of Size
}

var errDisk = errors.New("disk on fire")

func (f *file) Write(b []byte) (int, error) {
	n, err := len(b), error(nil)
	if f.onWrite != nil {
		n, err = f.onWrite(b)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes++
	f.data = append(f.data, b[:n]...)
	return n, err
}

func (f *file) Sync() error {
	if f.onSync != nil {
		return f.onSync()
	}
	return nil
}

func (f *file) Size() (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.size != 0 {
		return f.size, nil
	}
	return int64(len(f.data)), nil
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	if f.onRead != nil {
		if err := f.onRead(); err != nil {
			return 0, err
		}
	}
	f.reads += int64(len(b))
	if off >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) Close() error {
	f.closed++
	return f.onClose
}

const (
	testNumber = 7
	testID     = 0x0123456789abcdef
)

func newWriter(tb testing.TB, f *file) *Writer {
	tb.Helper()
	w, err := NewWriter(f, testNumber, testID)
	must(tb, err)
	return w
}

// framed returns a payload with space for a header.
func framed[T string | []byte](payload T) []byte { return append(make([]byte, HeaderSize), payload...) }

func appendAll(tb testing.TB, w *Writer, payloads ...string) {
	tb.Helper()
	for _, p := range payloads {
		must(tb, w.Append(framed(p)))
	}
}

func syncLog(tb testing.TB, w *Writer) {
	tb.Helper()
	must(tb, w.Sync())
}

// build writes a log: the step "sync" is a Sync, "older" a SetOlderDurable, any other a payload. It returns the log's
// bytes and the ends of the file header and of each record.
func build(tb testing.TB, steps ...string) (data []byte, ends []int64) {
	tb.Helper()
	f := new(file)
	w := newWriter(tb, f)
	ends = append(ends, w.Size())
	for _, s := range steps {
		switch s {
		case "sync":
			syncLog(tb, w)
		case "older":
			w.SetOlderDurable()
		default:
			appendAll(tb, w, s)
			ends = append(ends, w.Size())
		}
	}
	return f.data, ends
}

func replayBytes(data []byte) (payloads []string, r Result, err error) {
	r, err = Replay(&file{data: data}, "dir/000007.log", testNumber, func(p []byte, _ int64) error {
		payloads = append(payloads, string(p))
		return nil
	})
	return payloads, r, err
}

// fixRecord corrects the checksum of the header at an offset and, if payload is set and the payload is complete, that
// of the payload.
func fixRecord(data []byte, offset int64, payload bool) {
	h := data[offset : offset+recordHeaderSize]
	length := int64(binary.LittleEndian.Uint32(h[8:]))
	if body := data[offset+recordHeaderSize:]; payload && length <= int64(len(body)) {
		binary.LittleEndian.PutUint32(h[4:], crc32.Checksum(body[:length], castagnoli))
	}
	h[kindAt] = recordKind
	binary.LittleEndian.PutUint32(h, crc32.Update(seed(testNumber, offset), castagnoli, h[4:]))
}

// fixFile corrects the checksum of the file header.
func fixFile(data []byte) { binary.LittleEndian.PutUint32(data[12:], fileHeaderCRC(data)) }

func isCorrupt(err error) bool { return errors.Is(err, corrupt.Err) }
