//go:build rocksdb

package main

/*
#cgo noescape kv_loop_get
#cgo nocallback kv_loop_get
#cgo noescape kv_loop_seek
#cgo nocallback kv_loop_seek
#cgo noescape kv_loop_scan
#cgo nocallback kv_loop_scan

#include "rocksdb.h"
*/
import "C"

import (
	"slices"
	"unsafe"

	"github.com/bloomkv/bloomkv/tools/workload"
)

// loopRocksdb is RocksDB with loops over the operations of a chunk in C, so that the cost of calls from Go is spread
// over the chunk. Values are compared with the expected ones afterwards, untimed, as those of all other columns.
type loopRocksdb struct {
	*rocksdbStore

	it *C.rocksdb_iterator_t // for seeks; nil: a new one for each
}

var (
	_ looping         = (*rocksdbStore)(nil)
	_ workload.Looper = loopRocksdb{}
)

func (s *rocksdbStore) loops(keep bool) view {
	if !keep {
		return whole(loopRocksdb{s, nil})
	}
	it := C.rocksdb_create_iterator(s.db, s.read)
	return view{loopRocksdb{s, it}, func() error {
		C.rocksdb_iter_destroy(it)
		return nil
	}}
}

// ints returns numbers as C numbers. RocksDB is built only for processors on which an int has 64 bits.
func ints(p []int) *C.int64_t { return (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(p))) }

func (l loopRocksdb) LoopGet(keys, answers *workload.Packed, found []bool) error {
	n := len(found)
	start := len(answers.ValueEnds)
	answers.ValueEnds = slices.Grow(answers.ValueEnds, n)[:start+n]
	for range n {
		answers.KeyEnds = append(answers.KeyEnds, len(answers.Keys))
	}
	for done := 0; done < n; {
		room := answers.Values[:cap(answers.Values)]
		p := C.kv_loop_get(l.db, l.read, chars(keys.Keys), ints(keys.KeyEnds), C.size_t(done), C.size_t(n),
			chars(room), size(answers.Values), size(room), ints(answers.ValueEnds[start:]),
			(*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(found))))
		if p.err != nil {
			return failure(p.err)
		}
		if done += int(p.done); done > 0 {
			answers.Values = room[:answers.ValueEnds[start+done-1]]
		}
		answers.Values = slices.Grow(answers.Values, max(0, int(p.values_want)-len(answers.Values)))
	}
	return nil
}

// A target is a buffer of pairs that C can fill, with all its capacity.
type target struct {
	keys, values       []byte
	keyEnds, valueEnds []int // of the pairs that follow
}

// roomIn returns the buffer of answers with room for n more pairs and for the bytes that a loop wants.
func roomIn(a *workload.Packed, n int, last C.kv_loop) target {
	more := func(want C.size_t, have int) int { return max(1, 2*int(want)-have) }
	a.Keys = slices.Grow(a.Keys, more(last.keys_want, len(a.Keys)))
	a.Values = slices.Grow(a.Values, more(last.values_want, len(a.Values)))
	a.KeyEnds, a.ValueEnds = slices.Grow(a.KeyEnds, n), slices.Grow(a.ValueEnds, n)
	return target{
		a.Keys[:cap(a.Keys)], a.Values[:cap(a.Values)],
		a.KeyEnds[len(a.KeyEnds):cap(a.KeyEnds)], a.ValueEnds[len(a.ValueEnds):cap(a.ValueEnds)],
	}
}

// keep adds the pairs that a loop has appended to answers.
func keep(a *workload.Packed, l C.kv_loop) {
	a.KeyEnds = a.KeyEnds[:len(a.KeyEnds)+int(l.pairs)]
	a.ValueEnds = a.ValueEnds[:len(a.ValueEnds)+int(l.pairs)]
	a.Keys, a.Values = a.Keys[:a.KeyEnds[len(a.KeyEnds)-1]], a.Values[:a.ValueEnds[len(a.ValueEnds)-1]]
}

func (l loopRocksdb) LoopSeek(keys, answers *workload.Packed, limit int, counts []int) error {
	var p C.kv_loop
	for done := 0; done < len(counts); done += int(p.done) {
		to := roomIn(answers, limit*(len(counts)-done), p)
		p = C.kv_loop_seek(l.db, l.read, l.it, chars(keys.Keys), ints(keys.KeyEnds), C.size_t(done),
			C.size_t(len(counts)), C.size_t(limit), ints(counts), chars(to.keys), chars(to.values), ints(to.keyEnds),
			ints(to.valueEnds), size(to.keys), size(to.values), size(answers.Keys), size(answers.Values))
		if p.err != nil {
			return failure(p.err)
		}
		keep(answers, p)
	}
	return nil
}

func (l loopRocksdb) LoopScan(answers *workload.Packed, n int, part func() error) error {
	it := C.rocksdb_create_iterator(l.db, l.read)
	defer C.rocksdb_iter_destroy(it)
	C.rocksdb_iter_seek_to_first(it)
	var p C.kv_loop
	for {
		left := n + 1 - len(answers.KeyEnds) // the ends are one more than the pairs
		to := roomIn(answers, left, p)
		p = C.kv_loop_scan(it, C.size_t(left), chars(to.keys), chars(to.values), ints(to.keyEnds), ints(to.valueEnds),
			size(to.keys), size(to.values), size(answers.Keys), size(answers.Values))
		if p.err != nil {
			return failure(p.err)
		}
		keep(answers, p)
		if p.keys_want+p.values_want > 0 {
			continue // there was no room for the next pair
		}
		ended := int(p.pairs) < left
		if err := part(); err != nil || ended {
			return err
		}
	}
}
