package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
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

// Shows compares all keys of a reader, in both directions, and its lookups of the given keys with a map.
func Shows(r bloomkv.Reader, want map[string]string, keys []string) error {
	it := r.Iter(bloomkv.IterOptions{})
	sorted := slices.Sorted(maps.Keys(want))
	i := 0
	for k, v := range it.All() {
		if i == len(sorted) || string(k) != sorted[i] || string(v) != want[sorted[i]] {
			return fmt.Errorf("forward, key %d: %q = %q, want the keys %q", i, k, v, sorted)
		}
		i++
	}
	j := len(sorted)
	for k, v := range it.Backward() {
		if j--; j < 0 || string(k) != sorted[j] || string(v) != want[sorted[j]] {
			return fmt.Errorf("backward, key %d: %q = %q, want the keys %q", j, k, v, sorted)
		}
	}
	if err := it.Close(); err != nil || i < len(sorted) || j > 0 {
		return fmt.Errorf("%d keys forward, %d left backward, want the keys %q: %w", i, j, sorted, err)
	}
	for _, k := range keys {
		w, there := want[k]
		v, err := r.Get([]byte(k))
		has, hasErr := r.Has([]byte(k))
		if string(v) != w || there != (err == nil) || !there && !errors.Is(err, bloomkv.ErrNotFound) || has != there ||
			hasErr != nil {
			return fmt.Errorf("get %q: %q, %w; has %v, %w; want %q, %v", k, v, err, has, hasErr, w, there)
		}
	}
	many := make([][]byte, len(keys))
	for i, k := range keys {
		many[i] = []byte(k)
	}
	return r.GetMany(many, func(i int, v []byte, found bool) error {
		if w, there := want[keys[i]]; found != there || string(v) != w {
			return fmt.Errorf("get many, %q: %q, %v, want %q, %v", keys[i], v, found, w, there)
		}
		return nil
	})
}

// PairsOf returns a map as a sorted sequence, in slices that are valid for one step only.
func PairsOf(m map[string]string) iter.Seq2[bloomkv.KV, error] {
	return func(yield func(bloomkv.KV, error) bool) {
		var k, v []byte
		for _, key := range slices.Sorted(maps.Keys(m)) {
			k, v = append(k[:0], key...), append(v[:0], m[key]...)
			if !yield(bloomkv.KV{Key: k, Value: v}, nil) {
				return
			}
		}
	}
}

// Diff describes how two contents differ, or returns "".
func Diff(got, want map[string]string) string {
	if maps.Equal(got, want) {
		return ""
	}
	var b strings.Builder
	n, all := 0, map[string]string{}
	maps.Copy(all, got)
	maps.Copy(all, want)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		v, there := got[k]
		w, wanted := want[k]
		if v == w && there == wanted {
			continue
		}
		if n++; n <= 5 {
			fmt.Fprintf(&b, "key %.40q: got %.40q (there: %v), want %.40q (there: %v)\n", k, v, there, w, wanted)
		}
	}
	return fmt.Sprintf("%d of %d keys differ:\n%s", n, len(want), b.String())
}
