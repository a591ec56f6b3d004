package ikey

import (
	"bytes"
	"cmp"
	"testing"
)

// keys returns keys that share prefixes, are prefixes of each other, and contain zeros and the largest byte: the cases
// in which heads may be equal.
func keys() [][]byte {
	var all [][]byte
	for _, prefix := range []string{"", "p", "pre", "pref", "prefix/", "q", "\x00", "\xff"} {
		for _, rest := range []string{
			"", "\x00", "\x00\x00", "a", "aaaaaaa", "aaaaaaaa", "aaaaaaaaa", "aaaaaaaab", "b", "\xff",
			"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		} {
			all = append(all, []byte(prefix+rest))
		}
	}
	return all
}

func TestHeadsNeverOrderTwoKeysWrongly(t *testing.T) {
	all := keys()
	for _, prefix := range all {
		for _, a := range all {
			for _, b := range all {
				got, want := cmp.Compare(HeadAfter(prefix, a), HeadAfter(prefix, b)), bytes.Compare(a, b)
				if got != 0 && got != want {
					t.Fatalf("after %q: heads of %q and %q compare as %d, the keys as %d", prefix, a, b, got, want)
				}
			}
		}
	}
}

func TestCommonPrefix(t *testing.T) {
	all := keys()
	for _, a := range all {
		for _, b := range all {
			n := CommonPrefix(a, b)
			if !bytes.Equal(a[:n], b[:n]) || n < min(len(a), len(b)) && a[n] == b[n] {
				t.Fatalf("CommonPrefix(%q, %q) = %d", a, b, n)
			}
		}
	}
}

func TestNewerVersionsOfAKeyComeFirst(t *testing.T) {
	want := []Key{
		Search([]byte("a"), MaxSeq),
		{[]byte("a"), MakeTrailer(9, Set)},
		Search([]byte("a"), 8),
		{[]byte("a"), MakeTrailer(8, Set)},
		{[]byte("a"), MakeTrailer(8, Delete)},
		{[]byte("a"), MakeTrailer(0, Set)},
		Search([]byte("a\x00"), MaxSeq),
		{[]byte("b"), MakeTrailer(1, Set)},
	}
	for i, k := range want {
		for j, other := range want {
			if c := Compare(k, other); c != cmp.Compare(i, j) {
				t.Errorf("%v and %v compare as %d", k, other, c)
			}
		}
		if k2 := (Key{k.User, MakeTrailer(k.Trailer.Seq(), k.Trailer.Kind())}); k2.Trailer != k.Trailer {
			t.Errorf("trailer %x: seq %d, kind %v", k.Trailer, k.Trailer.Seq(), k.Trailer.Kind())
		}
	}
	for kind, name := range map[Kind]string{
		Delete: "DEL", Set: "SET", RangeDelete: "RANGEDEL", ValueRef: "REF", Mark: "MARK", 0xa7: "KIND(a7)",
	} {
		if kind.String() != name {
			t.Errorf("Kind(%d) prints as %s, want %s", kind, kind, name)
		}
	}
}

func TestAfterPrefix(t *testing.T) {
	for _, c := range []struct{ prefix, want string }{
		{"", "nil"}, {"a", "b"}, {"a\xff", "b"}, {"\xff\xff", "nil"}, {"a\x00", "a\x01"}, {"a\xfe", "a\xff"},
	} {
		got := "nil"
		if after := AfterPrefix([]byte(c.prefix)); after != nil {
			got = string(after)
		}
		if got != c.want {
			t.Errorf("AfterPrefix(%q) = %q, want %q", c.prefix, got, c.want)
		}
	}
}

func TestHeadFromIsTheHeadOfTheRest(t *testing.T) {
	for _, key := range keys() {
		for n := range len(key) + 1 {
			if got, want := HeadFrom(key, n), Head(key[n:]); got != want {
				t.Fatalf("HeadFrom(%q, %d) = %x, want %x", key, n, got, want)
			}
			if got, want := HeadAfter(key[:n], key), Head(key[n:]); got != want {
				t.Fatalf("HeadAfter(%q, %q) = %x, want %x", key[:n], key, got, want)
			}
		}
	}
}
