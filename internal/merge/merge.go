// Package merge reads many sorted sources as one.
package merge

import "github.com/bloomkv/bloomkv/internal/ikey"

// Source is a cursor over versions in the order of package ikey.
//
//	(First | SeekGE) (Next)*   while the last call returned true
//	Key, Value                 while it did; their bytes are valid until the next call that moves
//	Err                        after one returned false: nil at the end
//	Close                      once, last
type Source interface {
	First() bool
	SeekGE(k ikey.Key) bool
	Next() bool
	Key() ikey.Key
	Value() []byte
	Err() error
	Close() error
}
