package foreign

import (
	"bytes"
	"slices"
)

// An Answer is the result for one key.
type Answer struct {
	// Asked reports whether a lookup asks a filter: the table has one that is known, and the key belongs to a unit.
	Asked bool   `json:"asked"`
	Maybe bool   `json:"maybe"` // the filter does not deny the key
	Trace *Trace `json:"trace,omitempty"`
	// Found is what the table has: "value" or "delete" for the newest version, or "nothing".
	Found string `json:"found"`
	// Why is the reason why the filter is not asked.
	Why string `json:"why,omitempty"`
}

// Ask looks a key up, in the filter and in the data block that would have it, whatever the filter says.
func (t *Table) Ask(key []byte) (Answer, error) {
	a := Answer{Found: "nothing"}
	if t.unordered != "" {
		err := t.scan(key, &a)
		if _, whole := t.filters.(*single); whole && err == nil {
			err = t.askFilter(key, dataBlock{}, false, &a)
		} else {
			a.Why = t.unordered
		}
		return a, err
	}
	var at dataBlock
	covered := false
	err := stopped(t.layout.dataBlocks(func(d dataBlock) error {
		if d.upper != nil && bytes.Compare(d.upper, key) < 0 {
			return nil
		}
		if !covered {
			at, covered = dataBlock{d.handle, d.number, nil}, true
		}
		greater := false
		err := t.layout.entries(d, func(e *entry) error {
			if c := bytes.Compare(e.key, key); c < 0 {
				return nil
			} else if c == 0 {
				a.Found = found(e)
			}
			greater = true
			return errStop
		})
		if err = stopped(err); err == nil && greater {
			err = errStop // else the next block may begin with the key
		}
		return err
	}))
	if err == nil {
		err = t.askFilter(key, at, covered, &a)
	}
	return a, err
}

func found(e *entry) string {
	if e.deleted {
		return "delete"
	}
	return "value"
}

// scan looks for a key in all data blocks.
func (t *Table) scan(key []byte, a *Answer) error {
	return t.EachKey(func(k []byte, deleted bool) bool {
		if bytes.Equal(k, key) {
			a.Found = found(&entry{deleted: deleted})
			return false
		}
		return true
	})
}

// askFilter asks the unit for a key that would be in block d, if covered.
func (t *Table) askFilter(key []byte, d dataBlock, covered bool, a *Answer) error {
	_, whole := t.filters.(*single)
	switch {
	case t.filters == nil:
		a.Why = "no filter that is known"
		return nil
	case t.blind != "":
		a.Why = t.blind
		return nil
	case !covered && !whole:
		a.Why = "the key is after the last one"
		return nil
	}
	part, asked := t.filters.find(d, key)
	if !asked {
		a.Why = "no unit is for that data block"
		return nil
	}
	if t.filterKey != nil {
		if key = t.filterKey(key); key == nil {
			a.Why = "the filter has no prefix of the key"
			return nil
		}
	}
	u, at, err := t.filters.unit(part)
	if err != nil {
		return err
	}
	a.Asked, a.Trace = true, &Trace{Part: part, Offset: at, Probes: []Probe{}}
	a.Maybe = u.ask(u.hash(key), a.Trace)
	return nil
}

// MayContain reports whether the filter does not deny a key. It also returns true if there is no filter that is known,
// or if it is not asked. It reads no data block, and keeps the index in memory if the filter is divided by data blocks.
func (t *Table) MayContain(key []byte) (bool, error) {
	if t.filters == nil || t.blind != "" {
		return true, nil
	}
	var at dataBlock
	if _, byBlock := t.filters.(*ranges); byBlock {
		if t.unordered != "" {
			return true, nil
		}
		if err := t.locate(); err != nil {
			return true, err
		}
		i, _ := slices.BinarySearchFunc(t.located, key, func(d dataBlock, key []byte) int {
			return bytes.Compare(d.upper, key)
		})
		if i == len(t.located) {
			return false, nil // after the last key
		}
		at = t.located[i]
	}
	var a Answer
	if err := t.askFilter(key, at, true, &a); err != nil || !a.Asked {
		return true, err
	}
	return a.Maybe, nil
}

// locate keeps all data blocks in memory, which takes about as much as the index in the file.
func (t *Table) locate() error {
	if t.located != nil {
		return nil
	}
	all := []dataBlock{}
	err := t.layout.dataBlocks(func(d dataBlock) error {
		all = append(all, dataBlock{d.handle, d.number, append([]byte{}, d.upper...)})
		return nil
	})
	if err == nil {
		t.located = all
	}
	return err
}
