package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
)

// CURRENT names the current manifest, with the CRC-32C of the name, in exactly this form:
//
//	MANIFEST-000042 1a2b3c4d\n
const maxCurrent = 64 // bytes, more than CURRENT ever has

// currentFor returns the content of CURRENT that names a manifest.
func currentFor(number uint64) []byte {
	name := filename.Base(filename.Manifest, number)
	return fmt.Appendf(nil, "%s %08x\n", name, crc32.Checksum([]byte(name), crc32.MakeTable(crc32.Castagnoli)))
}

// ReadCurrent returns the number of the manifest that CURRENT names. The content of CURRENT is never used as a path.
func ReadCurrent(fsys vfs.FS, dir string) (uint64, error) {
	b, err := vfs.ReadFile(fsys, filepath.Join(dir, filename.CurrentName), maxCurrent)
	if errors.Is(err, vfs.ErrTooLarge) {
		return 0, corrupt.At(filename.CurrentName, 0, err)
	}
	if err != nil {
		return 0, err
	}
	name, _, _ := strings.Cut(string(b), " ")
	kind, number := filename.Parse(name)
	if kind != filename.Manifest || !bytes.Equal(b, currentFor(number)) {
		return 0, corrupt.Newf(filename.CurrentName, 0, "%s, want the name of a manifest and its checksum",
			words.Quoted(b))
	}
	return number, nil
}
