package filterexam

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// Offsets in a header, and in a unit of it, by the drawing in bloomblock/format.go.
const (
	offVersion  = 8
	offKind     = 9
	offHash     = 10
	offUnits    = 11
	offLine     = 12
	offReserved = 13
	offKeys     = 16
	offSeed     = 24
	offUnit     = 32
	offParts    = 104
	offSums     = 112
	offPage     = 116
	offChecksum = 124

	unitSize                                                  = 24
	unitRate, unitCRC, unitProbes, unitOverhead, unitReserved = 8, 16, 20, 21, 22

	kindRibbon   = 2
	versionPages = 3 // the first with the fields from offParts on
)

// fields returns the fields of the header at the start of block, without checking them, as many as are complete.
func fields(block []byte) []Field {
	list := []Field{}
	add := func(offset, n int, name string, value func(b []byte) string) {
		if offset+n <= len(block) {
			list = append(list, Field{offset, n, name, value(block[offset:][:n])})
		}
	}
	number := func(b []byte) string { return strconv.Itoa(int(b[0])) }
	long := func(b []byte) string { return strconv.FormatUint(binary.LittleEndian.Uint64(b), 10) }
	crc := func(b []byte) string { return fmt.Sprintf("%08x", binary.LittleEndian.Uint32(b)) }
	digits := hex.EncodeToString
	digits64 := func(b []byte) string { return fmt.Sprintf("%016x", binary.LittleEndian.Uint64(b)) }
	rate := func(b []byte) string {
		return strconv.FormatFloat(math.Float64frombits(binary.LittleEndian.Uint64(b)), 'g', -1, 64)
	}
	add(0, offVersion, "magic", func(b []byte) string { return strconv.QuoteToASCII(string(b)) })
	add(offVersion, 1, "version", number)
	add(offKind, 1, "kind", number)
	add(offHash, 1, "hash", number)
	add(offUnits, 1, "units", number)
	add(offLine, 1, "line", number)
	add(offReserved, offKeys-offReserved, "reserved", digits)
	add(offKeys, 8, "keys", long)
	add(offSeed, 8, "seed", digits64)
	for i := range bloomblock.MaxUnits {
		at, name := offUnit+i*unitSize, fmt.Sprintf("unit %d ", i)
		if len(block) > offUnits && i >= int(block[offUnits]) {
			add(at, unitSize, name+"absent", digits)
			continue
		}
		what := "probes"
		if i == 0 && len(block) > offKind && block[offKind] == kindRibbon {
			what = "columns"
		}
		add(at, unitRate, name+"blocks", long)
		add(at+unitRate, unitCRC-unitRate, name+"rate", rate)
		add(at+unitCRC, unitProbes-unitCRC, name+"checksum", crc)
		add(at+unitProbes, 1, name+what, number)
		add(at+unitOverhead, 1, name+"overhead", number)
		add(at+unitReserved, unitSize-unitReserved, name+"reserved", digits)
	}
	if len(block) > offVersion && block[offVersion] == versionPages {
		add(offParts, offSums-offParts, "parts", long)
		add(offSums, offPage-offSums, "checksum of sums", crc)
		add(offPage, 1, "page", number)
		add(offPage+1, offChecksum-offPage-1, "reserved", digits)
	} else {
		add(offParts, offChecksum-offParts, "reserved", digits)
	}
	add(offChecksum, 4, "checksum", crc)
	return list
}
