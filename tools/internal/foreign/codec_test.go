package foreign

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

func TestLZ4BlocksAreReadToTheirLength(t *testing.T) {
	end := []byte("\x50hello") // a last sequence of five literals
	for _, c := range []struct {
		name  string
		block []byte
		n     int
		want  string // "" for an error
	}{
		{"literals", end, 5, "hello"},
		{"a match that overlaps itself", slices.Concat([]byte("\x26ab\x02\x00"), end), 17, "abababababab" + "hello"},
		{
			"a long match", slices.Concat([]byte("\x1fa\x01\x00\xff\xff\xff\xd8"), end), 1006,
			string(bytes.Repeat([]byte("a"), 1001)) + "hello",
		},
		{
			"many literals", append([]byte("\xf0\xff\x1e"), bytes.Repeat([]byte("xyz"), 100)...), 300,
			string(bytes.Repeat([]byte("xyz"), 100)),
		},
		{"a byte too few", end, 6, ""},
		{"a byte too many", end, 4, ""},
		{"a length that no block has", end, 1 << 20, ""},
		{"literals beyond the block", end[:4], 5, ""},
		{"a match without an end", []byte("\x26ab\x02"), 12, ""},
		{"a match of no distance", slices.Concat([]byte("\x26ab\x00\x00"), end), 17, ""},
		{"a match before the block", slices.Concat([]byte("\x26ab\x03\x00"), end), 17, ""},
	} {
		got, err := unlz4(c.block, c.n)
		if c.want == "" && !errors.Is(err, errLZ4) && !errors.Is(err, errDecodedSize) {
			t.Errorf("%s: %q, error %v, want damage", c.name, got, err)
		}
		if c.want != "" && (err != nil || string(got) != c.want) {
			t.Errorf("%s: %q, error %v, want %q", c.name, got, err, c.want)
		}
	}
	// Matches of each distance and length, one after the other, as a table of RocksDB may have them.
	var block, want []byte
	for i := range 300 {
		literals := []byte{byte(i), byte(i >> 1), byte(i >> 2)}
		want = append(want, literals...)
		distance, length := i+1, 4+i%15
		block = append(append(block, 3<<4|byte(length-4)), literals...)
		block = append(block, byte(distance), byte(distance>>8))
		for range length {
			want = append(want, want[len(want)-distance])
		}
	}
	block, want = append(block, end...), append(want, "hello"...)
	if got, err := unlz4(block, len(want)); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of matches, error %v, want %d", len(got), err, len(want))
	}
}
