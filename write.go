package bloomkv

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/internal/wal"
)

// Put stores value under key, replacing an older value. Both are copied; nil means an empty key, or an empty value.
// Put returns once the write is as durable as Options.Durability requires; every later read sees it. A key longer
// than MaxKeySize, or a value longer than MaxValueSize, is ErrTooLarge. Other errors are those of [DB.Apply].
func (db *DB) Put(key, value []byte) error {
	b := batches.Get().(*Batch) //nolint:errcheck // the pool holds nothing else
	b.Put(key, value)
	return db.applyPooled(b)
}

// Delete removes key, with the same durability and errors as Put. Deleting an absent key is not an error.
func (db *DB) Delete(key []byte) error {
	b := batches.Get().(*Batch) //nolint:errcheck // the pool holds nothing else
	b.Delete(key)
	return db.applyPooled(b)
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

func (db *DB) applyPooled(b *Batch) error {
	err := db.Apply(b, DefaultDurability)
	recycle(b)
	return err
}

// recycle returns a batch to the pool, unless it has grown large.
func recycle(b *Batch) {
	if cap(b.ops) <= 64<<10 {
		b.Reset()
		batches.Put(b)
	}
}

// DeleteRange removes every key k with lo ≤ k < hi. A nil lo means from the first key, a nil hi means no end. An
// empty or inverted range is not an error and does nothing. The cost does not depend on the number of keys:
// DeleteRange writes one range tombstone. Lookups and iterators apply it at once, and compaction removes the deleted
// keys, whole tables without reading them. Both bounds are copied, and may be longer than a key. Durability and
// errors are those of Put. [PrefixRange] returns the bounds of a prefix.
func (db *DB) DeleteRange(lo, hi []byte) error {
	b := batches.Get().(*Batch) //nolint:errcheck // the pool holds nothing else
	b.DeleteRange(lo, hi)
	return db.applyPooled(b)
}

// Apply applies all operations of b in order, atomically: readers see all of them or none, and so does recovery after
// a crash. Apply returns once they are as durable as d requires: DefaultDurability, Sync or NoSync. Apply only reads
// the batch, which may be applied again, also by several goroutines. An empty batch with Sync is the same as
// [DB.Sync].
//
// An error matching ErrReadOnly means that the log or the manifest could not be written or synced, now or earlier.
// The batch may or may not be there when the store is opened again, but never in part, and no reader of this DB sees
// it. With Options.ReadOnly, and after any other error, such as ErrTooLarge or ErrClosed, nothing was written. While
// compaction is behind, Apply takes longer, and finally waits.
func (db *DB) Apply(b *Batch, d Durability) error {
	if d == DefaultDurability {
		d = db.opts.Durability
	}
	switch {
	case db.tree.Load() == nil:
		return ErrClosed
	case d > NoSync:
		return fmt.Errorf("bloomkv: durability %d, want %d or %d", d, Sync, NoSync)
	case b.err != nil:
		return b.err
	case b.count == 0 && d == Sync:
		return db.Sync()
	case b.count == 0:
		return nil
	}
	return db.commit(b.ops, b.count, d == Sync, nil)
}

// Sync makes every write that has returned durable; it is the barrier after NoSync writes. If it fails, the store
// takes no more writes (ErrReadOnly).
func (db *DB) Sync() error {
	if db.tree.Load() == nil {
		return ErrClosed
	}
	return db.commit(nil, 0, true, nil)
}

// A commit is one writer's part of a group. Writers queue up; the first one commits for all waiting writers, so that
// they share one log write, one sync and one lock (LevelDB's writer queue).
type commit struct {
	ops   []byte
	count uint32
	sync  bool
	when  *condition // nil means unconditionally

	lead chan bool // true: lead the next group; false: done, see err
	err  error
}

var commits = sync.Pool{New: func() any { return &commit{lead: make(chan bool, 1)} }}

// maxGroup bounds the bytes in a group, so that a small write does not wait for too many large ones.
const maxGroup = 1 << 20

type commitQueue struct {
	mu      sync.Mutex
	leading bool
	waiting []*commit
}

// commit queues the operations of one writer and returns once they are committed. If when is not nil, they are
// committed only if it holds; then when.held is set.
func (db *DB) commit(ops []byte, count uint32, durable bool, when *condition) error {
	c := commits.Get().(*commit) //nolint:errcheck // the pool holds nothing else
	c.ops, c.count, c.sync, c.when, c.err = ops, count, durable, when, nil
	q := &db.queue
	q.mu.Lock()
	lead := !q.leading
	if lead {
		q.leading = true
	} else {
		q.waiting = append(q.waiting, c)
	}
	q.mu.Unlock()
	if lead || <-c.lead {
		db.lead(c)
	}
	err := c.err
	c.ops, c.when = nil, nil
	commits.Put(c)
	return err
}

// lead commits a group that starts with c and hands the lead to the next waiter.
func (db *DB) lead(c *commit) {
	q := &db.queue
	group := append(db.group[:0], c)
	q.mu.Lock()
	size, n := len(c.ops), 0
	for n < len(q.waiting) && (c.sync || !q.waiting[n].sync) && size+len(q.waiting[n].ops) <= maxGroup &&
		(q.waiting[n].when == nil || size < maxConditional) {
		size += len(q.waiting[n].ops)
		n++
	}
	group = append(group, q.waiting[:n]...)
	q.waiting = append(q.waiting[:0], q.waiting[n:]...)
	q.mu.Unlock()

	err := db.commitGroup(group, size, c.sync)
	if err != nil {
		for _, w := range group {
			w.err = err
		}
	}
	db.group = group // kept for the next leader, which is woken only after this
	q.mu.Lock()
	var next *commit
	if len(q.waiting) > 0 {
		next = q.waiting[0]
		q.waiting = append(q.waiting[:0], q.waiting[1:]...)
	} else {
		q.leading = false
	}
	followers := append([]*commit(nil), group[1:]...)
	q.mu.Unlock()
	if next != nil {
		next.lead <- true
	}
	for _, w := range followers {
		w.lead <- false
	}
}

// commitGroup makes a group durable, then visible.
func (db *DB) commitGroup(group []*commit, size int, durable bool) error {
	db.commitMu.Lock()
	defer db.commitMu.Unlock()
	if err := db.tree.Writable(); err != nil {
		return err
	}
	if size > 0 { // otherwise it is a barrier, which needs no space
		if err := db.makeRoom(int64(size)); err != nil {
			return err
		}
	}
	first := db.lastSeq + 1
	framed := append(db.framed[:0], make([]byte, wal.HeaderSize)...) // the record follows
	framed = batch.AppendRecordHeader(framed, first, 0)
	var count uint32
	for _, c := range group {
		if c.when != nil {
			if c.when.held, c.err = db.holds(c.when, framed[wal.HeaderSize+batch.RecordHeader:]); !c.when.held {
				continue
			}
		}
		framed = append(framed, c.ops...)
		count += c.count
	}
	if count > 0 {
		if err := db.ensureLog(); err != nil {
			return err
		}
		record := framed[wal.HeaderSize:]
		batch.SetRecordCount(record, count)
		if cap(framed) <= 4*maxGroup {
			db.framed = framed
		}
		if err := db.log.w.Append(framed); err != nil {
			return db.tree.Fail(err)
		}
		db.writes.groups.Add(1)
		db.writes.operations.Add(uint64(count))
		db.writes.logBytes.Add(uint64(len(record)))
		if durable {
			if err := db.syncLog(); err != nil {
				return err
			}
		}
		if err := addRecord(db.tree.Load().Mem, db.seed, record); err != nil {
			return db.tree.Fail(fmt.Errorf("bloomkv: invalid record of its own: %w", err))
		}
		db.read.DeadKeys.Wrote(record)
		db.lastSeq += ikey.Seq(count)
		db.tree.Publish(db.lastSeq)
		return nil
	}
	if durable {
		return db.syncLog()
	}
	return nil
}

// An operation is one operation of a record.
type operation struct {
	seq        ikey.Seq
	kind       ikey.Kind
	key, value []byte
	hash       bloomblock.Hash // of the key, mixed; set by addTo
}

// addRecord adds the operations of a record to a memtable, a few at a time. It prefetches the memory that all of them
// need before it adds the first, so that their cache misses overlap.
func addRecord(mem *memtable.Table, seed bloomblock.Seed, record []byte) error {
	var few [16]operation
	n := 0
	_, _, err := batch.ReadRecord(record, func(seq ikey.Seq, kind ikey.Kind, key, value []byte) {
		if n == len(few) {
			addTo(mem, seed, few[:n])
			n = 0
		}
		few[n] = operation{seq: seq, kind: kind, key: key, value: value}
		n++
	})
	addTo(mem, seed, few[:n])
	return err
}

// addTo adds operations to a memtable, in order.
func addTo(mem *memtable.Table, seed bloomblock.Seed, few []operation) {
	for i := range few {
		few[i].hash = seed.Mix(bloomblock.HashKey(few[i].key))
		if len(few) > 1 {
			mem.Prepare(few[i].hash)
		}
	}
	for i := range few {
		o := &few[i]
		if o.kind == ikey.RangeDelete {
			mem.AddRange(o.key, o.value, o.seq)
		} else {
			mem.Add(o.key, o.hash, o.seq, o.kind, o.value)
		}
	}
}

// syncLog makes the active log durable, and what it depends on: its own name and every older log. commitMu is held.
func (db *DB) syncLog() error {
	base := db.base
	if db.log != nil {
		base = db.log.logBase
		db.writes.logSyncs.Add(1)
		if err := db.log.w.Sync(); err != nil {
			return db.tree.Fail(err)
		}
	}
	if base == nil {
		return nil
	}
	<-base.based
	if base.basedErr != nil {
		return db.tree.Fail(base.basedErr)
	}
	return nil
}

// makeRoom returns once a group of the given number of bytes may be added to the memtable. It slows writers while
// compaction is behind, begins a new memtable if the group does not fit, and waits if it cannot begin one. commitMu
// is held.
func (db *DB) makeRoom(size int64) error {
	db.slowDown(size)
	mem := db.tree.Load().Mem
	limit := db.opts.MemtableSize
	used := mem.Bytes()
	if mem.Len() == 0 || used < limit && (size <= limit/2 || used+size <= limit) {
		return nil
	}
	if err := db.waitForRoom(context.Background()); err != nil {
		return err
	}
	db.rotate()
	return nil
}

// waitForRoom returns once no memtable waits for a flush and level 0 is below its stop limit. commitMu is held.
func (db *DB) waitForRoom(ctx context.Context) error {
	var stopped stop
	err := db.tree.Wait(ctx, func(v tree.View) bool {
		if v.State == nil {
			return true
		}
		reason, full := full(v.State, db.policy)
		if full {
			stopped.on(reason)
		}
		return !full
	})
	db.stopped(&stopped)
	return err
}

// full reports whether no memtable can be frozen now, and why.
func full(s *tree.State, p compaction.Policy) (StallReason, bool) {
	switch {
	case len(s.Frozen) >= maxFrozen:
		return StoppedByMemtable, true
	case p.Pressure(s.Version).Stop:
		return StoppedByLevel0, true
	default:
		return 0, false
	}
}

// slowDown delays a write according to the pressure of compaction: the first step is 8 µs per KiB (128 MiB/s), and
// each further step doubles it, so that writers approach the speed of compaction instead of stopping at once.
// commitMu is held.
func (db *DB) slowDown(size int64) {
	steps := db.policy.Pressure(db.tree.Load().Version).Slow
	if steps <= 0 {
		db.slowed(0)
		return
	}
	db.slowDebt += time.Duration(size) << min(steps-1, 6) * 8 * time.Microsecond / 1024
	if db.slowDebt < 200*time.Microsecond { // the system does not time shorter sleeps well
		return
	}
	// Bound the sleep, so that a large batch notices when the store is closing.
	db.slowDebt = min(db.slowDebt, 100*time.Millisecond)
	began := time.Now()
	time.Sleep(db.slowDebt)
	slept := time.Since(began)
	db.slowDebt = max(-10*time.Millisecond, db.slowDebt-slept) // too long a sleep shortens later ones
	db.slowed(slept)
}
