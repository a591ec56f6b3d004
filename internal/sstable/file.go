package sstable

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/pages"
)

// Meta holds what the manifest knows of a table.
type Meta struct {
	Name      string // for errors; a path is cut to its base
	ID        uint64
	Size      uint64 // of the file
	TailLen   uint64 // from the index to the end
	FilterLen uint64

	// Seq, if not 0, replaces the sequence numbers of all versions and range tombstones in the file. It is set for a
	// table that was written outside of the store, which holds one version of each key.
	Seq ikey.Seq

	// Check, if not nil, is called after the tail was read. It returns an error, which is damage, if the file's
	// description of itself differs from the other facts that the manifest has of the table.
	Check func(i Info) error
}

// A tableFile reads and checks the parts of one table's file. It keeps none of them in memory. Its errors name file and
// offset.
type tableFile struct {
	file io.ReaderAt
	meta Meta
	seal Seal

	memory *pages.Pieces // constant after UseMemory; of filters. nil: the collector's heap
}

// damaged returns an error for damage at offset (I25). A format of a later version is not damage, nor is a filter of
// one.
func (f *tableFile) damaged(offset uint64, reason error) error {
	if errors.Is(reason, bloomblock.ErrUnknownKind) {
		return fmt.Errorf("%s: offset %d: %w", f.meta.Name, offset, reason)
	}
	return corrupt.At(f.meta.Name, int64(offset), reason) //nolint:gosec // an offset in a file
}

// readAt fills b. A file that is too short is damage; other errors of the file are returned as they are.
func (f *tableFile) readAt(b []byte, offset uint64) error {
	n, err := f.file.ReadAt(b, int64(offset)) //nolint:gosec // an offset in a file
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return f.damaged(offset, fmt.Errorf("%w: %d bytes, want %d", errShort, n, len(b)))
	default:
		return fmt.Errorf("%s: offset %d: %w", f.meta.Name, offset, err)
	}
}

// readFooter reads the footer alone.
func (f *tableFile) readFooter() (footer, error) {
	b := make([]byte, min(f.meta.Size, extraSize+footerSize))
	if err := f.readAt(b, f.meta.Size-uint64(len(b))); err != nil {
		return footer{}, err
	}
	return f.checkFooter(b)
}

// checkFooter parses the footer at the end of b, as parseFooter does, and compares it with the manifest.
func (f *tableFile) checkFooter(b []byte) (footer, error) {
	m := &f.meta
	ft, err := parseFooter(b, m.Size)
	if err == nil && (ft.id != m.ID || ft.tailLen != m.TailLen || ft.filterLen != m.FilterLen) {
		err = fmt.Errorf("table %016x with a tail of %d and a filter of %d bytes, want %016x, %d and %d",
			ft.id, ft.tailLen, ft.filterLen, m.ID, m.TailLen, m.FilterLen)
	}
	if err != nil {
		return footer{}, f.damaged(m.Size-footerSize, err)
	}
	return ft, nil
}

// openPlain checks a block that is never compressed and was read with its trailer, and returns its payload.
func (f *tableFile) openPlain(k Kind, offset uint64, sealed []byte) ([]byte, error) {
	payload, c, err := f.seal.Open(k, offset, sealed)
	if err == nil && c != None {
		err = fmt.Errorf("%v in the tail, want %v", c, None)
	}
	if err != nil {
		return nil, f.damaged(offset, err)
	}
	return payload, nil
}

// readFilterHeader reads the header of a filter block, and compares it with what the tail says. It also returns the
// bytes of the header.
func (f *tableFile) readFilterHeader(at filterPlace) (h bloomblock.Header, b []byte, err error) {
	if at.size < bloomblock.HeaderSize {
		return h, nil, f.damaged(at.offset,
			fmt.Errorf("filter of %d bytes, want at least %d", at.size, bloomblock.HeaderSize))
	}
	b = make([]byte, bloomblock.HeaderSize)
	if err := f.readAt(b, at.offset); err != nil {
		return h, nil, err
	}
	if got := f.seal.filterSum(at.kind, at.offset, b); got != at.sum {
		return h, nil, f.damaged(at.offset,
			fmt.Errorf("filter header: %w: got %08x, want %08x", errChecksum, got, at.sum))
	}
	h, err = bloomblock.ParseHeader(b)
	if err == nil && (h.BlockSize() != at.size || h.Keys != at.keys) {
		err = fmt.Errorf("filter of %d keys in %d bytes, want %d keys in %d", h.Keys, h.BlockSize(), at.keys, at.size)
	}
	if err != nil {
		return bloomblock.Header{}, nil, f.damaged(at.offset, err)
	}
	return h, b, nil
}

// openBlock checks data block i, which was read with its trailer, and returns it without: if it is compressed, decoded
// into memory of its length that room returns, once the length was checked (I30).
func (f *tableFile) openBlock(x *index, i int, sealed []byte, room func(n int) []byte) ([]byte, error) {
	offset, stored, decoded := x.extent(i)
	data, c, err := f.seal.Open(KindData, offset, sealed)
	switch {
	case err != nil:
	case stored != decoded:
		payload := data
		if err = checkDecoded(payload, c, decoded); err == nil {
			data = room(decoded)
			err = decompress(data, payload, c)
		}
	case c != None:
		err = fmt.Errorf("%v in a block of full length", c)
	}
	if err == nil {
		err = checkBlock(data, x.seqs)
	}
	if err == nil {
		err = x.checkBounds(i, data)
	}
	if err != nil {
		return nil, f.damaged(offset, err)
	}
	return data, nil
}

// A scratch holds a compressed block while it is decompressed, or a part of an index while it is used.
type scratch struct{ b []byte }

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (s *scratch) bytes(n int) []byte {
	if n > keepBuffer {
		return make([]byte, n)
	}
	if cap(s.b) < n {
		s.b = make([]byte, n+n/4)
	}
	return s.b[:n]
}
