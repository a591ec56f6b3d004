package sstable

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// A Codec is a compression of data blocks. The values are on disk.
type Codec uint8

const (
	None Codec = 0
	S2   Codec = 1 // fast
	Zstd Codec = 2 // small

	lastCodec = Zstd
)

// String returns the name of the codec for the tools.
func (c Codec) String() string {
	if names := [...]string{None: "none", S2: "s2", Zstd: "zstd"}; int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("codec(%d)", uint8(c))
}

var errDecoded = errors.New("decoded length differs from the index")

// compress appends src, of at most maxCoded bytes, to dst, compressed by c if that saves an eighth, and returns the
// codec used. It allocates nothing once dst is large enough.
func compress(dst, src []byte, c Codec) ([]byte, Codec) {
	start := len(dst)
	limit := len(src) - len(src)/8
	switch c {
	case S2:
		dst = grow(dst, s2.MaxEncodedLen(len(src)))
		n := len(s2.Encode(dst[start:cap(dst)], src))
		if len(src) > n*maxRatio {
			n = len(s2.EncodeSnappy(dst[start:cap(dst)], src))
		}
		if n < limit {
			return dst[:start+n], S2
		}
	case Zstd:
		dst = grow(dst, len(src)+len(src)>>7+64)
		e, _ := zstdEncoders.Get().(*zstd.Encoder) // the pool has no others
		dst = e.EncodeAll(src, dst)
		zstdEncoders.Put(e)
		if len(src) > (len(dst)-start)*maxRatio {
			return compress(dst[:start], src, S2)
		}
		if len(dst)-start < limit {
			return dst, Zstd
		}
	case None:
	}
	return append(dst[:start], src...), None
}

// maxCompressed returns the capacity with which compress allocates nothing for n bytes.
func maxCompressed(n int) int { return max(s2.MaxEncodedLen(n), n+n>>7+64) }

// grow returns dst with capacity for n more bytes.
func grow(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst
	}
	return append(make([]byte, 0, max(min(2*cap(dst), writeSize+n), len(dst)+n)), dst...)
}

// decodedLen returns the decoded length that the payload itself states.
func decodedLen(src []byte, c Codec) (uint64, error) {
	switch c {
	case None:
		return uint64(len(src)), nil
	case S2:
		n, err := s2.DecodedLen(src)
		return uint64(max(n, 0)), err
	case Zstd:
		var h zstd.Header // of the frame; the writer never omits the length
		err := h.Decode(src)
		return h.FrameContentSize, err
	default:
		return 0, fmt.Errorf("unknown %v", c)
	}
}

// checkDecoded compares the decoded length that the payload states with that of the index, before memory is allocated
// for it.
func checkDecoded(src []byte, c Codec, want int) error {
	if c == None {
		return errors.New("block is shorter than in the index")
	}
	n, err := decodedLen(src, c)
	if err != nil {
		return err
	}
	if n != uint64(want) { //nolint:gosec // a length
		return fmt.Errorf("%w: %d, want %d", errDecoded, n, want)
	}
	return nil
}

// decompress fills dst exactly from a payload that checkDecoded has accepted. Its other memory is bounded for any src.
func decompress(dst, src []byte, c Codec) error {
	switch c {
	case S2:
		_, err := s2.Decode(dst, src)
		return err
	case Zstd:
		d, _ := zstdDecoders.Get().(*zstd.Decoder)
		out, err := d.DecodeAll(src, dst[:0:len(dst)])
		zstdDecoders.Put(d)
		if err != nil {
			return err
		}
		if len(out) != len(dst) {
			return fmt.Errorf("%w: %d, want %d", errDecoded, len(out), len(dst))
		}
		return nil
	case None: // checkDecoded has refused it and unknown codecs
	}
	return fmt.Errorf("unknown %v", c)
}

// Encoders and decoders hold large tables, so they are pooled; the garbage collector empties the pools.
var (
	zstdEncoders = sync.Pool{New: func() any {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
			zstd.WithWindowSize(128<<10), zstd.WithLowerEncoderMem(true), zstd.WithSingleSegment(true))
		if err != nil {
			panic(err) // broken logic: constant options
		}
		return e
	}}
	zstdDecoders = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(maxCoded), zstd.WithDecodeAllCapLimit(true), zstd.IgnoreChecksum(true))
		if err != nil {
			panic(err) // broken logic: constant options
		}
		return d
	}}
)
