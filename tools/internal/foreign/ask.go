package foreign

import (
	"bytes"
	"context"
)

// An Answer is the result for one key.
type Answer struct {
	// Asked reports whether a lookup asks a filter: the table has one that is known, and the key belongs to a unit.
	Asked bool   `json:"asked"`
	Maybe bool   `json:"maybe"` // the filter does not deny the key
	Trace *Trace `json:"trace,omitempty"`
	// Found tells what the table holds: "value" or "delete" for the newest version, "nothing", or "unknown" if the data
	// blocks cannot be read.
	Found string `json:"found"`
	// Why is the reason why the filter is not asked.
	Why string `json:"why,omitempty"`
}

// Ask looks a key up, in the filter and in the data block that would have it, whatever the filter says. If the order
// of the keys is not known, it reads all data blocks. If a data block cannot be read, it returns the error with what
// the filter says.
func (t *Table) Ask(ctx context.Context, key []byte) (Answer, error) {
	return t.lookUp(ctx, &lookup{key: key})
}

// MayContain reports whether the filter does not deny a key. It also returns true if there is no filter that is known,
// or if it is not asked. It reads no data block, and the index only if the filter is divided by data blocks.
func (t *Table) MayContain(key []byte) (bool, error) {
	_, byBlock := t.filters.(*ranges)
	a, err := t.lookUp(context.Background(), &lookup{key: key, filterOnly: true, covered: !byBlock})
	return !a.Asked || a.Maybe, err
}

// A lookup is a key on its way through the data blocks.
type lookup struct {
	key        []byte
	filterOnly bool      // no data block is read
	filter     []byte    // what the filter has of the key if it has the key; nil for nothing
	at         dataBlock // the first block that may have the key, if covered
	covered    bool
}

// lookUp searches the data blocks for a key, unless that is not needed, and asks the filter.
func (t *Table) lookUp(ctx context.Context, l *lookup) (a Answer, err error) {
	a.Found, l.filter = "nothing", l.key
	if t.filterKey != nil {
		l.filter = t.filterKey(l.key)
	}
	t.file.begin()
	if !l.filterOnly || !l.covered {
		err = stopped(t.layout.dataBlocks(func(d dataBlock) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return t.search(d, l, &a)
		}))
	}
	if err != nil {
		a.Found = "unknown"
	}
	if failed := t.askFilter(l, &a); err == nil {
		err = failed
	}
	return a, err
}

// search looks for the key in a data block. It returns errStop once the key is found, or cannot be in a later block.
func (t *Table) search(d dataBlock, l *lookup, a *Answer) error {
	ordered := t.unordered == ""
	if ordered && d.upper != nil && bytes.Compare(d.upper, l.key) < 0 {
		return nil
	}
	if !l.covered {
		l.at, l.covered = dataBlock{handle: d.handle, number: d.number}, true
	}
	if l.filterOnly {
		return errStop
	}
	done := false // else the next block may begin with the key
	err := t.layout.entries(d, func(e *entry) error {
		switch c := bytes.Compare(e.key, l.key); {
		case c == 0:
			if a.Found = "value"; e.deleted {
				a.Found = "delete"
			}
			l.filter = bytes.Clone(e.filter)
		case c < 0 || !ordered:
			return nil
		}
		done = true
		return errStop
	})
	if err = stopped(err); err == nil && done {
		err = errStop
	}
	return err
}

// askFilter asks the unit for a key.
func (t *Table) askFilter(l *lookup, a *Answer) error {
	_, whole := t.filters.(*single)
	switch {
	case t.filters == nil:
		a.Why = "no filter that is known"
	case t.blind != "":
		a.Why = t.blind
	case !whole && t.unordered != "":
		a.Why = t.unordered
	case t.split != "" && a.Found != "value" && a.Found != "delete":
		a.Why = t.split
	case !whole && !l.covered:
		a.Why = "no data block covers the key"
	case t.filterKey != nil && l.filter == nil:
		a.Why = "the filter has no prefix of the key"
	}
	if a.Why != "" {
		return nil
	}
	part, asked := t.filters.find(l.at, l.key)
	if !asked {
		a.Why = "no unit is for that data block"
		return nil
	}
	u, at, err := t.filters.unit(part)
	if err != nil {
		return err
	}
	a.Asked, a.Trace = true, &Trace{Part: part, Offset: at, Kind: u.kind, Probes: []Probe{}}
	a.Maybe = u.ask(u.hash(l.filter), a.Trace)
	return nil
}
