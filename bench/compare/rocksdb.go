//go:build rocksdb

package main

/*
#cgo CFLAGS: -O2 -I${SRCDIR}/../../bin/rocksdb/include
#cgo LDFLAGS: -L${SRCDIR}/../../bin/rocksdb/lib -lrocksdb -lstdc++ -lm -ldl -lpthread

#cgo nocallback kv_nothing
#cgo noescape kv_get
#cgo nocallback kv_get
#cgo noescape kv_put
#cgo nocallback kv_put
#cgo noescape kv_apply
#cgo nocallback kv_apply
#cgo noescape kv_scan
#cgo nocallback kv_scan
#cgo noescape kv_scan_on
#cgo nocallback kv_scan_on

#include "rocksdb.h"
*/
import "C"

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/bloomkv/bloomkv/tools/workload"
)

// rocksdbStore is RocksDB, through its C interface.
type rocksdbStore struct {
	dir string
	// bytes of the block cache, and of a memtable
	cache, memtable int64

	// The following are nil if the store is closed.
	db      *C.rocksdb_t
	read    *C.rocksdb_readoptions_t
	write   *C.rocksdb_writeoptions_t
	durable *C.rocksdb_writeoptions_t
	batches chan *C.rocksdb_writebatch_t // for reuse
}

// rocksdbEngines returns RocksDB, because its library was built.
func rocksdbEngines() []engineEntry {
	return []engineEntry{{
		name: rocksdbName, columns: []string{rocksdbName, nativeName}, open: openRocksdb, filters: byProperties,
		version: func() string {
			return fmt.Sprintf("%s; an empty call takes %d ns", C.ROCKSDB_BUILT, emptyCall().Nanoseconds())
		},
	}}
}

// emptyCall measures the time of a call into C that does nothing.
func emptyCall() time.Duration {
	const calls = 100_000
	begin := time.Now()
	for range calls {
		C.kv_nothing()
	}
	return time.Since(begin) / calls
}

func openRocksdb(dir string, settings settings) (engine, error) {
	s := &rocksdbStore{dir: dir, cache: settings.cache, memtable: settings.memtable}
	if err := s.open(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *rocksdbStore) lookups() []view { return []view{whole(s), s.loops(false)} }

// open opens the store in dir with an empty cache of its own.
func (s *rocksdbStore) open() error {
	o := C.rocksdb_options_create()
	defer C.rocksdb_options_destroy(o)
	C.rocksdb_options_set_create_if_missing(o, 1)
	C.rocksdb_options_set_info_log_level(o, 2) // warnings
	C.rocksdb_options_set_write_buffer_size(o, C.size_t(s.memtable))
	C.rocksdb_options_set_max_write_buffer_number(o, 2)
	C.rocksdb_options_set_level0_file_num_compaction_trigger(o, levelZeroRuns)
	C.rocksdb_options_set_max_bytes_for_level_base(o, baseLevelBytes)
	C.rocksdb_options_set_max_bytes_for_level_multiplier(o, levelRatio)
	C.rocksdb_options_set_target_file_size_base(o, tableBytes)
	C.rocksdb_options_set_max_background_jobs(o, background)
	C.rocksdb_options_set_compression(o, C.rocksdb_no_compression)

	t := C.rocksdb_block_based_options_create()
	defer C.rocksdb_block_based_options_destroy(t)
	cache := C.rocksdb_cache_create_lru(C.size_t(s.cache))
	defer C.rocksdb_cache_destroy(cache) // the store keeps a reference
	C.rocksdb_block_based_options_set_block_cache(t, cache)
	C.rocksdb_block_based_options_set_block_size(t, blockBytes)
	C.rocksdb_block_based_options_set_filter_policy(t, C.rocksdb_filterpolicy_create_bloom_full(filterBits))
	C.rocksdb_options_set_block_based_table_factory(o, t)

	dir := C.CString(s.dir)
	defer C.rocksdb_free(unsafe.Pointer(dir))
	var failed *C.char
	if s.db = C.rocksdb_open(o, dir, &failed); failed != nil {
		return failure(failed)
	}
	s.read = C.rocksdb_readoptions_create()
	s.write = C.rocksdb_writeoptions_create()
	s.durable = C.rocksdb_writeoptions_create()
	C.rocksdb_writeoptions_set_sync(s.durable, 1)
	s.batches = make(chan *C.rocksdb_writebatch_t, 16)
	return nil
}

func (s *rocksdbStore) Close() error {
	if s.db == nil {
		return nil // the store could not be reopened
	}
	close(s.batches)
	for b := range s.batches {
		C.rocksdb_writebatch_destroy(b)
	}
	C.rocksdb_close(s.db)
	C.rocksdb_readoptions_destroy(s.read)
	C.rocksdb_writeoptions_destroy(s.write)
	C.rocksdb_writeoptions_destroy(s.durable)
	*s = rocksdbStore{dir: s.dir, cache: s.cache, memtable: s.memtable}
	return nil
}

func (s *rocksdbStore) Reopen() (time.Duration, error) { return reopened(s.Close, s.open) }

// chars and size return a slice as a C pointer and length.
func chars(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }

func size(b []byte) C.size_t { return C.size_t(len(b)) }

// bytesAt returns C memory as a slice.
func bytesAt(p *C.char, n C.size_t) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), int(n))
}

// failure returns an error of RocksDB, or nil, and frees its text.
func failure(text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.rocksdb_free(unsafe.Pointer(text))
	return errors.New("rocksdb: " + C.GoString(text))
}

func (s *rocksdbStore) AppendGet(dst, key []byte) (out []byte, found bool, err error) {
	free := dst[len(dst):cap(dst)]
	v := C.kv_get(s.db, s.read, chars(key), size(key), chars(free), size(free))
	if v.found == 0 {
		return dst, false, failure(v.err)
	}
	if v.slice == nil {
		return dst[:len(dst)+int(v.size)], true, nil
	}
	dst = append(dst, bytesAt(v.value, v.size)...)
	C.rocksdb_pinnableslice_destroy(v.slice)
	return dst, true, nil
}

func (s *rocksdbStore) Put(key, value []byte) error {
	return failure(C.kv_put(s.db, s.write, chars(key), size(key), chars(value), size(value)))
}

func (s *rocksdbStore) PutSync(key, value []byte) error {
	return failure(C.kv_put(s.db, s.durable, chars(key), size(key), chars(value), size(value)))
}

// Sizes of buffers for packed pairs: of a batch, and of a part of a scan.
var (
	packs = sync.Pool{New: func() any { return new([]byte) }}
	parts = sync.Pool{New: func() any { b := make([]byte, partBytes); return &b }}
)

const (
	// Larger only if one pair needs it. A call for this many bytes costs little per pair, and the cost of a scan is
	// still spread over its pairs: with 64 KiB most of the chunks behind a median contained no call.
	partBytes = 4 << 10
	packHead  = C.kv_head
)

func (s *rocksdbStore) Apply(pairs workload.Batch) error {
	pack := packs.Get().(*[]byte) //nolint:errcheck // the pool's own
	defer packs.Put(pack)
	p := (*pack)[:0]
	for key, value := range pairs.All() {
		p = binary.NativeEndian.AppendUint32(p, uint32(len(key)))
		p = binary.NativeEndian.AppendUint32(p, uint32(len(value)))
		p = append(append(p, key...), value...)
	}
	*pack = p
	var b *C.rocksdb_writebatch_t
	select {
	case b = <-s.batches:
	default:
		b = C.rocksdb_writebatch_create()
	}
	err := failure(C.kv_apply(s.db, s.write, b, chars(p), C.size_t(pairs.Len())))
	select {
	case s.batches <- b:
	default:
		C.rocksdb_writebatch_destroy(b)
	}
	return err
}

func (s *rocksdbStore) Scan(from []byte, limit int, each func(key, value []byte) error) error {
	return s.scan(nil, from, limit, each)
}

// scan reads pairs with an iterator, or with one of its own if it is nil.
func (s *rocksdbStore) scan(it *C.rocksdb_iterator_t, from []byte, limit int,
	each func(key, value []byte) error,
) error {
	part := parts.Get().(*[]byte) //nolint:errcheck // the pool's own
	defer parts.Put(part)
	left := ^C.size_t(0)
	if limit > 0 {
		left = C.size_t(limit)
	}
	p := C.kv_scan(s.db, s.read, it, chars(from), size(from), chars(*part), size(*part), left)
	for {
		err := unpack(*part, int(p.n), each)
		if p.ended == 1 {
			return errors.Join(err, failure(p.err))
		}
		if err != nil {
			if p.own == 1 {
				C.rocksdb_iter_destroy(p.it)
			}
			return err
		}
		left -= p.n
		if p.want > size(*part) {
			*part = make([]byte, p.want)
		}
		p = C.kv_scan_on(p, chars(*part), size(*part), left)
	}
}

func (s *rocksdbStore) kept() (view, error) {
	it := C.rocksdb_create_iterator(s.db, s.read)
	return view{scanner[*C.rocksdb_iterator_t]{s, it, s.scan}, func() error {
		C.rocksdb_iter_destroy(it)
		return nil
	}}, nil
}

// unpack calls each for n packed pairs.
func unpack(p []byte, n int, each func(key, value []byte) error) error {
	for range n {
		k := packHead + int(binary.NativeEndian.Uint32(p))
		v := k + int(binary.NativeEndian.Uint32(p[4:]))
		if err := each(p[packHead:k:k], p[k:v:v]); err != nil {
			return err
		}
		p = p[v:]
	}
	return nil
}

func (s *rocksdbStore) Flush(context.Context) error {
	o := C.rocksdb_flushoptions_create() // waits by default
	defer C.rocksdb_flushoptions_destroy(o)
	var failed *C.char
	C.rocksdb_flush(s.db, o, &failed)
	return failure(failed)
}

func (s *rocksdbStore) Settle(ctx context.Context) error {
	return quiet(ctx, func() ([]int64, bool, error) {
		var work [C.kv_work_figures]C.uint64_t
		if n := C.kv_work(s.db, &work[0]); n != C.kv_work_figures {
			return nil, false, fmt.Errorf("rocksdb: property %d of its work is not known", n)
		}
		if n := work[C.kv_failures]; n > 0 {
			return nil, false, fmt.Errorf("rocksdb: %d failures in the background", n)
		}
		return nil, work == [C.kv_work_figures]C.uint64_t{}, nil
	})
}

// filterBytes reads the figure from a text of RocksDB, which has the properties of all tables together.
func (s *rocksdbStore) filterBytes() (int64, error) {
	name := C.CString("rocksdb.aggregated-table-properties")
	defer C.rocksdb_free(unsafe.Pointer(name))
	text := C.rocksdb_property_value(s.db, name)
	if text == nil {
		return 0, errors.New("rocksdb: no properties of tables")
	}
	defer C.rocksdb_free(unsafe.Pointer(text))
	const property = "filter block size="
	_, rest, _ := strings.Cut(C.GoString(text), property)
	digits, _, _ := strings.Cut(rest, ";")
	bytes, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("rocksdb: property %q: %w", property, err)
	}
	return bytes, nil
}

// Compact covers all keys. Settle reports its failures.
func (s *rocksdbStore) Compact(context.Context) error {
	C.rocksdb_compact_range(s.db, nil, 0, nil, 0)
	return nil
}
