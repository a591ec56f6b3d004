package bloomkv

import (
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// Get returns the value of key, a copy that the caller owns. An absent key is ErrNotFound, bare, and a nil value; an empty
// value is not nil. A lookup sees every write that returned before it began. Damage on the way is an error that Is
// ErrCorruption, never a wrong or missing value.
//
// A lookup of a key that no filter lets through takes no lock, allocates nothing and reads no file.
func (db *DB) Get(key []byte) ([]byte, error) {
	value, err := db.AppendGet(nil, key)
	if err == nil && value == nil {
		value = []byte{}
	}
	return value, err
}

// AppendGet appends the value of key to dst and returns the longer slice: a Get that allocates nothing where dst has room.
// On an error, ErrNotFound included, it returns dst as it was.
func (db *DB) AppendGet(dst, key []byte) ([]byte, error) {
	var cost lookupCost
	out, found, err := db.lookup(dst, key, true, &cost)
	db.lookups.add(&cost)
	if err == nil && !found {
		return dst, ErrNotFound
	}
	return out, err
}

// Has reports whether the store holds a value for key. It is exact, as Get is, but copies no value.
func (db *DB) Has(key []byte) (bool, error) {
	var cost lookupCost
	_, found, err := db.lookup(nil, key, false, &cost)
	db.lookups.add(&cost)
	return found, err
}

// lookup follows one key downstairs. found is false for an absent or deleted key; copies says whether the value is wanted.
func (db *DB) lookup(dst, key []byte, copies bool, cost *lookupCost) (out []byte, found bool, err error) {
	h := bloomblock.HashKey(key)
	// The state first, then the sequence: a state that is older than the sequence misses only what is newer than the call;
	// the other way round a compaction could have dropped the version that an older sequence needs.
	s := db.state.Load()
	if s == nil {
		return dst, false, ErrClosed
	}
	seq := ikey.Seq(db.visible.Load())
	if value, kind, ok := s.inMemory(key, h, seq); ok {
		cost.memtableHit = true
		if kind == ikey.Delete {
			return dst, false, nil
		}
		if copies {
			dst = append(dst, value...)
		}
		return dst, true, nil
	}
	var room [8]candidate
	candidates := s.candidates(room[:0], key, h, cost)
	if len(candidates) == 0 {
		return dst, false, nil
	}
	// From here on files and cached blocks are touched, which are released once no reader inside can see them. The state
	// that this reader works on must be one that was current while it was inside.
	guard := db.domain.Enter()
	defer guard.Leave()
	for {
		now := db.state.Load()
		if now == nil {
			return dst, false, ErrClosed
		}
		if now == s {
			break
		}
		s, seq = now, ikey.Seq(db.visible.Load())
		if value, kind, ok := s.inMemory(key, h, seq); ok {
			if copies && kind == ikey.Set {
				dst = append(dst, value...)
			}
			return dst, kind == ikey.Set, nil
		}
		*cost = lookupCost{}
		candidates = s.candidates(room[:0], key, h, cost)
	}
	for _, c := range candidates {
		if !c.table.reader.Loaded() {
			if err := db.load(c.table); err != nil {
				return dst, false, db.lookupError(err)
			}
			maybe, probed := c.table.reader.MayContain(h)
			if probed {
				cost.probes++
			}
			if !maybe {
				continue
			}
			if probed && !c.probed {
				cost.passed++
			}
			c.probed = probed
		}
		before := cost.reads.Present
		value, trailer, ok, err := c.table.reader.Get(key, seq, &cost.reads)
		cost.searches++
		present := cost.reads.Present > before // some version of the key, if only one that is too new
		if present {
			cost.found++
		}
		if cost.reads.TailLoads > 0 {
			cost.reads.TailLoads = 0
			db.recount(c.table)
		}
		switch {
		case err != nil:
			return dst, false, db.lookupError(err)
		case !c.probed:
			c.table.unfiltered.Add(1)
		case present:
			c.table.truePositives.Add(1)
			cost.truePositives++
		default:
			c.table.falsePositives.Add(1)
			cost.falsePositives++
		}
		if !ok {
			continue
		}
		if trailer.Kind() == ikey.Delete {
			return dst, false, nil
		}
		if copies {
			dst = append(dst, value...)
		}
		return dst, true, nil
	}
	return dst, false, nil
}
