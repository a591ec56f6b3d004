package salvage

import (
	"cmp"
	"iter"
	"slices"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A version is a version of a key.
type version struct {
	key   ikey.Key
	value []byte
	age   int // of the table that has it; 0, which is less than that of any table, for a version of a log
}

// A source yields versions in the order of package ikey, with bytes that are valid until the next one. An error is the
// last that it yields, and ends the whole salvage.
type source = iter.Seq2[version, error]

// merged returns the versions of all sources in order. Of equal versions that of the lower age comes first. A
// merge.Iter would not do: it orders equal versions by their sources, but here the order of two sources depends on the
// tables they have reached.
func merged(sources []source) source {
	return func(yield func(version, error) bool) {
		type head struct { // the version that a source has reached
			version

			next func() (version, error, bool)
		}
		var heads []head                           // of the sources that have not ended, in order
		var moving []func() (version, error, bool) // of the sources that move now
		for _, s := range sources {
			next, stop := iter.Pull2(s)
			defer stop()
			moving = append(moving, next)
		}
		for {
			for _, next := range moving {
				v, err, ok := next()
				if err != nil {
					yield(v, err)
					return
				}
				if !ok {
					continue
				}
				i, _ := slices.BinarySearchFunc(heads, v, func(h head, v version) int {
					return cmp.Or(ikey.Compare(h.key, v.key), cmp.Compare(h.age, v.age))
				})
				heads = slices.Insert(heads, i, head{v, next})
			}
			if len(heads) == 0 || !yield(heads[0].version, nil) {
				return
			}
			moving = append(moving[:0], heads[0].next)
			heads = slices.Delete(heads, 0, 1)
		}
	}
}
