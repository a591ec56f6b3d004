package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/words"
)

// atEnd stands for the offset of the last eight bytes of a file.
const atEnd = -1

// known are the beginnings and the ends of files that may be mistaken for store files.
var known = []struct {
	at    int
	bytes string
	what  string
}{
	{0, "bloomwal", "a log or a manifest of this store, which must be named NNNNNN.log or MANIFEST-NNNNNN"},
	{0, "bloomblk", "a filter block by itself"},
	{0, "SQLite format 3\x00", "an SQLite database"},
	{16, "\xed\xda\x0c\xed", "a bbolt database"},
	{0, "\x1f\x8b", "gzip"},
	{0, "\x28\xb5\x2f\xfd", "zstd"},
	{0, "\xff\x06\x00\x00sNaPpY", "snappy"},
	{0, "PK\x03\x04", "zip"},
	{0, "\x7fELF", "a program"},
	{0, "\x89PNG", "a picture"},
	{atEnd, "bloomsst", "a table of this store"},
	{atEnd, "\x57\xfb\x80\x8b\x24\x75\x47\xdb", "a table of LevelDB or goleveldb"},
	{atEnd, "\xf7\xcf\xf4\x85\xb7\x41\xe2\x88", "a table of RocksDB or Pebble"},
	{atEnd, "\xf0\x9f\xaa\xb3\xf0\x9f\xaa\xb3", "a table of Pebble"},
}

// contents describes a file of the wrong kind by its first and last bytes.
func contents(f io.ReaderAt, size int64) string {
	if size == 0 {
		return "it is empty"
	}
	head := make([]byte, min(size, 24))
	tail := make([]byte, min(size, 8))
	if n, _ := f.ReadAt(head, 0); n < len(head) {
		return "its first bytes cannot be read"
	}
	if n, _ := f.ReadAt(tail, size-int64(len(tail))); n < len(tail) {
		return "its last bytes cannot be read"
	}
	var s strings.Builder
	fmt.Fprintf(&s, `it begins with "%s"`, words.AppendEscaped(nil, head[:min(len(head), 16)]))
	if size > 16 {
		fmt.Fprintf(&s, ` and ends with "%s"`, words.AppendEscaped(nil, tail))
	}
	if what := whatIs(head, tail); what != "" {
		fmt.Fprintf(&s, ", as does %s", what)
	}
	return s.String()
}

// foreignTable adds a description of the file to the error of a file that does not end like a table. Without the name
// of a table that is not damage, but another file.
func foreignTable(f io.ReaderAt, size int64, name string, err error) error {
	const magic = "bloomsst"
	tail := make([]byte, len(magic))
	if !errors.Is(err, corrupt.Err) {
		return err
	}
	if n, _ := f.ReadAt(tail, size-int64(len(tail))); n == len(tail) && string(tail) == magic {
		return err
	}
	if !isForeignName(name) {
		return fmt.Errorf("%s is not a file of a store that inspect knows; %s", filepath.Base(name), contents(f, size))
	}
	return fmt.Errorf("%w; %s", err, contents(f, size))
}

// whatIs names the kind of a file, or returns "" if it is not known.
func whatIs(head, tail []byte) string {
	for _, k := range known {
		part := tail
		if k.at != atEnd {
			part = head[min(k.at, len(head)):]
		}
		if bytes.HasPrefix(part, []byte(k.bytes)) {
			return k.what
		}
	}
	if len(bytes.Trim(head, "\x00")) == 0 && len(bytes.Trim(tail, "\x00")) == 0 {
		return "a file that was never written"
	}
	return ""
}
