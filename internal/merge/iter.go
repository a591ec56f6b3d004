package merge

import (
	"errors"
	"slices"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// New returns the sources as one, in order. The sources are the merge's from here on: it closes them. Versions that
// compare equal come from every source that has them, in the order of the arguments. One source is returned as it is.
func New(sources ...Source) Source {
	if len(sources) == 1 {
		return sources[0]
	}
	m := &Iter{}
	m.Reset(sources)
	return m
}

// An Iter is a merge of sources: a list of those that have versions on the way, sorted by where they stand. A list and not
// a heap, as there are a score of sources at most: the runner-up is known without a comparison, a source that falls behind
// it finds its place with half the comparisons, and what moves is small. Heads of keys in the places, to compare without
// the keys, were measured: they save a sixth of a step where keys differ in their first eight bytes, and cost a twentieth
// where they do not, which is common.
//
// An error of a source stops an Iter: what is left of the others could lie behind a hole. The zero value has no sources.
// It is for one goroutine at a time.
type Iter struct {
	sources []Source
	places  []place  // of each source
	order   []*place // of each source that has versions on the way, sorted: the list; behind them the others
	n       int      // the length of the list
	back    bool     // the way is backward
	err     error
	spare   []byte // a key made by successor

	// What a step needs of the list.
	top    *place // its first, where the current version is; nil if there is no current version
	second *place // its second; nil if there is none
}

var _ Source = (*Iter)(nil)

// Reset makes m a merge of sources, as New does but of one source too. They are its own from here on, and so is the slice.
// Only on a zero Iter or after Close. It allocates nothing if m has had as many sources before.
func (m *Iter) Reset(sources []Source) {
	n := len(sources)
	m.places, m.order = slices.Grow(m.places[:0], n)[:n], slices.Grow(m.order[:0], n)[:n]
	m.sources, m.n, m.top, m.err = sources, 0, nil, nil
	for i, s := range sources {
		run, _ := s.(*Concat)
		if run != nil {
			run.lazy = true
		}
		m.places[i] = place{at: s, run: run, index: i}
	}
}

// First goes to the first version of all.
func (m *Iter) First() bool {
	return m.start(false, func(s Source, _ int) bool { return s.First() })
}

// Last goes to the last version of all.
func (m *Iter) Last() bool {
	return m.start(true, func(s Source, _ int) bool { return s.Last() })
}

// SeekGE goes to the first version at or after k.
func (m *Iter) SeekGE(k ikey.Key) bool {
	return m.start(false, func(s Source, _ int) bool { return s.SeekGE(k) })
}

// SeekLT goes to the last version before k.
func (m *Iter) SeekLT(k ikey.Key) bool {
	return m.start(true, func(s Source, _ int) bool { return s.SeekLT(k) })
}

// SeekGEEach takes each source to its first version at or after what target says of its index, and goes to the first of
// those. target is called once for each source, in their order, and what it returned is done with when it is called again.
func (m *Iter) SeekGEEach(target func(i int) ikey.Key) bool {
	return m.start(false, func(s Source, i int) bool { return s.SeekGE(target(i)) })
}

// SeekLTEach takes each source to its last version before what target says of its index, and goes to the last of those. It
// calls target as SeekGEEach does.
func (m *Iter) SeekLTEach(target func(i int) ikey.Key) bool {
	return m.start(true, func(s Source, i int) bool { return s.SeekLT(target(i)) })
}

// start positions all sources.
func (m *Iter) start(back bool, position func(s Source, i int) bool) bool {
	m.n, m.back, m.err = 0, back, nil
	end := len(m.order)
	for i, s := range m.sources {
		p := &m.places[i]
		switch {
		case position(s, i):
			p.arrive()
			m.order[m.n] = p
			m.n++
		case s.Err() != nil:
			return m.fail(s.Err())
		default:
			end--
			m.order[end] = p
		}
	}
	m.sort(0)
	return m.settle()
}

// Next goes to the next version. While one source goes on winning that is one comparison, with the runner-up; with one
// source left it is none.
func (m *Iter) Next() bool {
	p := m.top
	if p == nil || m.back {
		return m.turnAndStep()
	}
	if !p.at.Next() {
		return m.ended()
	}
	p.key = p.at.Key()
	q := m.second
	if q == nil {
		return true
	}
	if c := ikey.Compare(p.key, q.key); c < 0 || c == 0 && p.index < q.index {
		return true
	}
	m.sink(0, 2)
	return m.settle()
}

// Prev goes to the version before, at the same cost.
func (m *Iter) Prev() bool {
	p := m.top
	if p == nil || !m.back {
		return m.turnAndStep()
	}
	if !p.at.Prev() {
		return m.ended()
	}
	p.key = p.at.Key()
	q := m.second
	if q == nil {
		return true
	}
	if c := ikey.Compare(p.key, q.key); c > 0 || c == 0 && p.index > q.index {
		return true
	}
	m.sink(0, 2)
	return m.settle()
}

// ended goes on where the top source, or the open table of a Concat, has no more.
func (m *Iter) ended() bool {
	ok := false
	if run := m.top.run; run != nil {
		if m.back {
			ok = run.backward()
		} else {
			ok = run.onward()
		}
	}
	return m.moved(0, ok) && m.settle()
}

// SkipGE takes the sources with an index above after that stand before k to their first version at or after k, and goes to
// the first version of all then, which is the current one if that was not among those. The merge goes forward from here. k must not share bytes with Key.
// What was skipped is there again for whoever comes back.
func (m *Iter) SkipGE(after int, k ikey.Key) bool { return m.skip(false, after, k) }

// SkipLT takes the sources with an index above after that stand at or after k to their last version before k, and goes to
// the last version of all then, which is the current one if that was not among those. The merge goes backward from here. k must not share bytes with Key.
func (m *Iter) SkipLT(after int, k ikey.Key) bool { return m.skip(true, after, k) }

func (m *Iter) skip(back bool, after int, k ikey.Key) bool {
	if m.top == nil {
		return false
	}
	if m.back != back && !m.turn() {
		return false
	}
	stay := 0 // those in front of k that are let stand
	for range m.n {
		p := m.order[stay]
		if (ikey.Compare(p.key, k) < 0) == back {
			break
		}
		if p.index <= after {
			stay++
		} else if !m.moved(stay, m.seek(p, k)) {
			return false
		}
	}
	return m.settle()
}

// turnAndStep makes the first step the other way.
func (m *Iter) turnAndStep() bool {
	return m.top != nil && m.turn() && m.moved(0, m.advance(m.top)) && m.settle()
}

// turn takes all sources but the top one to the other side of the current version, which it still is. The top one stays the
// first: what else may be on that side of the current version is a bound with nothing between the two.
func (m *Iter) turn() bool {
	top, n := m.top, m.n
	key, next := top.key, m.successor(top.key)
	m.back, m.n = !m.back, 1
	for at := 1; at < len(m.order); at++ {
		p := m.order[at]
		border := key // what is before it in the source is before the current version in the merge
		if p.index < top.index {
			border = next
		}
		// One step leads there from the version after the border, and from the end a seek does. What a skip, or a seek of its
		// own, has taken further than to the version after the border needs a seek too.
		ok := at < n && m.advance(p)
		if ok {
			p.arrive()
		}
		if at >= n || ok && (ikey.Compare(p.key, border) < 0) != m.back {
			if ok = m.seek(p, border); ok {
				p.arrive()
			}
		}
		if ok {
			m.order[m.n], m.order[at] = p, m.order[m.n]
			m.n++
		} else if err := m.sources[p.index].Err(); err != nil {
			return m.fail(err)
		}
	}
	m.sort(1)
	return true
}

// successor is the place just behind k.
func (m *Iter) successor(k ikey.Key) ikey.Key {
	if k.Trailer > 0 {
		return ikey.Key{User: k.User, Trailer: k.Trailer - 1}
	}
	m.spare = append(append(m.spare[:0], k.User...), 0)
	return ikey.Search(m.spare, ikey.MaxSeq)
}

// advance moves the source of p by one version on the way.
func (m *Iter) advance(p *place) bool {
	if m.back {
		return m.sources[p.index].Prev()
	}
	return m.sources[p.index].Next()
}

// seek moves the source of p to its first version on the way that is on that side of k.
func (m *Iter) seek(p *place, k ikey.Key) bool {
	if m.back {
		return m.sources[p.index].SeekLT(k)
	}
	return m.sources[p.index].SeekGE(k)
}

func (m *Iter) fail(err error) bool {
	m.n, m.top, m.err = 0, nil, err
	return false
}

// Key is the current version's place.
func (m *Iter) Key() ikey.Key { return m.top.key }

// Value is the current version's value.
func (m *Iter) Value() []byte { return m.top.at.Value() }

// Order is the index, among the arguments, of the source whose version is the current one.
func (m *Iter) Order() int { return m.top.index }

// Err is the error that stopped the merge.
func (m *Iter) Err() error { return m.err }

// Close closes all sources and joins their errors. The merge has no sources then, and may be Reset.
func (m *Iter) Close() error {
	var err error
	for _, s := range m.sources {
		if e := s.Close(); e != nil {
			err = errors.Join(err, e)
		}
	}
	clear(m.places)
	m.sources, m.n, m.top = nil, 0, nil
	return err
}
