package foreign

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// maxDecoded is the maximum length of a decompressed block in bytes.
const maxDecoded = 64 << 20

// The compressions of blocks. The values are in files: RocksDB's include/rocksdb/compression_type.h, and Pebble's
// sstable/block/compression.go, which adds MinLZ.
const (
	codecNone   = 0
	codecSnappy = 1
	codecZlib   = 2
	codecLZ4    = 4
	codecLZ4HC  = 5
	codecZstd   = 7
	codecMinLZ  = 8 // Pebble only

	levelZstd = 2 // LevelDB's include/leveldb/options.h
)

var codecNames = [...]string{"none", "snappy", "zlib", "bzip2", "lz4", "lz4hc", "xpress", "zstd", "minlz"}

func codecName(c byte) string {
	if int(c) < len(codecNames) {
		return codecNames[c]
	}
	return fmt.Sprintf("compression %d", c)
}

var (
	errCodec       = errors.New("unknown compression")
	errDecodedSize = errors.New("decompressed length is not the recorded one")
	errTooLong     = fmt.Errorf("decompressed length above %d", maxDecoded)
)

// decoder is made on first use. It has no goroutines of its own.
var decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDecoded))
})

// unzstd decompresses a frame.
func unzstd(b []byte) ([]byte, error) {
	d, err := decoder()
	if err != nil {
		return nil, err
	}
	out, err := d.DecodeAll(b, nil)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		err = errTooLong
	}
	return out, err
}

// unsnappy decompresses a block. No block expands more than 64 times, so the memory is bounded by the file's size.
func unsnappy(b []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(b)
	switch {
	case err != nil:
		return nil, err
	case n > maxDecoded:
		return nil, fmt.Errorf("%w: %d", errTooLong, n)
	case n/64 > len(b):
		return nil, fmt.Errorf("%w: %d from %d", errDecodedSize, n, len(b))
	}
	return snappy.Decode(nil, b)
}

// MinLZ decompresses a MinLZ block, of at most 8 MiB. It is nil unless the program imports package minlz.
var MinLZ func(b []byte) ([]byte, error)

// unminlz decompresses a MinLZ block, or a snappy block, as the specification allows.
func unminlz(b []byte) ([]byte, error) {
	if len(b) > 0 && b[0] != 0 {
		return unsnappy(b)
	}
	if MinLZ == nil {
		return nil, errCodec
	}
	return MinLZ(b)
}

// sized decompress blocks that begin with their length, to n bytes.
var sized = map[byte]func(b []byte, n int) ([]byte, error){
	codecZlib: func(b []byte, n int) ([]byte, error) { // without a header, since RocksDB's window_bits are negative
		return io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(b)), int64(n)+1))
	},
	codecLZ4: unlz4, codecLZ4HC: unlz4,
	codecZstd: func(b []byte, _ int) ([]byte, error) { return unzstd(b) },
}

// unpack decompresses a block. In RocksDB from format 2 on and in Pebble, blocks other than of snappy and MinLZ begin
// with the length as a varint. RocksDB recorded it in other ways before. LevelDB, whose tables have no properties,
// records none. An error matching errCodec means that the compression is not known, one matching errTooLong that the
// block is longer than maxDecoded.
func (s *sst) unpack(codec byte, b []byte) ([]byte, error) {
	level, pebble := s.magic == levelMagic, s.magic == pebbleMagic
	switch {
	case codec == codecNone:
		return b, nil
	case codec == codecSnappy:
		return unsnappy(b)
	case codec == levelZstd && level && len(s.raw) == 0:
		return unzstd(b)
	case codec == codecMinLZ && pebble:
		return unminlz(b)
	case level, s.version < 2 && !pebble, sized[codec] == nil:
		return nil, errCodec
	}
	n, rest, ok := cutUvarint(b)
	if !ok {
		return nil, fmt.Errorf("%w without a length", errDecodedSize)
	}
	if n > maxDecoded {
		return nil, fmt.Errorf("%w: %d", errTooLong, n)
	}
	out, err := sized[codec](rest, int(n))
	if err == nil && uint64(len(out)) != n {
		err = fmt.Errorf("%w: %d, want %d", errDecodedSize, len(out), n)
	}
	return out, err
}

var errLZ4 = errors.New("lz4: a sequence reaches outside of its block")

// unlz4 decompresses an LZ4 block to n bytes, by way of a block of S2:
// https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md.
func unlz4(b []byte, n int) ([]byte, error) {
	if n/256 > len(b) { // no byte stands for more than 255
		return nil, errDecodedSize
	}
	// A sequence becomes less than twice as long.
	block := binary.AppendUvarint(make([]byte, 0, 64+2*len(b)), uint64(n)) //nolint:gosec // a length
	var converter s2.LZ4Converter
	block, decoded, err := converter.ConvertBlock(block, b)
	switch {
	case err != nil:
		return nil, errLZ4
	case decoded != n:
		return nil, fmt.Errorf("%w: %d, want %d", errDecodedSize, decoded, n)
	}
	return s2.Decode(nil, block)
}
