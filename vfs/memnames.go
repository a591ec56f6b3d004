package vfs

// change is one operation on names that is not durable yet. It sets one name, or, if it is a rename, two at once.
//
// Order and atomicity, in one rule: **of the changes of any one name a prefix survives a crash.** A rename is in the order of
// both its names, so it survives with all that came before it at either, and what comes after it at either survives only
// with it. A single change that is overwritten at the same name leaves no trace, so that the rule excludes no outcome of
// a file system whose renames are atomic.
type change struct {
	op       OpKind // Create, Remove, Rename, Link or Mkdir
	name, to string // as the caller gave them
	sets     [2]setting
}

// setting is the half of a change at one name. The second of most changes has no directory.
type setting struct {
	at   slot
	node *inode // nil: no such name any more
}

// change makes a change visible, and not yet durable. The caller holds mu.
func (m *Mem) change(c change) {
	for _, s := range c.sets {
		if s.at.dir != nil {
			e := s.at.dir.names[s.at.name]
			e.now = s.node
			s.at.dir.names[s.at.name] = e
		}
	}
	m.pending = append(m.pending, c)
}

// touches reports whether a change sets a name in dir or one of the given names.
func (c *change) touches(dir *inode, names map[slot]struct{}) bool {
	for _, s := range c.sets {
		if s.at.dir == nil {
			continue
		}
		if s.at.dir == dir {
			return true
		}
		if _, ok := names[s.at]; ok {
			return true
		}
	}
	return false
}

// mark adds the names that a change sets.
func (c *change) mark(names map[slot]struct{}) {
	for _, s := range c.sets {
		if s.at.dir != nil {
			names[s.at] = struct{}{}
		}
	}
}

// settle makes the changes in a directory durable, and with the renames among them what came before at their other names.
// The caller holds mu.
func (m *Mem) settle(dir *inode) {
	chosen := make([]bool, len(m.pending))
	needed := map[slot]struct{}{} // names of which every earlier change must be durable
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
			continue
		}
		for _, s := range c.sets {
			if s.at.dir != nil {
				s.at.makeDurable(s.node)
			}
		}
	}
	clear(m.pending[len(rest):])
	m.pending = rest
}

func (at slot) makeDurable(node *inode) {
	e := at.dir.names[at.name]
	e.durable = node
	if e.now == nil && e.durable == nil {
		delete(at.dir.names, at.name)
		return
	}
	at.dir.names[at.name] = e
}

// survivors picks which changes a crash keeps, oldest first, and returns what they make of the names that they set. A
// change is not asked about when an earlier one of the same name is lost. The caller holds mu.
func (m *Mem) survivors(keep Keep) map[*inode]map[string]*inode {
	lost := map[slot]struct{}{}
	kept := map[*inode]map[string]*inode{}
	for i := range m.pending {
		c := &m.pending[i]
		if c.touches(nil, lost) || !keep(Unsynced{What: UnsyncedName, Op: c.op, Name: c.name, To: c.to}) {
			c.mark(lost)
			continue
		}
		for _, s := range c.sets {
			if s.at.dir == nil {
				continue
			}
			if kept[s.at.dir] == nil {
				kept[s.at.dir] = map[string]*inode{}
			}
			kept[s.at.dir][s.at.name] = s.node
		}
	}
	return kept
}
