package salvage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/bloomkv/bloomkv/internal/wal"
)

// readRecords reads the intact records of the log with that number, including those behind damage, where wal.Replay
// stops. It calls each for every record, with its payload, valid until each returns, and the offset of the payload; an
// error of each ends it and is returned unchanged. It calls lost for each stretch that is not a record, including a
// damaged file header, before it continues behind it. Zeros up to the end of the file are not lost records; what lies
// behind wal.MaxSize is lost, and not read. If the file header is damaged, the salt of the first intact record is that
// of the file. Other errors are wal.ErrUnsupportedVersion, those of Size, and that of ctx, once it ends.
//
// The time is linear in the file's size, also for valid headers with forged payloads. The memory is at most that of the
// largest record.
func readRecords(
	ctx context.Context,
	f wal.Source,
	name string,
	number uint64,
	each func(payload []byte, at int64) error,
	lost func(from, to int64, reason error),
) error {
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("size of %s: %w", name, err)
	}
	if size == 0 {
		return nil
	}
	whole := size
	size = min(size, wal.MaxSize)
	src := openDamaged(ctx, f, uint64(size)) //nolint:gosec // not negative
	s := &recordReader{src: src, size: size, number: number, budget: 4 * size}
	s.salt, err = wal.ParseFileHeader(src.bytes(0, int(min(size, wal.FirstRecord))), number)
	switch {
	case errors.Is(err, wal.ErrUnsupportedVersion):
		return fmt.Errorf("%s: offset 0: %w", name, err)
	case err != nil:
		lost(0, min(size, wal.FirstRecord), cmp.Or(src.failed, err))
	}
	for at := int64(wal.FirstRecord); at < size; {
		payload, bad := s.record(at)
		if bad == nil {
			if err := each(payload, at+wal.HeaderSize); err != nil {
				return err
			}
			at += wal.HeaderSize + int64(len(payload))
			continue
		}
		from := at
		for at = s.next(at + 1); at < size; at = s.next(at + 1) {
			if _, err := s.record(at); err == nil {
				break
			}
		}
		to := at
		if to == size {
			to = s.written(from)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if from < to {
			lost(from, to, bad)
		}
	}
	if whole > size {
		lost(size, whole, fmt.Errorf("%d bytes, want at most %d", whole, int64(wal.MaxSize)))
	}
	return ctx.Err()
}

// A recordReader finds the records of one log.
type recordReader struct {
	src    *damagedFile
	size   int64
	number uint64
	salt   uint32 // 0 until it is known
	budget int64  // bytes of bad payloads that may still be read
}

// bytes returns bytes of the file, as damagedFile.bytes does.
func (s *recordReader) bytes(at int64, n int) []byte {
	return s.src.bytes(uint64(at), n) //nolint:gosec // not negative
}

// record returns the payload of the record at an offset, or the reason why there is no record.
func (s *recordReader) record(at int64) ([]byte, error) {
	left := s.size - at - wal.HeaderSize
	if left < 0 {
		return nil, fmt.Errorf("broken record: %d bytes, want %d", left+wal.HeaderSize, wal.HeaderSize)
	}
	b := s.bytes(at, wal.HeaderSize)
	i, h := wal.FindHeader(b, s.number, s.salt, at)
	if i < 0 {
		return nil, cmp.Or(s.src.failed, fmt.Errorf("broken record: header %x", b))
	}
	if err := h.CheckLength(left); err != nil {
		return nil, err
	}
	if h.Length() > s.budget {
		return nil, errors.New("broken record: among too many bad ones")
	}
	payload := s.bytes(at+wal.HeaderSize, int(h.Length()))
	if err := h.Check(payload); err != nil {
		s.budget -= h.Length()
		return nil, cmp.Or(s.src.failed, err)
	}
	s.salt = h.Salt()
	return payload, nil
}

// next returns the offset of the first valid header at from or behind it, or the size of the file. It reads at most
// twice as many bytes as lie in between, and some KiB.
func (s *recordReader) next(from int64) int64 {
	n := 4 << 10
	for s.size-from >= wal.HeaderSize && s.src.ctx.Err() == nil {
		b := s.bytes(from, int(min(int64(n), s.size-from)))
		n = min(2*n, chunk)
		if i, _ := wal.FindHeader(b, s.number, s.salt, from); i >= 0 {
			return from + int64(i)
		}
		from += int64(len(b)) - wal.HeaderSize + 1
	}
	return s.size
}

// written returns the end of the last nonzero byte from an offset on, or that offset.
func (s *recordReader) written(from int64) int64 {
	end := from
	for at := from; at < s.size && s.src.ctx.Err() == nil; {
		b := s.bytes(at, int(min(chunk, s.size-at)))
		if b[0] != 0 || !bytes.Equal(b[1:], b[:len(b)-1]) {
			end = at + int64(len(bytes.TrimRight(b, "\x00")))
		}
		at += int64(len(b))
	}
	return end
}
