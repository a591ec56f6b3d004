package stream

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

// Fingerprint returns a hash of the last t.TailLen bytes of a table's file: index, range tombstones, properties and
// footer. These depend on all keys, through the checksums of the filter, and on the length of every block, but not on
// values of the same length. Two tables with the same random id, size and fingerprint were made so on purpose.
//
// It is a chain of XXH64: each link hashes the hash before it, 0 at first, and 64 KiB of the file, or the rest.
func Fingerprint(f io.ReaderAt, file string, t *manifest.Table) (uint64, error) {
	const link = 64 << 10
	b := make([]byte, 8, 8+min(t.TailLen, link))
	for left := t.TailLen; left > 0; {
		n := int(min(left, link))
		at := int64(t.Size - left) //nolint:gosec // below the size of a file
		if got, err := f.ReadAt(b[8:8+n], at); got < n {
			if errors.Is(err, io.EOF) {
				err = corrupt.Newf(file, at+int64(got), "the file ends here, want %d bytes", t.Size)
			}
			return 0, err
		}
		binary.LittleEndian.PutUint64(b, uint64(bloomblock.HashKey(b[:8+n])))
		left -= uint64(n)
	}
	return binary.LittleEndian.Uint64(b), nil
}

// An inventory is a list of identities in bytes, all numbers little-endian:
//
//	0           8             12          16                      16+24·n
//	+-----------+-------------+-----------+-----------------------+---------+
//	| bloominv  | version u32 | count u32 | id, size, fingerprint | crc u32 |
//	+-----------+-------------+-----------+-----------------------+---------+
//
// The identities ascend. crc is the CRC-32C of all before it.
const (
	inventoryMagic = "bloominv"
	inventoryHead  = 16
	idSize         = 24
)

func compareIDs(a, b ID) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Sum, b.Sum))
}

// AppendInventory appends an inventory.
func AppendInventory(dst []byte, ids []ID) []byte {
	start := len(dst)
	ids = slices.Clone(ids)
	slices.SortFunc(ids, compareIDs)
	ids = slices.Compact(ids)
	dst = binary.LittleEndian.AppendUint32(append(dst, inventoryMagic...), version)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(ids))) //nolint:gosec // tables of one directory
	for _, id := range ids {
		for _, n := range [...]uint64{id.ID, id.Size, id.Sum} {
			dst = binary.LittleEndian.AppendUint64(dst, n)
		}
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// ReadInventory reads an inventory, or the identities in the header of a stream, and nothing behind it. Its memory is
// bounded by what r yields.
func ReadInventory(r io.Reader) ([]ID, error) {
	in := Reader{r: r}
	head := make([]byte, preludeSize)
	if err := in.full(head[:inventoryHead]); err != nil {
		return nil, err
	}
	if string(head[:8]) == magic {
		if err := in.full(head[inventoryHead:]); err != nil {
			return nil, err
		}
		if err := in.begin(head); err != nil {
			return nil, err
		}
		ids := make([]ID, len(in.Header.Tables))
		for i := range ids {
			ids[i] = in.Header.Tables[i].Identity()
		}
		return ids, nil
	}
	return in.inventory(head[:inventoryHead])
}

// ParseInventory does what ReadInventory does for bytes that hold nothing else. It does not keep b.
func ParseInventory(b []byte) ([]ID, error) {
	r := bytes.NewReader(b)
	ids, err := ReadInventory(r)
	if err == nil && r.Len() > 0 {
		return nil, corrupt.Newf(name, r.Size()-int64(r.Len()), "%d bytes behind the inventory, want none", r.Len())
	}
	return ids, err
}

// inventory reads an inventory behind its head.
func (in *Reader) inventory(head []byte) ([]ID, error) {
	if got := string(head[:8]); got != inventoryMagic {
		return nil, corrupt.Newf(name, 0, "magic %q, want %q or %q", got, inventoryMagic, magic)
	}
	if v := binary.LittleEndian.Uint32(head[8:]); v != version {
		return nil, corrupt.Newf(name, 8, "inventory: %w %d, want %d", corrupt.ErrUnsupportedVersion, v, version)
	}
	crc := crc32.Checksum(head, castagnoli)
	var ids []ID
	b := make([]byte, idSize)
	for range binary.LittleEndian.Uint32(head[12:]) {
		if err := in.full(b); err != nil {
			return nil, err
		}
		crc = crc32.Update(crc, castagnoli, b)
		id := ID{
			binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]),
		}
		if n := len(ids); n > 0 && compareIDs(ids[n-1], id) >= 0 {
			return nil, corrupt.Newf(name, in.off-idSize, "table %016x after %016x, want them ascending",
				id.ID, ids[n-1].ID)
		}
		ids = append(ids, id)
	}
	if err := in.full(b[:sumSize]); err != nil {
		return nil, err
	}
	if got, want := crc, binary.LittleEndian.Uint32(b); got != want {
		return nil, corrupt.Newf(name, 0, "inventory: checksum %08x, want %08x", got, want)
	}
	return ids, nil
}
