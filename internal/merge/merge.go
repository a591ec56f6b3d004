// Package merge reads many sorted sources as one, forward and backward.
package merge

import "github.com/bloomkv/bloomkv/internal/ikey"

// Source is a cursor over distinct versions in the order of package ikey.
//
//	( (First | Last | SeekGE | SeekLT) (Next | Prev)* )*   Next and Prev only while the last call returned true
//	Key, Value     while it did; their bytes are valid until the next move, and must not be changed
//	Err            after a call returned false: nil past the end or before the start, else why the source stopped
//	Close          once, last; an error that it returns is one that Err has returned
//
// After a call that returned false, only the first four may follow, which do not depend on the current version; they
// forget an error and try again. Next and Prev may follow each other in any order. A Source must not be used by several
// goroutines at a time.
type Source interface {
	// First moves to the first version, Last to the last.
	First() bool
	Last() bool
	// SeekGE moves to the first version at or after k, SeekLT to the last one before k. They keep no reference to k,
	// which must not share bytes with Key.
	SeekGE(k ikey.Key) bool
	SeekLT(k ikey.Key) bool
	// Next moves to the version after the current one, Prev to the one before.
	Next() bool
	Prev() bool
	Key() ikey.Key
	Value() []byte
	Err() error
	Close() error
}

// end moves s to its first version, or going backward to its last.
func end(s Source, back bool) bool {
	if back {
		return s.Last()
	}
	return s.First()
}

// seek moves s to its first version at or after k, or going backward to its last one before k.
func seek(s Source, k ikey.Key, back bool) bool {
	if back {
		return s.SeekLT(k)
	}
	return s.SeekGE(k)
}

// step moves s by one version.
func step(s Source, back bool) bool {
	if back {
		return s.Prev()
	}
	return s.Next()
}
