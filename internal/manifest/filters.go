package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Filters are the options for filters with which a store was last written. A store does not need them, since each
// filter describes itself: a program that does not know the field skips it. Equal options have equal values.
type Filters struct {
	FPR    float64 // promised over the whole tree, above 0 and at most 1; 0 if Memory is set
	Memory uint64  // for filters, in bytes; 0 if FPR is set
	Kind   uint8   // as numbered by the root package
	Ratio  uint32  // size of each level relative to the one above
	Prefix string  // the rule of prefix filters, as text; empty without one
}

// Options for filters:
//
//	0         8            16        17          21
//	+---------+------------+---------+-----------+--------------+
//	| fpr f64 | memory u64 | kind u8 | ratio u32 | rule of text |
//	+---------+------------+---------+-----------+--------------+
const (
	filtersSize = 21 // without the rule
	maxRule     = 1 << 10
)

func appendFilters(dst []byte, f *Filters) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(f.FPR))
	dst = binary.LittleEndian.AppendUint64(dst, f.Memory)
	dst = binary.LittleEndian.AppendUint32(append(dst, f.Kind), f.Ratio)
	return append(dst, f.Prefix...)
}

func parseFilters(b []byte) (*Filters, error) {
	if len(b) < filtersSize {
		return nil, fmt.Errorf("edit: options for filters of %d bytes, want at least %d", len(b), filtersSize)
	}
	return &Filters{
		FPR: math.Float64frombits(binary.LittleEndian.Uint64(b)), Memory: binary.LittleEndian.Uint64(b[8:]),
		Kind: b[16], Ratio: binary.LittleEndian.Uint32(b[17:]), Prefix: string(b[filtersSize:]),
	}, nil
}

// check checks the values of f.
func (f *Filters) check() error {
	switch {
	case f == nil:
		return nil
	case (f.FPR == 0) == (f.Memory == 0):
		return errors.New("edit: options for filters with both a rate and memory, or neither")
	case !(f.FPR >= 0 && f.FPR <= 1) || math.Signbit(f.FPR): // also NaN
		return fmt.Errorf("edit: options for filters of rate %v, want more than 0, at most 1", f.FPR)
	case len(f.Prefix) > maxRule:
		return fmt.Errorf("edit: rule of prefixes of %d bytes, want at most %d", len(f.Prefix), maxRule)
	}
	return nil
}
