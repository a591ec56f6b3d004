package merge

import "github.com/bloomkv/bloomkv/internal/ikey"

// An input is one source of a merge and its position. The key stays valid, since only the current source moves.
type input struct {
	key   ikey.Key // the key of its version, or the bound at which a Concat is pending
	at    Source   // the source of the version: the source itself, or the open table of a Concat
	run   *Concat  // the source, if it is one
	index int      // of the source
}

// arrive records the position of the source after a move.
func (p *input) arrive() {
	if p.run != nil {
		if p.run.where == pending {
			p.key = p.run.bound
			return
		}
		p.at = p.run.src
	}
	p.key = p.at.Key()
}

// moved restores the order of the list after the source at index at has moved, to a version or past its end. It returns
// false after an error.
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

func (m *Iter) fail(err error) bool {
	m.n, m.top, m.err = 0, nil, err
	return false
}

// settle opens the tables that the merge has reached, until it is on a version.
func (m *Iter) settle() bool {
	for m.n > 0 {
		p := m.order[0]
		if p.run == nil || p.run.where != pending {
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

// before reports whether p comes before q in the direction of the merge. Going forward, the version of the first source
// comes first among equal versions.
func (m *Iter) before(p, q *input) bool {
	c := ikey.Compare(p.key, q.key)
	if c == 0 {
		c = p.index - q.index
	}
	return (c < 0) != m.back
}

// sink moves the input at index at of the list to its position behind it, given that those between at and from come
// before it.
func (m *Iter) sink(at, from int) {
	p := m.order[at]
	lo, hi := from, m.n // p comes behind all inputs before lo, and before all from hi on
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

// sort sorts the list from index from on.
func (m *Iter) sort(from int) {
	for at := m.n - 2; at >= from; at-- {
		m.sink(at, at+1)
	}
}
