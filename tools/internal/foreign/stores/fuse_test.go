package foreign_test

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"testing"

	"github.com/FastFilter/xorfilter"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/zeebo/xxh3"
)

// fusePolicy builds the binary fuse filters of Pebble's next version, which is not released, with the libraries that it
// uses. It is passed to the released version, which writes the block into its table.
type fusePolicy struct {
	width  int // bits of a fingerprint
	hashes []uint64
	// contains asks the library. It is nil for fingerprints that are cut off, of which the library knows nothing.
	contains func(hash uint64) bool
}

func (*fusePolicy) Name() string                                        { return "binaryfuse" }
func (*fusePolicy) MayContain(sstable.FilterType, []byte, []byte) bool  { return true }
func (p *fusePolicy) NewWriter(sstable.FilterType) sstable.FilterWriter { return p }
func (p *fusePolicy) AddKey(key []byte)                                 { p.hashes = append(p.hashes, xxh3.Hash(key)) }

// Finish appends the filter.
func (p *fusePolicy) Finish(b []byte) []byte {
	if p.width <= 8 {
		return packFuse[uint8](p, b)
	}
	return packFuse[uint16](p, b)
}

func packFuse[T uint8 | uint16](p *fusePolicy, b []byte) []byte {
	var builder xorfilter.BinaryFuseBuilder
	f, err := xorfilter.BuildBinaryFuse[T](&builder, p.hashes)
	if err != nil {
		panic(err)
	}
	if p.width == 8 || p.width == 16 {
		p.contains = f.Contains
	}
	n := len(f.Fingerprints)
	packed := make([]byte, n*p.width/8+4)
	for i, v := range f.Fingerprints {
		at := i * p.width
		word := (uint32(v) & (1<<p.width - 1)) << (at % 8)
		packed[at/8] |= byte(word)
		packed[at/8+1] |= byte(word >> 8)
	}
	size := map[int]int{4: (n + 1) / 2, 8: n, 10: (n*10+7)/8 + 3, 12: (n+1)/2*3 + 1, 16: 2 * n}[p.width]
	b = append(b, packed[:size]...)
	b = binary.LittleEndian.AppendUint64(b, f.Seed)
	b = binary.LittleEndian.AppendUint32(b, f.SegmentCount)
	return append(b, byte(bits.TrailingZeros32(f.SegmentLength)), byte(p.width))
}

func TestBinaryFuseAgrees(t *testing.T) {
	for _, width := range []int{4, 8, 10, 12, 16} {
		t.Run(fmt.Sprintf("%d bits", width), func(t *testing.T) {
			all := keys(*presents)
			p := &fusePolicy{width: width}
			b := pebbleTable(t, all, sstable.WriterOptions{FilterPolicy: p, TableFormat: sstable.TableFormatMax})
			f := open(t, b, "000005.sst", all)
			r := compare(t, f, all, *absents, func(key []byte) bool {
				if p.contains != nil {
					return p.contains(xxh3.Hash(key))
				}
				maybe, err := f.MayContain(key)
				must(t, err)
				return maybe
			})
			if want := 1 / float64(uint(1)<<width); r.fromBits != want {
				t.Errorf("rate from bits %g, want %g", r.fromBits, want)
			}
			if width == 8 {
				results["Pebble, binary fuse, 8 bits (not released yet)"] = r
			}
		})
	}
	sample(t, "pebble-fuse.sst", pebbleTable(t, keys(sampleKeys), sstable.WriterOptions{
		FilterPolicy: &fusePolicy{width: 8}, TableFormat: sstable.TableFormatMax, BlockSize: 512,
	}))
}
