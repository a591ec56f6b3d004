// Package deadkeys remembers ranges that contain no live key, so that cursors jump over them.
//
// A workload that takes keys from one end of a range, as a queue does, leaves tombstones there. Each cursor would step
// over all of them again, and over more and more until compaction removes them. So a cursor that has stepped over dead
// keys reports their range, and the next one jumps. A put into a range cuts it in two before the put can be seen.
//
// Nothing here changes an answer. A range [lo, hi) with sequence s means: no key in it is alive for a reader at s or
// later that reads the same ingested tables. That holds since
//
//   - a cursor at s that reports a range has a state with all puts up to s. It opens the report, looks for later puts
//     into the range, and closes the report. A later put was in a memtable when the cursor looked, or else it found the
//     report open, which then does not count;
//   - a cursor at sequence q looks for ranges after it knew q. Every put with a sequence up to q had by then cut the
//     range that it lies in.
//
// Nothing is recorded of puts outside of ranges, and a store without ranges costs a put one load.
package deadkeys

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/step"
)

const (
	// Worth is the number of dead keys in a row that are worth a range.
	Worth = 32
	// Chunk is the number of dead keys in a row after which a cursor reports them and goes on: a put that interferes
	// with the report costs no more than these.
	Chunk = 1024
	// maxBytes bounds the memory of the ranges of one store: two with nearly the longest keys, some 2,000 with keys of
	// 16 bytes. If they need more, some taken at random are forgotten, so that polls of more ranges slow down
	// gradually.
	maxBytes = 256 << 10
)

// Beyond is greater than every key. It must not be changed.
var Beyond = bytes.Repeat([]byte{0xff}, batch.MaxBound)

// Ranges are the ranges of one store. The zero value is ready. It is safe for concurrent use.
type Ranges struct {
	now     atomic.Pointer[set] // nil if empty
	stepped atomic.Uint64
	counted atomic.Int64 // bytes at the last call of Grown

	mu step.Mutex // guards changes of now
}

// A set is what there is at a moment. It is immutable.
type set struct {
	ingests uint64   // of the states that the ranges are true of
	ranges  []*Range // ascending and disjoint
	open    []*Range // of reports that do not count yet
	bytes   int      // of ranges
}

// A Range is the keys from Lo on and before Hi. It is immutable.
type Range struct {
	Lo, Hi []byte
	since  ikey.Seq
}

// bytes returns the memory of the range.
func (r *Range) bytes() int {
	n := int(unsafe.Sizeof(Range{})+unsafe.Sizeof(r)) + len(r.Lo)
	if &r.Hi[0] != &Beyond[0] {
		n += len(r.Hi)
	}
	return n
}

func (r *Range) holds(key []byte) bool {
	return bytes.Compare(r.Lo, key) <= 0 && bytes.Compare(key, r.Hi) < 0
}

// A Reader is the view of a cursor: a sequence number, and how often tables were ingested in the state that it reads.
type Reader struct {
	Seq     ikey.Seq
	Ingests uint64
}

// At returns the range that holds key, for a reader. Without one it returns the next key above for which the answer may
// differ.
func (d *Ranges) At(key []byte, r Reader) (at *Range, next []byte) {
	s := d.now.Load()
	if s == nil || s.ingests != r.Ingests {
		return nil, Beyond
	}
	i := s.search(key)
	switch {
	case i == len(s.ranges):
		return nil, Beyond
	case bytes.Compare(key, s.ranges[i].Lo) < 0:
		return nil, s.ranges[i].Lo
	case s.ranges[i].since > r.Seq:
		return nil, s.ranges[i].Hi
	default:
		return s.ranges[i], nil
	}
}

// Below returns the range that holds the keys just below key, for a reader. Without one it returns the next key below
// for which the answer may differ.
func (d *Ranges) Below(key []byte, r Reader) (at *Range, next []byte) {
	s := d.now.Load()
	if s == nil || s.ingests != r.Ingests {
		return nil, nil
	}
	i, _ := slices.BinarySearchFunc(s.ranges, key, func(r *Range, key []byte) int { return bytes.Compare(r.Lo, key) })
	switch {
	case i == 0:
		return nil, nil
	case bytes.Compare(s.ranges[i-1].Hi, key) < 0:
		return nil, s.ranges[i-1].Hi
	case s.ranges[i-1].since > r.Seq:
		return nil, s.ranges[i-1].Lo
	default:
		return s.ranges[i-1], nil
	}
}

// search returns the index of the first range that ends after key.
func (s *set) search(key []byte) int {
	i, _ := slices.BinarySearchFunc(s.ranges, key, func(r *Range, key []byte) int {
		if bytes.Compare(r.Hi, key) <= 0 {
			return -1
		}
		return 1
	})
	return i
}

// holding returns the index of the range that holds key, or -1.
func (s *set) holding(key []byte) int {
	if i := s.search(key); i < len(s.ranges) && s.ranges[i].holds(key) {
		return i
	}
	return -1
}

// Len returns the number of ranges.
func (d *Ranges) Len() int {
	if s := d.now.Load(); s != nil {
		return len(s.ranges)
	}
	return 0
}

// Bytes returns the memory of the ranges, at most maxBytes.
func (d *Ranges) Bytes() int64 {
	if s := d.now.Load(); s != nil {
		return int64(s.bytes)
	}
	return 0
}

// Grown returns the bytes that the ranges take more than at the last call.
func (d *Ranges) Grown() int64 {
	now := d.Bytes()
	return now - d.counted.Swap(now)
}

// Step counts n dead keys that a cursor has stepped over.
func (d *Ranges) Step(n int) { d.stepped.Add(uint64(n)) } //nolint:gosec // not negative

// Stepped returns the number of dead keys that cursors have stepped over.
func (d *Ranges) Stepped() uint64 { return d.stepped.Load() }

// Report records that no key of [lo, hi) is alive for a reader whose state has all puts up to its sequence, unless put
// returns true or something is put into the range before it returns. put reports whether the memtables have a later put
// into the range. The bounds are copied. If the range is known already, Report does not call put.
func (d *Ranges) Report(lo, hi []byte, by Reader, put func() bool) {
	lo, hi = lo[:min(len(lo), batch.MaxBound)], hi[:min(len(hi), batch.MaxBound)] // no key lies between
	if bytes.Compare(lo, hi) >= 0 {
		return
	}
	if at, _ := d.At(lo, by); at != nil && bytes.Compare(hi, at.Hi) <= 0 {
		return
	}
	r := &Range{append([]byte{}, lo...), Beyond, by.Seq}
	if !bytes.Equal(hi, Beyond) {
		r.Hi = bytes.Clone(hi)
	}
	d.change(func(s *set) { s.open = append(slices.Clip(s.open), r) })
	wrong := put()
	d.change(func(s *set) {
		i := slices.Index(s.open, r)
		if i < 0 { // something was put into it
			return
		}
		s.open = slices.Delete(slices.Clone(s.open), i, i+1)
		if wrong || s.ingests > by.Ingests {
			return
		}
		if s.ingests < by.Ingests {
			s.ingests, s.ranges, s.bytes = by.Ingests, nil, 0
		}
		s.add(*r)
	})
}

// change makes a changed copy of the set the one that there is, less what is too much.
func (d *Ranges) change(change func(*set)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &set{}
	if now := d.now.Load(); now != nil {
		*s = *now
	}
	change(s)
	for s.bytes > maxBytes {
		i := rand.IntN(len(s.ranges))
		s.replace(i, i+1)
	}
	if len(s.ranges) == 0 && len(s.open) == 0 {
		s = nil
	}
	d.now.Store(s)
}

// replace replaces the ranges from i to j.
func (s *set) replace(i, j int, by ...*Range) {
	for _, r := range s.ranges[i:j] {
		s.bytes -= r.bytes()
	}
	for _, r := range by {
		s.bytes += r.bytes()
	}
	s.ranges = slices.Concat(s.ranges[:i], by, s.ranges[j:])
}

// add adds a range, joined with those that it touches: together they are true from the latest sequence on.
func (s *set) add(r Range) {
	i, _ := slices.BinarySearchFunc(s.ranges, r.Lo, func(r *Range, lo []byte) int { return bytes.Compare(r.Hi, lo) })
	j := i
	for ; j < len(s.ranges) && bytes.Compare(s.ranges[j].Lo, r.Hi) <= 0; j++ {
		o := s.ranges[j]
		if bytes.Compare(o.Lo, r.Lo) < 0 {
			r.Lo = o.Lo
		}
		if bytes.Compare(o.Hi, r.Hi) > 0 {
			r.Hi = o.Hi
		}
		r.since = max(r.since, o.since)
	}
	s.replace(i, j, &r)
}

// Put cuts the range that holds a key, and ends the open reports of it. It is called for each put, after that is in the
// memtable and before it can be seen.
func (d *Ranges) Put(key []byte) {
	if d.now.Load() != nil {
		d.put(key)
	}
}

func (d *Ranges) put(key []byte) {
	holds := func(r *Range) bool { return r.holds(key) }
	if s := d.now.Load(); s == nil || !slices.ContainsFunc(s.open, holds) && s.holding(key) < 0 {
		return
	}
	d.change(func(s *set) {
		s.open = slices.DeleteFunc(slices.Clone(s.open), holds)
		i := s.holding(key)
		if i < 0 { // the range may have gone
			return
		}
		r, after := s.ranges[i], append(bytes.Clone(key), 0)
		var left []*Range
		for _, part := range [...]*Range{{r.Lo, after[:len(key):len(key)], r.since}, {after, r.Hi, r.since}} {
			if bytes.Compare(part.Lo, part.Hi) < 0 {
				left = append(left, part)
			}
		}
		s.replace(i, i+1, left...)
	})
}
