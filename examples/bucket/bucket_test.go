package bucket

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

func ExampleKey() {
	users := Prefix(nil, []byte("users"))
	fmt.Printf("%q\n", Key(users, []byte("alice")))
	fmt.Printf("%q\n", Key(Prefix(users, []byte("a\x00b")), []byte("\x00")))
	// Output:
	// "users\x00\x01alice"
	// "users\x00\x01a\x00\xffb\x00\x01\x00\xff"
}

func ExampleSplit() {
	buckets, name := Split([]byte("users\x00\x01staff\x00\x01alice"))
	fmt.Printf("%s %s\n", buckets, name)
	// Output: [users staff] alice
}

// TestOrderAndWayBack checks all keys up to two buckets deep whose names have up to three bytes, of a few values.
func TestOrderAndWayBack(t *testing.T) {
	var names []string
	for _, a := range []string{"", "\x00", "\x01", "a", "\xff"} {
		for _, b := range []string{"", "\x00", "\x01", "\xff"} {
			for _, c := range []string{"", "\x00", "\x01"} {
				if a+b+c != "" { // bbolt has no empty names
					names = append(names, a+b+c)
				}
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)

	var paths [][]string // in bbolt's order, if each name were a bucket and, just before it, a key
	for _, outer := range names {
		paths = append(paths, []string{outer})
		for _, inner := range names {
			paths = append(paths, []string{outer, inner})
		}
	}
	var last []byte
	for i, path := range paths {
		var prefix []byte
		for _, bucket := range path[:len(path)-1] {
			prefix = Prefix(prefix, []byte(bucket))
		}
		want := path[len(path)-1]
		key := Key(prefix, []byte(want))
		if i > 0 && bytes.Compare(last, key) >= 0 {
			t.Fatalf("%q: key %q is not after %q, of %q", path, key, last, paths[i-1])
		}
		last = key
		buckets, name := Split(key)
		if string(name) != want || len(buckets) != len(path)-1 || len(buckets) == 1 && string(buckets[0]) != path[0] {
			t.Fatalf("%q: Split of %q: got %q, %q", path, key, buckets, name)
		}
	}
}
