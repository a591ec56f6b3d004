package merge

import (
	"errors"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// New returns the sources as one, in order. The sources are the merge's from here on: it closes them. Versions that
// compare equal come from every source that has them, in the order of the arguments. One source is returned as it is.
func New(sources ...Source) Source {
	if len(sources) == 1 {
		return sources[0]
	}
	return &Iter{sources: sources, heap: make([]place, 0, len(sources))}
}

// An Iter is a merge of sources: a binary heap of those that are not at their end. It is for one goroutine. An error of a
// source stops it: what is left of the others could lie behind a hole.
type Iter struct {
	sources []Source
	heap    []place // heap[0] is the current one
	second  int     // the smaller of heap[0]'s children, 0 while not known
	err     error
}

// A place is where a source stands. The key stays valid, since only heap[0] moves.
type place struct {
	key   ikey.Key
	src   Source
	order int // of the source among the arguments
}

var _ Source = (*Iter)(nil)

func (p *place) before(q *place) bool {
	c := ikey.Compare(p.key, q.key)
	return c < 0 || c == 0 && p.order < q.order
}

// First goes to the first version of all.
func (m *Iter) First() bool { return m.start(Source.First) }

// SeekGE goes to the first version at or after k.
func (m *Iter) SeekGE(k ikey.Key) bool {
	return m.start(func(s Source) bool { return s.SeekGE(k) })
}

// start positions all sources and builds the heap.
func (m *Iter) start(position func(Source) bool) bool {
	m.heap, m.err = m.heap[:0], nil
	for i, s := range m.sources {
		if position(s) {
			m.heap = append(m.heap, place{s.Key(), s, i})
		} else if err := s.Err(); err != nil {
			return m.fail(err)
		}
	}
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	m.second = 0
	return len(m.heap) > 0
}

// Next goes to the next version. While one source goes on winning that is one comparison, with the runner-up; with one
// source left it is none.
func (m *Iter) Next() bool {
	if len(m.heap) == 0 {
		return false
	}
	top := &m.heap[0]
	if !top.src.Next() {
		if err := top.src.Err(); err != nil {
			return m.fail(err)
		}
		n := len(m.heap) - 1
		m.heap[0] = m.heap[n]
		m.heap[n] = place{}
		m.heap = m.heap[:n]
		m.down(0)
		m.second = 0
		return n > 0
	}
	top.key = top.src.Key()
	if len(m.heap) == 1 {
		return true
	}
	if m.second == 0 {
		m.second = m.child(0)
	}
	if m.heap[m.second].before(top) {
		m.down(0)
		m.second = 0
	}
	return true
}

// child is the smaller child of i, which has one.
func (m *Iter) child(i int) int {
	c := 2*i + 1
	if c+1 < len(m.heap) && m.heap[c+1].before(&m.heap[c]) {
		c++
	}
	return c
}

// down moves the place at i to where it belongs below.
func (m *Iter) down(i int) {
	for 2*i+1 < len(m.heap) {
		c := m.child(i)
		if !m.heap[c].before(&m.heap[i]) {
			return
		}
		m.heap[i], m.heap[c] = m.heap[c], m.heap[i]
		i = c
	}
}

func (m *Iter) fail(err error) bool {
	m.heap, m.err = m.heap[:0], err
	return false
}

// Key is the current version's place.
func (m *Iter) Key() ikey.Key { return m.heap[0].key }

// Value is the current version's value.
func (m *Iter) Value() []byte { return m.heap[0].src.Value() }

// Err is the error that stopped the merge.
func (m *Iter) Err() error { return m.err }

// Close closes all sources and joins their errors.
func (m *Iter) Close() error {
	m.heap = nil
	var errs []error
	for _, s := range m.sources {
		errs = append(errs, s.Close())
	}
	m.sources = nil
	return errors.Join(errs...)
}
