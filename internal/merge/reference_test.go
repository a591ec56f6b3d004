package merge

import "github.com/bloomkv/bloomkv/internal/ikey"

// A model is a merge that searches sorted slices.
type model struct {
	all  [][]entry // of each source
	pos  []int     // position of each source, -1 to len
	back bool
	on   bool // some source is on a version
}

// current returns the current version.
func (m *model) current() entry {
	i := m.cur()
	return m.all[i][m.pos[i]]
}

// cur returns the source that has the current version, or -1.
func (m *model) cur() int {
	best := -1
	for i, at := range m.pos {
		if at < 0 || at >= len(m.all[i]) {
			continue
		}
		if best < 0 {
			best = i
			continue
		}
		c := ikey.Compare(m.all[i][at].key, m.all[best][m.pos[best]].key)
		if !m.back && c < 0 || m.back && c >= 0 {
			best = i
		}
	}
	return best
}

func (m *model) start(back bool, at func(i int) int) {
	m.back = back
	for i := range m.pos {
		m.pos[i] = at(i)
	}
	m.on = m.cur() >= 0
}

// search returns the first entry of source i that is at or after k, or the last before it.
func (m *model) search(i int, back bool, k ikey.Key) int {
	n := 0
	for n < len(m.all[i]) && ikey.Compare(m.all[i][n].key, k) < 0 {
		n++
	}
	if back {
		return n - 1
	}
	return n
}

func (m *model) turn() {
	cur := m.cur()
	k := m.current().key
	m.back = !m.back
	for i, es := range m.all {
		if i == cur {
			continue
		}
		n := 0 // number of versions before the current one
		for n < len(es) && (ikey.Compare(es[n].key, k) < 0 || i < cur && ikey.Compare(es[n].key, k) == 0) {
			n++
		}
		if m.pos[i] = n; m.back {
			m.pos[i]--
		}
	}
}

func (m *model) step(back bool) {
	if !m.on {
		return
	}
	cur := m.cur()
	if m.back != back {
		m.turn()
	}
	if back {
		m.pos[cur]--
	} else {
		m.pos[cur]++
	}
	m.on = m.cur() >= 0
}

func (m *model) skip(back bool, after int, k ikey.Key) {
	if !m.on {
		return
	}
	if m.back != back {
		m.turn()
	}
	for i := range m.pos {
		if i <= after {
			continue
		}
		if at := m.search(i, back, k); back {
			m.pos[i] = min(m.pos[i], at)
		} else {
			m.pos[i] = max(m.pos[i], at)
		}
	}
	m.on = m.cur() >= 0
}
