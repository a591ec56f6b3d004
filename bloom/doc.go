// Package bloom has sets of keys in memory that answer "certainly not here" or "maybe here", in a few bits a key.
//
//   - Filter: the number of keys is known. The usual choice.
//   - Atomic: many goroutines add and ask at once.
//   - Counting: keys are removed again.
//   - Scalable: the number of keys is not known.
//   - Window: only the latest keys of a stream count.
//
// No set ever denies a key that it has (see Counting and Window for what that means there). An absent key passes at the
// rate that the set was made for, as long as it has no more keys than it was made for; beyond that the rate rises,
// except in a Scalable. Filter.Saturated reports that, and Filter.Rate returns the rate now.
//
//	f, err := bloom.New(bloom.Options{Keys: 1_000_000, Rate: 0.01})
//	f.Add([]byte("key"))
//	f.MayContain([]byte("key")) // true
//
// Sets hash a key once by bloomblock.HashKey and mix the hash with their seed. AddHash and MayContainHash take such a
// hash. Bits are at the positions of the filter blocks of package bloomblock: in 512-bit blocks, one cache line for
// each key (Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", WEA 2007). A Filter can have
// two other layouts.
//
// Filters with equal Options can be united and compared: Filter.Union, Filter.Compare. A Filter, Counting, Scalable or
// Window travels as bytes: MarshalBinary, WriteTo and their counterparts; or as text, in JSON for example: MarshalText.
// Atomic.Snapshot and Counting.Snapshot return a Filter.
//
// A zero value is for reading a set into. Until then it has no bits: it denies no key, adding changes nothing, and its
// rate is 1. It cannot be encoded: see ErrNoBits.
//
// Which set answers which question, with figures, is in docs/sets.md.
package bloom
