package bloomkv

import (
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/sstable"
)

// Get returns the value of key, a copy that the caller owns. An absent key is ErrNotFound, bare, and a nil value; an empty
// value is not nil. A lookup sees every write that returned before it began. Damage on the way is an error that Is
// ErrCorruption, never a wrong or missing value. A key longer than MaxKeySize is absent.
//
// A lookup of a key that no filter lets through takes no lock, allocates nothing and reads no file.
func (db *DB) Get(key []byte) ([]byte, error) { return db.get(key, newest) }

// AppendGet appends the value of key to dst and returns the longer slice: a Get that allocates nothing where dst has room.
// On an error, ErrNotFound included, it returns dst as it was. dst may be nil; key must not lie in its spare capacity.
func (db *DB) AppendGet(dst, key []byte) ([]byte, error) { return db.appendGet(dst, key, newest) }

// Has reports whether the store holds a value for key. It is exact, as Get is, but copies no value. Its errors are those of
// Get but for ErrNotFound.
func (db *DB) Has(key []byte) (bool, error) { return db.has(key, newest) }

// View calls f with the value of key, without copying it: the slice is valid until f returns, and must not be changed. f may
// take its time and call any method of the DB. View returns ErrNotFound for an absent key, without calling f, else what f
// returns, bare. Other errors are those of Get.
func (db *DB) View(key []byte, f func(value []byte) error) error { return db.view(key, newest, f) }

// MayContain reports whether the store may hold a value for key, from memory alone: it never reads a file, takes no lock and
// allocates nothing. False is certain, as of the call. True is wrong for about Options.FilterFPR of absent keys, for deleted
// keys whose tombstones are in tables, and wherever a filter is not in memory: not loaded yet, not built, or shed by the
// memory budget. After Close it is always true. It is not counted in Metrics.
func (db *DB) MayContain(key []byte) bool {
	s := db.tree.Load()
	if s == nil {
		return true
	}
	h, seq := db.hash(key), db.tree.NewestSeq()
	if _, live, decided := inMemory(s, key, h.Mixed, seq); decided {
		return live
	}
	var cost lookupCost // of no lookup: it is not counted
	var room [8]candidate
	return len(candidatesIn(s, room[:0], key, h, seq, &cost)) > 0
}

// hash hashes a key, once for all memtables and tables of the store.
func (db *DB) hash(key []byte) bloomblock.SeededHash { return db.seed.Hash(bloomblock.HashKey(key)) }

func (db *DB) get(key []byte, at asOf) ([]byte, error) {
	value, err := db.appendGet(nil, key, at)
	if err == nil && value == nil {
		value = []byte{}
	}
	return value, err
}

func (db *DB) appendGet(dst, key []byte, at asOf) ([]byte, error) {
	var l lookup
	found, err := l.find(db, key, at)
	if found {
		dst = append(dst, l.value...)
	}
	l.end(db, key, at)
	if err == nil && !found {
		err = ErrNotFound
	}
	return dst, err
}

func (db *DB) has(key []byte, at asOf) (bool, error) {
	var l lookup
	found, err := l.find(db, key, at)
	l.end(db, key, at)
	return found, err
}

func (db *DB) view(key []byte, at asOf, f func(value []byte) error) error {
	var l lookup
	found, err := l.find(db, key, at)
	if found && l.inside {
		l.hit.Hold() // the guard must not last as long as f
		defer l.hit.Release()
	}
	l.end(db, key, at)
	switch {
	case err != nil:
		return err
	case !found:
		return ErrNotFound
	}
	return f(l.value)
}

// An asOf is the moment that a reader wants to see.
type asOf struct {
	seq    ikey.Seq     // what is newer does not count; nothing above what is visible does
	closed *atomic.Bool // of the snapshot that keeps the moment; nil for newest
}

var newest = asOf{seq: ikey.MaxSeq}

// over reports whether the snapshot was closed, so that what was read since may lack versions.
func (at asOf) over() bool { return at.closed != nil && at.closed.Load() }

// A lookup follows one key downstairs. It lives on its caller's stack.
type lookup struct {
	value  []byte      // valid until end, if it is of a table; a memtable's stays valid
	hit    sstable.Hit // where the value is, if it is of a table
	guard  epoch.Guard
	inside bool // the guard is entered
	cost   lookupCost
	trace  *Trace // nil: nobody asks
}

// end leaves the guard and counts what the lookup of key cost.
func (l *lookup) end(db *DB, key []byte, at asOf) {
	if l.inside {
		l.guard.Leave()
	}
	l.cost.part(l.cost.searches, l.cost.found)
	if db.sampled(db.lookups.add(&l.cost)) {
		db.sample(key, at.seq)
	}
}

// find looks for the newest version of key. It reports false for an absent or deleted key. end must follow.
func (l *lookup) find(db *DB, key []byte, at asOf) (bool, error) {
	found, err := l.follow(db, key, at.seq)
	if at.over() {
		return false, ErrClosed
	}
	return found, err
}

func (l *lookup) follow(db *DB, key []byte, at ikey.Seq) (bool, error) {
	h := db.hash(key)
	// The state first, then the sequence: a state that is older than the sequence misses only what is newer than the call;
	// the other way round a compaction could have dropped the version that an older sequence needs. What a snapshot needs
	// stays for as long as it is open.
	s := db.tree.Load()
	if s == nil {
		return false, ErrClosed
	}
	seq := min(at, db.tree.NewestSeq())
	value, live, decided := inMemory(s, key, h.Mixed, seq)
	if decided {
		l.cost.memtableHit = true
		l.value = value
		return live, nil
	}
	var room [8]candidate
	candidates := candidatesIn(s, room[:0], key, h, seq, &l.cost)
	if len(candidates) == 0 {
		return false, nil
	}
	// From here on files and cached blocks are touched, which are released once no reader inside can see them. The state
	// that this reader works on must be one that was current while it was inside.
	l.guard, l.inside = db.tree.Domain.Enter(), true
	for {
		now := db.tree.Load()
		if now == nil {
			return false, ErrClosed
		}
		if now == s {
			break
		}
		s, seq = now, min(at, db.tree.NewestSeq())
		l.cost = lookupCost{}
		if value, live, decided = inMemory(s, key, h.Mixed, seq); decided {
			l.cost.memtableHit = true
			l.value = value
			return live, nil
		}
		candidates = candidatesIn(s, room[:0], key, h, seq, &l.cost)
	}
	for i := range candidates {
		c := &candidates[i]
		found, decided, err := l.search(db, c, key, h, seq)
		if err != nil || decided {
			return found, err
		}
	}
	return false, nil
}

// search looks into one table. Where decided is true, older data does not count.
func (l *lookup) search(db *DB, c *candidate, key []byte, h bloomblock.SeededHash, seq ikey.Seq) (found, decided bool, err error) {
	if search, err := c.ready(db, key, h.Hash, seq, &l.cost); err != nil || !search {
		return false, c.deleted > 0, err
	}
	before := l.cost.reads
	hit, ok, err := c.table.Reader.Get(key, seq, &l.cost.reads)
	if err != nil {
		return false, false, db.lookupError(err)
	}
	if l.cost.reads.TailLoads > before.TailLoads {
		db.share.Recount(c.table)
	}
	present := l.cost.reads.Present > before.Present // some version of the key, if only one that is too new
	c.count(present, &l.cost)
	if l.trace != nil {
		l.trace.add(c, present, before, l.cost.reads)
	}
	if !ok || hit.Trailer.Seq() < c.deleted {
		return false, c.deleted > 0, nil
	}
	l.value, l.hit = hit.Value, hit
	return hit.Trailer.Kind() == ikey.Set, true, nil
}

// ready makes sure that a table can be searched. One that was not loaded yet is, and says again whether it must be.
func (c *candidate) ready(db *DB, key []byte, h bloomblock.Hash, seq ikey.Seq, cost *lookupCost) (search bool, err error) {
	r := c.table.Reader
	if r.Loaded() && !c.unknown {
		return true, nil
	}
	loads, bytes, err := db.share.LoadTail(c.table)
	cost.tailLoads += loads
	cost.tailBytes += bytes
	if err != nil {
		return false, db.lookupError(err)
	}
	if c.table.Meta.RangeDeletes > 0 {
		c.deleted, c.unknown = r.RangeDels().Covering(key, seq), false
	}
	if c.probed {
		return c.table.Meta.Entries > 0, nil
	}
	maybe, probed := r.MayContain(h)
	if probed {
		cost.probes++
	}
	if !maybe || c.table.Meta.Entries == 0 {
		return false, nil
	}
	if probed {
		cost.passed++
	}
	c.probed = probed
	return true, nil
}

// count notes a search, and what the filter's answer was worth.
func (c *candidate) count(present bool, cost *lookupCost) {
	cost.searches++
	if present {
		cost.found++
	}
	switch {
	case !c.probed:
		c.table.Unfiltered.Add(1)
	case present:
		c.table.TruePositives.Add(1)
		cost.truePositives++
	default:
		c.table.FalsePositives.Add(1)
		cost.falsePositives++
	}
}
