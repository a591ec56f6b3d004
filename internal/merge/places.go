package merge

import "github.com/bloomkv/bloomkv/internal/ikey"

// A place is where a source stands. The key stays valid, since only the current source moves.
type place struct {
	key   ikey.Key // the version, or the bound that a Concat is pending at
	at    Source   // whose version it is: the source's, or that of the open table of a Concat
	run   *Concat  // the source, if it is one
	index int      // of the source
}

// arrive takes note of where the source stands.
func (p *place) arrive() {
	if p.run != nil {
		if p.run.pending() {
			p.key = p.run.bound
			return
		}
		p.at = p.run.src
	}
	p.key = p.at.Key()
}

// moved brings the list in order after the source at index at of it has moved on, to a version or past its end. It is false
// after an error.
func (m *Iter) moved(at int, ok bool) bool {
	p := m.order[at]
	if ok {
		p.arrive()
		m.sink(at, at+1)
		return true
	}
	if err := m.sources[p.index].Err(); err != nil {
		return m.fail(err)
	}
	m.n--
	copy(m.order[at:m.n], m.order[at+1:])
	m.order[m.n] = p
	return true
}

// settle opens tables that the merge has come to, until it has come to a version.
func (m *Iter) settle() bool {
	for m.n > 0 {
		p := m.order[0]
		if p.run == nil || !p.run.pending() {
			m.top, m.second = p, nil
			if m.n > 1 {
				m.second = m.order[1]
			}
			return true
		}
		if !m.moved(0, p.run.settle()) {
			return false
		}
	}
	m.top = nil
	return false
}

// before reports whether p comes before q on the way. Of equal versions that of the first source comes first, when going
// forward.
func (m *Iter) before(p, q *place) bool {
	c := ikey.Compare(p.key, q.key)
	if c == 0 {
		c = p.index - q.index
	}
	return (c < 0) != m.back
}

// sink moves what is at index at of the list to where it belongs, which is behind all after it that are in front of from.
func (m *Iter) sink(at, from int) {
	p := m.order[at]
	lo, hi := from, m.n // p comes behind all before lo, and before all from hi on
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); m.before(p, m.order[mid]) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	copy(m.order[at:], m.order[at+1:lo])
	m.order[lo-1] = p
}

// sort brings the list in order from index from on.
func (m *Iter) sort(from int) {
	for at := m.n - 2; at >= from; at-- {
		m.sink(at, at+1)
	}
}
