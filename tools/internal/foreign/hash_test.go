package foreign

import (
	"fmt"
	"strings"
	"testing"
)

// sanity returns the input of xxHash's own tests (tests/sanity_test.c).
func sanity(n int) []byte {
	b := make([]byte, n)
	v := uint64(prime32x1)
	for i := range b {
		b[i] = byte(v >> 56)
		v *= 11400714785074694797
	}
	return b
}

func TestXXH3IsThatOfItsOwnTests(t *testing.T) {
	for n, want := range map[int]uint64{
		0: 0x2d06800538d394c2, 1: 0xc44bdff4074eecdb, 2: 0x7a9978044cb8a8bb, 3: 0x54247382a8d6b94d,
		4: 0xe5dc74bc51848a51, 6: 0x27b56a84cd2d7325, 8: 0x24ccc9acaa9f65e4, 9: 0x14d5001c15dd3f2b,
		12: 0xa713daf0dfbb77e7, 16: 0x981b17d36c7498c9, 17: 0x796f5acd3a60f862, 24: 0xa3fe70bf9d3510eb,
		32: 0x9feaddbdbf57eed3, 48: 0x397da259ecba1f11, 64: 0x9cb48487720ec49d, 80: 0xbcdefbbb2c47c90a,
		100: 0x93cd95432b7d483f, 128: 0xfcff24126754d861, 129: 0x98f1b0a679a2ca29, 195: 0xcd94217ee362ec3a,
		240: 0x81c3c2b67f568ccf, 241: 0xc5a639ecd2030e5e, 403: 0xcdeb804d65c6dea4, 512: 0x617e49599013cb6b,
		1024: 0xdd85c9b5c1109c5c, 2048: 0xdd59e2c3a5f038e0, 2099: 0xc6b9d9b3fc9ac765, 2240: 0x6e73a90539cf2948,
		2367: 0xcb37aeb9e5d361ed,
	} {
		if got := xxh3(sanity(n)); got != want {
			t.Errorf("%d bytes: %016x, want %016x", n, got, want)
		}
	}
}

func TestXXH32IsThatOfItsOwnTests(t *testing.T) {
	for n, want := range map[int]uint32{
		0: 0x02cc5d05, 1: 0xcf65b03e, 4: 0xa9de7ce9, 14: 0x1208e7e2, 222: 0x5bd11dbd,
	} {
		if got := xxh32(sanity(n)); got != want {
			t.Errorf("%d bytes: %08x, want %08x", n, got, want)
		}
	}
}

// The values are those of RocksDB's util/hash_test.cc.
func TestThePreviewOfXXH3IsThatOfRocksDB(t *testing.T) {
	for key, want := range map[string]uint64{
		"":                                     5999572062939766020,
		"\x08":                                 583283813901344696,
		"\x4d\x76":                             6859542833406258115,
		"\x30\x46\x0b":                         11404699285340020889,
		"\x67\x53\x81\x1c":                     9010661983527562386,
		"\xd0\x7a\x6e\xea\x56":                 6384167718754869899,
		"\x31\x1b\x98\x75\x96\x22\xd3\x9a":     9844314944338447628,
		"\x1a\xb5\xd0\xfe\xab\xc3\x61\xb2\x99": 13253403748084181481,
		"\x22\x6f\x39\x1f\xf8\xdd\x4f\x52\x17\x94": 12883919702069153152,
	} {
		if got := xxph3([]byte(key)); got != want {
			t.Errorf("% x: %d, want %d", key, got, want)
		}
	}
	// One letter for the hash of each length of the repeated name, from 0 on.
	const (
		letters = "abcdefghijklmnopqrstuvwxyz123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		want    = "c1EeRkukbkb28wLTahwD2sfUhZzaBEnF8SVrxnPVB6A7b8CaAl3UKsDZISF92GSq2wDCukOq" +
			"Jgrsp7A3KZhDiLW8dFXp8UPqPxMCRlMdZeVeJ2dJxrmA6cyt99zkQFj7ELbut6jAeVqARFnw" +
			"fnWVXOsaLrq7bDCbMcns2DKvTaaqTCLMYxI7nhtLpFN1jR755FRQFcOzrrDbh7QhypjdvlYw" +
			"cdAMSZgp9JMHxbM23wPSuH6BOFgxejz35PScZfhDPvTOxIy1jc3MZsWrMC3P324zNolO7JdW" +
			"CX2I5UDKjjaEJfxbgVgJIXxtQGlmj2xkO5sPpjULQV4X2HlY7FQleJ4QRaJIB4buhCA4vUTF" +
			"eMFlxCIYUpTCsal2qsmnGOWa8WCcefrohMjDj1fjzSvSaQwlpyR1GZHF2uPOoQagiCpHpm"
	)
	input := []byte(strings.Repeat("RocksDB", 430/7+1))
	got := make([]byte, 430)
	for n := range got {
		got[n] = letters[xxph3(input[:n])%61]
	}
	if string(got) != want {
		t.Errorf("hashes by length:\n%s, want\n%s", got, want)
	}
}

func TestTheTailIsSignedOrNot(t *testing.T) {
	for _, key := range []string{"", "a", "abc", "abcd", "abcdefg"} {
		if a, b := unsignedTail.of([]byte(key)), signedTail.of([]byte(key)); a != b {
			t.Errorf("%q: %08x and %08x, want the same for ASCII", key, a, b)
		}
	}
	for _, key := range []string{"\xff", "ab\x80", "abcd\x90\x01"} {
		if a, b := unsignedTail.of([]byte(key)), signedTail.of([]byte(key)); a == b {
			t.Errorf("%q: %08x for both, want a difference", key, a)
		}
	}
	if a, b := unsignedTail.of([]byte("\xff\xfe\xfd\xfc")), signedTail.of([]byte("\xff\xfe\xfd\xfc")); a != b {
		t.Errorf("whole words: %08x and %08x, want the same", a, b)
	}
	// RocksDB's util/bloom_test.cc has the hash of the bits of some filters of 87 keys, four bytes each.
	for bits, want := range map[int]uint32{8: 3589896109, 9: 969445585, 10: 2373646410, 11: 1694458207} {
		if got := signedTail.of(bloomOf(87, bits)); got != want {
			t.Errorf("%d bits per key: filter with hash %d, want %d", bits, got, want)
		}
	}
}

// bloomOf returns a plain filter of the keys 0..n-1, four bytes each, little-endian.
func bloomOf(n, bitsPerKey int) []byte {
	var all [][]byte
	for i := range n {
		all = append(all, []byte{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24)})
	}
	return buildPlain(all, bitsPerKey, signedTail)
}

// buildPlain builds the filter that newPlain reads.
func buildPlain(keys [][]byte, bitsPerKey int, h bloomHash) []byte {
	n := (max(64, len(keys)*bitsPerKey) + 7) / 8
	k := min(30, max(1, bitsPerKey*69/100))
	b := append(make([]byte, n), byte(k))
	for _, key := range keys {
		v := h.of(key)
		step := v>>17 | v<<15
		for range k {
			at := v % uint32(8*n)
			b[at/8] |= 1 << (at % 8)
			v += step
		}
	}
	return b
}

func TestBuildPlainAgreesWithNewPlain(t *testing.T) {
	var all [][]byte
	for i := range 1000 {
		all = append(all, fmt.Appendf(nil, "key %d", i))
	}
	u := newPlain(buildPlain(all, 10, unsignedTail), unsignedTail)
	for _, key := range all {
		if !u.ask(u.hash(key), nil) {
			t.Fatalf("%q is denied", key)
		}
	}
}
