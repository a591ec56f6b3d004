//go:build leveldb

package foreign

/*
#cgo CXXFLAGS: -O2 -std=c++17 -fno-rtti
#cgo LDFLAGS: -lleveldb -lstdc++

#include "leveldb.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// LevelDB is a store of LevelDB whose filters record their answers.
type LevelDB struct{ s *C.struct_store }

// OpenLevelDB opens a store in dir, or creates it, with a filter of the given number of bits for each key. It writes
// what is in its log into a table.
func OpenLevelDB(dir string, bits, block int, snappy bool) (*LevelDB, error) {
	path := C.CString(dir)
	defer C.free(unsafe.Pointer(path))
	var failed *C.char
	compression := C.int(0)
	if snappy {
		compression = 1
	}
	s := C.store_open(path, C.int(bits), C.size_t(block), compression, &failed)
	if s == nil {
		defer C.free(unsafe.Pointer(failed))
		return nil, errors.New("leveldb: " + C.GoString(failed))
	}
	return &LevelDB{s}, nil
}

// Close closes the store.
func (l *LevelDB) Close() { C.store_close(l.s) }

// Put writes a key.
func (l *LevelDB) Put(key, value []byte) error {
	if C.store_put(l.s, text(key), C.size_t(len(key)), text(value), C.size_t(len(value))) == 0 {
		return fmt.Errorf("leveldb: key %q cannot be written", key)
	}
	return nil
}

// Maybe looks a key up and reports whether the filter does not deny it. A lookup of a key after all others asks no
// filter.
func (l *LevelDB) Maybe(key []byte) (maybe, asked bool) {
	answer := C.store_maybe(l.s, text(key), C.size_t(len(key)))
	return answer == 1, answer >= 0
}

func text(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }
