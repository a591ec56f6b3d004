package workload

import (
	"encoding/binary"
	"fmt"

	"github.com/bloomkv/bloomkv/internal/words"
)

// Shape is the form of generated keys.
type Shape uint8

const (
	Random    Shape = iota // 16 bytes that look random, in no order
	Decimal                // 16 decimal digits padded with zeros, in order
	Prefixed               // 36 bytes: the same 20, then 16 that look random
	BigEndian              // 8 bytes, a big-endian number, in order
)

// Shapes lists all shapes.
var Shapes = []Shape{Random, Decimal, Prefixed, BigEndian}

const (
	sharedPrefix = "tenant/000042/order/" // start of Prefixed keys
	decimalWidth = 16
	maxDecimal   = 10_000_000_000_000_000 / 2 // keys whose doubled numbers have decimalWidth digits
)

// String returns the name that UnmarshalText reads.
func (s Shape) String() string {
	return nameOf(s, "shape", "random", "decimal", "prefixed", "bigendian")
}

// MarshalText returns the name, for flags.
func (s Shape) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText sets the shape with the given name, for flags.
func (s *Shape) UnmarshalText(name []byte) error {
	for _, shape := range Shapes {
		if shape.String() == string(name) {
			*s = shape
			return nil
		}
	}
	return fmt.Errorf("no key shape %s; want one of %v", words.Quoted(name), Shapes)
}

// KeyBytes returns the length of the keys, which is the same for all keys of a shape.
func (s Shape) KeyBytes() int {
	return [...]int{Random: 16, Decimal: decimalWidth, Prefixed: len(sharedPrefix) + 16, BigEndian: 8}[s]
}

// Generated is a [Set] whose keys and values are computed. Its keys are the even ordinals of the shape and its absent
// keys the odd ones. In the ordered shapes each absent key lies between two neighbors, in the others between two random
// keys.
type Generated struct {
	shape Shape
	n     int
	seed  uint64
	value int // bytes of each value
}

var _ Set = (*Generated)(nil)

// NewGenerated returns a set of n pairs with values of the given number of bytes. Sets with different seeds have
// different values, and different keys if these look random.
func NewGenerated(shape Shape, n int, seed uint64, value int) (*Generated, error) {
	if int(shape) >= len(Shapes) {
		return nil, fmt.Errorf("unknown key %v", shape)
	}
	if n < 0 || uint64(n) > maxDecimal {
		return nil, fmt.Errorf("%d keys, want 0..%d", n, int64(maxDecimal))
	}
	if value < 0 {
		return nil, fmt.Errorf("values of %d bytes, want 0 or more", value)
	}
	return &Generated{shape: shape, n: n, seed: mix(seed + golden), value: value}, nil
}

// Len returns the number of pairs.
func (g *Generated) Len() int { return g.n }

// Sorted reports whether the keys are in the order of their numbers.
func (g *Generated) Sorted() bool { return g.shape == Decimal || g.shape == BigEndian }

// AppendKey appends key i, 0 ≤ i < Len.
func (g *Generated) AppendKey(dst []byte, i int) []byte { return g.appendOrdinal(dst, 2*word(i)) }

// AppendValue appends the value of key i, 0 ≤ i < Len.
func (g *Generated) AppendValue(dst []byte, i int) []byte { return g.AppendVersion(dst, i, 0) }

// AppendVersion appends a version of the value of key i, 0 ≤ i < Len. All values have the same length. Values of less
// than eight bytes may repeat.
func (g *Generated) AppendVersion(dst []byte, i int, version uint32) []byte {
	seed := g.seed ^ mix(2*word(i)+golden)
	if version > 0 {
		seed = mix(seed + uint64(version)*golden)
	}
	left := g.value
	for ; left >= 8; left -= 8 {
		seed += golden
		dst = binary.LittleEndian.AppendUint64(dst, mix(seed))
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], mix(seed+golden))
	return append(dst, last[:left]...)
}

// Absents returns Len-1, the number of gaps between the keys.
func (g *Generated) Absents() int { return max(0, g.n-1) }

// AppendAbsent appends absent key i, 0 ≤ i < Absents.
func (g *Generated) AppendAbsent(dst []byte, i int) []byte { return g.appendOrdinal(dst, 2*word(i)+1) }

// Index returns the number of a key, or false if the key is not in the set.
func (g *Generated) Index(key []byte) (i int, ok bool) {
	if len(key) != g.shape.KeyBytes() {
		return 0, false
	}
	var ordinal uint64
	switch g.shape {
	case Decimal:
		for _, c := range key {
			if c < '0' || c > '9' {
				return 0, false
			}
			ordinal = 10*ordinal + uint64(c-'0')
		}
	case BigEndian:
		ordinal = binary.BigEndian.Uint64(key)
	case Random, Prefixed:
		tail := key[len(key)-16:]
		first := binary.BigEndian.Uint64(tail)
		if binary.BigEndian.Uint64(tail[8:]) != mix(first^golden) || string(key[:len(key)-16]) != g.prefix() {
			return 0, false
		}
		ordinal = unmix(first) ^ g.seed
	}
	if ordinal%2 != 0 || ordinal/2 >= word(g.n) {
		return 0, false
	}
	return int(ordinal / 2), true
}

func (g *Generated) prefix() string {
	if g.shape == Prefixed {
		return sharedPrefix
	}
	return ""
}

func (g *Generated) appendOrdinal(dst []byte, ordinal uint64) []byte {
	switch g.shape {
	case Decimal:
		var digits [decimalWidth]byte
		for i := len(digits) - 1; i >= 0; i-- {
			digits[i] = '0' + byte(ordinal%10)
			ordinal /= 10
		}
		return append(dst, digits[:]...)
	case BigEndian:
		return binary.BigEndian.AppendUint64(dst, ordinal)
	default:
		first := mix(ordinal ^ g.seed) // a bijection: distinct ordinals give distinct keys
		dst = append(dst, g.prefix()...)
		dst = binary.BigEndian.AppendUint64(dst, first)
		return binary.BigEndian.AppendUint64(dst, mix(first^golden))
	}
}
