package bloom

import (
	"errors"
	"io"
	"math"
	"slices"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// A series has the filters of a Scalable or a Window, the oldest first. K says of which.
type series[K seriesKind] struct {
	options Options // of the whole
	filters []*Filter
}

// A seriesKind is what the encoded sets of several filters differ in.
type seriesKind interface {
	kind() (number uint8, name string)
	// filter returns the options of filter i of n in a set with the given options.
	filter(whole Options, i, n int) Options
}

// MayContain reports whether a key may be in the set. False is certain, except that a Window forgets keys; true is
// wrong for at most Options.Rate of the absent keys.
func (s *series[K]) MayContain(key []byte) bool { return s.MayContainHash(bloomblock.HashKey(key)) }

// MayContainHash asks for a key by its hash: see MayContain.
func (s *series[K]) MayContainHash(h bloomblock.Hash) bool {
	for _, f := range slices.Backward(s.filters) { // the last of a Scalable has about half the keys
		if f.MayContainHash(h) {
			return true
		}
	}
	return len(s.filters) == 0
}

// Options returns the options of the set, with the seed and rate that were chosen.
func (s *series[K]) Options() Options { return s.options }

// Bytes returns the size of all bits in memory.
func (s *series[K]) Bytes() (sum int) {
	for _, f := range s.filters {
		sum += f.Bytes()
	}
	return sum
}

// Rate returns the false positive rate now, from the bits: 1 - Π (1 - rate of a filter). It is 1 for a zero value.
func (s *series[K]) Rate() float64 {
	if len(s.filters) == 0 {
		return 1
	}
	denied := 0.0 // logarithm of the share that all deny
	for _, f := range s.filters {
		denied += math.Log1p(-f.Rate())
	}
	return -math.Expm1(denied)
}

// WriteTo writes the encoded set: 128 bytes and its filters. It implements io.WriterTo.
func (s *series[K]) WriteTo(w io.Writer) (int64, error) {
	var k K
	number, name := k.kind()
	if len(s.filters) == 0 {
		return 0, noBits(name)
	}
	h := headerOf(number, s.options)
	h.Parts = uint8(len(s.filters)) //nolint:gosec // ≤ maxGenerations
	to := sink{w: w}
	to.bytes(h.encode())
	for _, f := range s.filters {
		f.write(&to)
	}
	return to.n, to.err
}

// AppendBinary appends the encoded set to dst. The error matches ErrNoBits for a zero value.
func (s *series[K]) AppendBinary(dst []byte) ([]byte, error) { return appendTo(dst, s.WriteTo) }

// MarshalBinary returns the encoded set. The error matches ErrNoBits for a zero value.
func (s *series[K]) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// MarshalText returns the encoded set in base 64, for encoding/json and others. The error is that of MarshalBinary.
func (s series[K]) MarshalText() ([]byte, error) { return marshalText(s.WriteTo) }

// ReadFrom replaces the set by the encoded one that follows in r: see Filter.ReadFrom.
func (s *series[K]) ReadFrom(r io.Reader) (int64, error) { return readFrom(r, s.read) }

// UnmarshalBinary replaces the set by the encoded one. Errors are those of Filter.ReadFrom.
func (s *series[K]) UnmarshalBinary(data []byte) error { return unmarshal(data, s.read) }

// UnmarshalText replaces the set by the one that MarshalText encoded. Errors are those of Filter.ReadFrom.
func (s *series[K]) UnmarshalText(text []byte) error { return unmarshalText(text, s.read) }

func (s *series[K]) read(from *source) error {
	var k K
	number, _ := k.kind()
	h, err := from.header(number)
	if err != nil {
		return err
	}
	read := series[K]{options: h.options()}
	for i := range int(h.Parts) {
		f, err := from.filter()
		if errors.Is(err, io.EOF) {
			err = damaged("%d filters, want %d", i, h.Parts)
		}
		if err != nil {
			return err
		}
		if f.options != k.filter(read.options, i, int(h.Parts)) {
			return damaged("filter %d has other options than the set gives it", i)
		}
		read.filters = append(read.filters, f)
		if err := f.sameShape(read.filters[0]); number == kindWindow && err != nil {
			return damaged("generation %d: %w", i, err)
		}
	}
	*s = read
	return nil
}
