package storetest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv"
)

// Contents reads a whole store by one scan.
func Contents(db *bloomkv.DB) (map[string]string, error) {
	all := map[string]string{}
	var last []byte
	for kv, err := range db.Scan(bloomkv.IterOptions{}) {
		if err != nil {
			return nil, err
		}
		if len(all) > 0 && bytes.Compare(last, kv.Key) >= 0 {
			return nil, fmt.Errorf("scan: %q after %q", kv.Key, last)
		}
		last = append(last[:0], kv.Key...)
		all[string(kv.Key)] = string(kv.Value)
	}
	return all, nil
}

// Diff describes how two contents differ, or returns "".
func Diff(got, want map[string]string) string {
	if maps.Equal(got, want) {
		return ""
	}
	var b strings.Builder
	n := 0
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if v, ok := got[k]; !ok || v != want[k] {
			if n++; n <= 5 {
				fmt.Fprintf(&b, "key %.40q: got %.40q (there: %v), want %.40q\n", k, v, ok, want[k])
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[k]; !ok {
			if n++; n <= 5 {
				fmt.Fprintf(&b, "key %.40q: got %.40q, want none\n", k, got[k])
			}
		}
	}
	return fmt.Sprintf("%d of %d keys differ:\n%s", n, len(want), b.String())
}
