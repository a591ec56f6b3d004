//go:build rocksdb

// Package foreign writes tables with RocksDB and with LevelDB, and asks their filters, for the tests of this module.
package foreign

/*
#cgo CFLAGS: -O2 -I${SRCDIR}/../../../../bin/rocksdb/include
#cgo LDFLAGS: -L${SRCDIR}/../../../../bin/rocksdb/lib -lrocksdb -lstdc++ -lm -ldl -lpthread

#include "rocksdb.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// RocksOptions are the options of a table.
type RocksOptions struct {
	Format      int
	Ribbon      bool
	Bits        float64 // per key
	Partitioned bool    // filters, and an index of two levels
	TwoLevel    bool
	HashIndex   bool // in data blocks
	Checksum    int
	Compression int
	Block       int // bytes
	Restart     int // interval in the index
}

// options returns RocksDB's options, which the caller destroys.
func (o *RocksOptions) options() *C.rocksdb_options_t {
	t := C.rocksdb_block_based_options_create()
	defer C.rocksdb_block_based_options_destroy(t)
	C.rocksdb_block_based_options_set_format_version(t, C.int(o.Format))
	if o.Ribbon {
		C.rocksdb_block_based_options_set_filter_policy(t, C.rocksdb_filterpolicy_create_ribbon(C.double(o.Bits)))
	} else {
		C.rocksdb_block_based_options_set_filter_policy(t, C.rocksdb_filterpolicy_create_bloom_full(C.double(o.Bits)))
	}
	if o.Partitioned || o.TwoLevel {
		C.rocksdb_block_based_options_set_index_type(t, C.rocksdb_block_based_table_index_type_two_level_index_search)
		C.rocksdb_block_based_options_set_metadata_block_size(t, 1024)
	}
	if o.Partitioned {
		C.rocksdb_block_based_options_set_partition_filters(t, 1)
	}
	if o.HashIndex {
		C.rocksdb_block_based_options_set_data_block_index_type(t,
			C.rocksdb_block_based_table_data_block_index_type_binary_search_and_hash)
	}
	C.rocksdb_block_based_options_set_checksum(t, C.char(o.Checksum))
	if o.Block > 0 {
		C.rocksdb_block_based_options_set_block_size(t, C.size_t(o.Block))
	}
	if o.Restart > 0 {
		C.rocksdb_block_based_options_set_index_block_restart_interval(t, C.int(o.Restart))
	}
	all := C.rocksdb_options_create()
	C.rocksdb_options_set_create_if_missing(all, 1)
	C.rocksdb_options_set_compression(all, C.int(o.Compression))
	C.rocksdb_options_set_block_based_table_factory(all, t)
	return all
}

func chars(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }

// failure returns an error of RocksDB, or nil, and frees its text.
func failure(text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.rocksdb_free(unsafe.Pointer(text))
	return errors.New("rocksdb: " + C.GoString(text))
}

// WriteRocksDB writes a table with sorted keys.
func WriteRocksDB(name string, keys [][]byte, value func(key []byte) []byte, o RocksOptions) error {
	all, env := o.options(), C.rocksdb_envoptions_create()
	defer C.rocksdb_options_destroy(all)
	defer C.rocksdb_envoptions_destroy(env)
	w := C.rocksdb_sstfilewriter_create(env, all)
	defer C.rocksdb_sstfilewriter_destroy(w)
	path := C.CString(name)
	defer C.free(unsafe.Pointer(path))
	var failed *C.char
	C.rocksdb_sstfilewriter_open(w, path, &failed)
	if err := failure(failed); err != nil {
		return err
	}
	for _, key := range keys {
		v := value(key)
		C.rocksdb_sstfilewriter_put(w, chars(key), C.size_t(len(key)), chars(v), C.size_t(len(v)), &failed)
		if err := failure(failed); err != nil {
			return err
		}
	}
	C.rocksdb_sstfilewriter_finish(w, &failed)
	return failure(failed)
}

// RocksDB is a store with one table.
type RocksDB struct {
	db   *C.rocksdb_t
	read *C.rocksdb_readoptions_t
}

// OpenRocksDB creates a store in dir and takes a copy of the table into it.
func OpenRocksDB(dir, table string, o RocksOptions) (*RocksDB, error) {
	all, ingest := o.options(), C.rocksdb_ingestexternalfileoptions_create()
	defer C.rocksdb_options_destroy(all)
	defer C.rocksdb_ingestexternalfileoptions_destroy(ingest)
	path, name := C.CString(dir), C.CString(table)
	defer C.free(unsafe.Pointer(path))
	defer C.free(unsafe.Pointer(name))
	var failed *C.char
	db := C.rocksdb_open(all, path, &failed)
	if err := failure(failed); err != nil {
		return nil, err
	}
	s := &RocksDB{db, C.rocksdb_readoptions_create()}
	C.rocksdb_ingest_external_file(db, &name, 1, ingest, &failed)
	if err := failure(failed); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the store.
func (s *RocksDB) Close() {
	C.rocksdb_readoptions_destroy(s.read)
	C.rocksdb_close(s.db)
}

// Maybe reports whether the filter does not deny a key. A lookup of a key outside of the table asks no filter.
func (s *RocksDB) Maybe(key []byte) (maybe, asked bool, err error) {
	var failed *C.char
	answer := C.asked(s.db, s.read, chars(key), C.size_t(len(key)), &failed)
	return answer == 1, answer >= 0, failure(failed)
}
