package vfstest

import "slices"

// change is one operation on names that is not durable yet. It sets one name, or two at once if it is a rename.
//
// Order and atomicity follow one rule: **of the changes of any one name, a prefix survives a crash.** A rename belongs
// to the order of both its names, so it survives with all earlier changes of either, and later changes of either
// survive only with it. A single change that is overwritten at the same name leaves no trace, so the rule excludes no
// outcome of a file system whose renames are atomic.
type change struct {
	op       OpKind // Create, Remove, Rename, Link or Mkdir
	name, to string // as the caller passed them
	sets     []setting
}

// setting is the part of a change that concerns one name.
type setting struct {
	at     slot
	node   *inode // nil: the name is removed
	before *inode // what the name meant; nil: nothing
}

// change makes c visible, but not durable. The caller holds mu.
func (m *Mem) change(c change) {
	for i := range c.sets {
		s := &c.sets[i]
		s.before = s.at.dir.names[s.at.name]
		if s.at.dir.names[s.at.name] = s.node; s.node == nil {
			delete(s.at.dir.names, s.at.name)
		}
	}
	m.pending = append(m.pending, c)
}

// touches reports whether c sets a name in dir or one of the given names.
func (c *change) touches(dir *inode, names map[slot]bool) bool {
	return slices.ContainsFunc(c.sets, func(s setting) bool { return s.at.dir == dir || names[s.at] })
}

// mark adds the names that c sets to names.
func (c *change) mark(names map[slot]bool) {
	for _, s := range c.sets {
		names[s.at] = true
	}
}

// settle makes the changes in a directory durable, and for each rename among them the earlier changes of its other
// name. The caller holds mu.
func (m *Mem) settle(dir *inode) {
	chosen := make([]bool, len(m.pending))
	needed := map[slot]bool{} // names whose earlier changes must all be durable
	for i := len(m.pending) - 1; i >= 0; i-- {
		if c := &m.pending[i]; c.touches(dir, needed) {
			chosen[i] = true
			if c.op == OpRename {
				c.mark(needed)
			}
		}
	}
	rest := m.pending[:0]
	for i, c := range m.pending {
		if !chosen[i] {
			rest = append(rest, c)
		}
	}
	clear(m.pending[len(rest):])
	m.pending = rest
}

// survivors returns what the names with pending changes mean after a crash, nil for nothing. It asks keep about the
// oldest change first, and does not ask about a change if an earlier one of the same name is lost. The caller holds mu.
func (m *Mem) survivors(keep Keep) map[*inode]map[string]*inode {
	lost := map[slot]bool{}
	kept := map[*inode]map[string]*inode{}
	for i := range m.pending {
		c := &m.pending[i]
		survives := !c.touches(nil, lost) && keep(Unsynced{What: UnsyncedName, Op: c.op, Name: c.name, To: c.to})
		if !survives {
			c.mark(lost)
		}
		for _, s := range c.sets {
			if kept[s.at.dir] == nil {
				kept[s.at.dir] = map[string]*inode{}
			}
			if _, known := kept[s.at.dir][s.at.name]; survives {
				kept[s.at.dir][s.at.name] = s.node
			} else if !known {
				kept[s.at.dir][s.at.name] = s.before // which is durable
			}
		}
	}
	return kept
}
