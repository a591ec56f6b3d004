package wal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// Salvage reads the intact records of the log with that number, including those behind damage, where Replay stops. It
// calls each for every record, with its payload, valid until each returns, and the offset of the payload; an error of
// each ends it and is returned unchanged. It calls lost for each stretch that is not a record, including a damaged file
// header, before it continues behind it. Zeros up to the end of the file are not lost records; what lies behind MaxSize
// is lost, and not read. If the file header is damaged, the salt of the first intact record is that of the file. Other
// errors are ErrUnsupportedVersion, those of Size, and that of ctx, once it ends.
//
// The time is linear in the file's size, also for valid headers with forged payloads. The memory is at most that of the
// largest record.
func Salvage(
	ctx context.Context,
	f Source,
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
	size = min(size, MaxSize)
	src := corrupt.NewReader(ctx, f, uint64(size)) //nolint:gosec // not negative
	s := &salvage{src: src, size: size, number: number, budget: 4 * size}
	id, err := parseFileHeader(s.bytes(0, fileHeaderSize), number)
	switch {
	case errors.Is(err, ErrUnsupportedVersion):
		return fmt.Errorf("%s: offset 0: %w", name, err)
	case err != nil:
		lost(0, min(size, fileHeaderSize), cmp.Or(s.failed, err))
	default:
		s.salt = saltOf(id)
	}
	for at := int64(fileHeaderSize); at < size; {
		payload, bad := s.record(at)
		if bad == nil {
			if err := each(payload, at+recordHeaderSize); err != nil {
				return err
			}
			at += recordHeaderSize + int64(len(payload))
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
		lost(size, whole, tooLong(whole))
	}
	return ctx.Err()
}

type salvage struct {
	src    *corrupt.Reader
	size   int64
	number uint64
	salt   uint32 // 0 until it is known
	budget int64  // bytes of bad payloads that may still be read

	buf    []byte
	bufAt  int64
	failed error // of the read that filled buf
}

// bytes returns n bytes of the file from an offset on, padded with zeros behind its end. They are valid until the next
// call.
func (s *salvage) bytes(at int64, n int) []byte {
	if at < s.bufAt || at+int64(n) > s.bufAt+int64(len(s.buf)) {
		m := max(n, int(min(readChunk, s.size-min(at, s.size))))
		if cap(s.buf) < m {
			s.buf = make([]byte, m)
		}
		s.buf, s.bufAt = s.buf[:m], at
		s.failed = s.src.Read(s.buf, uint64(at)) //nolint:gosec // not negative
	}
	return s.buf[at-s.bufAt:][:n]
}

// record returns the payload of the record at an offset, or the reason why there is no record.
func (s *salvage) record(at int64) ([]byte, error) {
	left := s.size - at - recordHeaderSize
	if left < 0 {
		return nil, fmt.Errorf("%w record: %d bytes, want %d", errBroken, left+recordHeaderSize, recordHeaderSize)
	}
	b := s.bytes(at, recordHeaderSize)
	h, ok := parseRecordHeader(b, s.number, at)
	switch {
	case !ok:
		return nil, cmp.Or(s.failed, fmt.Errorf("%w record: header %x", errBroken, b))
	case s.salt != 0 && h.salt != s.salt:
		return nil, fmt.Errorf("%w record: salt %08x, want %08x", errBroken, h.salt, s.salt)
	case int64(h.length) > left:
		return nil, fmt.Errorf("%w record: %d bytes of payload, want %d", errBroken, left, h.length)
	case h.length > MaxPayload:
		return nil, fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, h.length, MaxPayload)
	}
	if int64(h.length) > s.budget {
		return nil, fmt.Errorf("%w record: among too many bad ones", errBroken)
	}
	payload := s.bytes(at+recordHeaderSize, int(h.length))
	if got := crc32.Checksum(payload, castagnoli); got != h.payloadCRC {
		s.budget -= int64(h.length)
		bad := fmt.Errorf("%w record: payload checksum %08x, want %08x", errBroken, got, h.payloadCRC)
		return nil, cmp.Or(s.failed, bad)
	}
	s.salt = h.salt
	return payload, nil
}

// next returns the offset of the first valid header at from or behind it, or the size of the file. It reads at most
// twice as many bytes as lie in between, and some KiB.
func (s *salvage) next(from int64) int64 {
	n := 4 << 10
	for s.size-from >= recordHeaderSize && s.src.Err() == nil {
		b := s.bytes(from, int(min(int64(n), s.size-from)))
		n = min(2*n, scanChunk)
		if i, _ := findHeader(b, s.number, s.salt, from); i >= 0 {
			return from + int64(i)
		}
		from += int64(len(b)) - recordHeaderSize + 1
	}
	return s.size
}

// written returns the end of the last nonzero byte from an offset on, or that offset.
func (s *salvage) written(from int64) int64 {
	end := from
	for at := from; at < s.size && s.src.Err() == nil; {
		b := s.bytes(at, int(min(scanChunk, s.size-at)))
		if !allZero(b) {
			end = at + int64(len(bytes.TrimRight(b, "\x00")))
		}
		at += int64(len(b))
	}
	return end
}
