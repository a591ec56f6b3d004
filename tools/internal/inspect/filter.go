package inspect

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Filter is a filter block in its file.
type Filter struct {
	Offset uint64 `json:"offset"` // in the file
	filterexam.Exam

	block []byte
}

// An openTable is a table that is being inspected.
type openTable struct {
	file     vfs.File
	reader   *sstable.Reader
	block    []byte // the filter block, empty without a filter
	prefixes []byte // the prefix filter that follows, may be empty
	offset   uint64 // of the filter block
}

// withTable opens a table, reads its tail, which is verified, and its filter blocks, which are not, and closes it
// after body.
func withTable(name string, body func(t *openTable) error) (err error) {
	t := &openTable{}
	if t.file, err = vfs.OS.Open(name); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.file.Close()) }()
	size, err := t.file.Size()
	if err != nil {
		return err
	}
	if t.reader, err = sstable.Open(t.file, size, name); err != nil {
		return err
	}
	defer t.reader.Close()
	p, err := t.reader.Properties()
	if err != nil {
		return err
	}
	m := t.reader.Meta()
	t.offset = m.Size - m.TailLen - m.FilterLen
	both, err := filterBlock(name, t.file, m.Size, m.TailLen, m.FilterLen)
	if err != nil {
		return err
	}
	end := m.FilterLen - p.Prefixes.Bytes // the reader has checked this
	t.block, t.prefixes = both[:end], both[end:]
	return body(t)
}

// Block returns the filter block as it is in the file.
func (r *Filter) Block() []byte { return r.block }

// ReadFilters examines the filter blocks of a table, even damaged ones: that of its keys and that of their prefixes.
// Without such a block the result is nil.
func ReadFilters(name string) (keys, prefixes *Filter, err error) {
	err = withTable(name, func(t *openTable) error {
		keys, prefixes = newFilter(t.block, t.offset), newFilter(t.prefixes, t.offset+uint64(len(t.block)))
		return nil
	})
	return keys, prefixes, err
}

func newFilter(block []byte, offset uint64) *Filter {
	if len(block) == 0 {
		return nil
	}
	exam, _ := filterexam.Examine(block) // damage is one of the flags
	return &Filter{Offset: offset, Exam: exam, block: block}
}

// filterBlock reads the filter block of a table, which lies before the tail, or returns nil if filterLen is 0.
func filterBlock(name string, f io.ReaderAt, size, tailLen, filterLen uint64) ([]byte, error) {
	if filterLen == 0 {
		return nil, nil
	}
	if tailLen > size || filterLen > size-tailLen {
		return nil, fmt.Errorf("%s: filter of %d bytes before a tail of %d in a file of %d", filepath.Base(name),
			filterLen, tailLen, size)
	}
	if filterLen > math.MaxInt/2 { // possible where int has 32 bits
		return nil, fmt.Errorf("%s: filter of %d bytes is too large for this machine", filepath.Base(name), filterLen)
	}
	b := make([]byte, filterLen)
	offset := int64(size - tailLen - filterLen) //nolint:gosec // within the size of a file
	switch n, err := f.ReadAt(b, offset); {
	case n == len(b):
		return b, nil
	case errors.Is(err, io.EOF):
		return nil, corrupt.Newf(name, offset, "filter of %d bytes, want %d: the file has become shorter", n, len(b))
	default:
		return nil, fmt.Errorf("%s: offset %d: %w", filepath.Base(name), offset, err)
	}
}
