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

// Put stores value under key, replacing what was there. Both are copied; nil is the empty key, or the empty value. It
// returns when the write is as durable as Options.Durability says, and then every later read sees it. Its errors are those
// of [DB.Apply]; a key longer than MaxKeySize or a value longer than MaxValueSize is ErrTooLarge.
func (db *DB) Put(key, value []byte) error {
	b := batches.Get().(*Batch) //nolint:errcheck // the pool holds nothing else
	b.Put(key, value)
	return db.applyPooled(b)
}

// Delete removes key, as durably as Put stores one. Removing an absent key is no error.
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

func recycle(b *Batch) {
	if cap(b.ops) <= 64<<10 {
		b.Reset()
		batches.Put(b)
	}
}

// DeleteRange removes every key from lo on and before hi: lo is inclusive, hi exclusive. A nil lo begins at the first key, a
// nil hi has no end; an empty or inverted range is no error and does nothing. It costs the same for one key as for a
// million: it writes one range tombstone, which lookups and iterators heed at once, and compaction removes what it covers,
// whole tables without reading them. Both bounds are copied, and may be longer than a key. Durability and errors are those of
// Put. [PrefixRange] has the bounds of a prefix.
func (db *DB) DeleteRange(lo, hi []byte) error {
	b := batches.Get().(*Batch) //nolint:errcheck // the pool holds nothing else
	b.DeleteRange(lo, hi)
	return db.applyPooled(b)
}

// Apply applies all operations of b in order, as one: readers and crashes see all of them or none. It returns when they
// are as durable as d says: DefaultDurability, Sync or NoSync. The batch is only read and may be applied again, by several
// goroutines too. An empty batch with Sync is [DB.Sync].
//
// An error that Is ErrReadOnly means that the log or the manifest could not be written or synced, now or earlier: the batch
// may or may not be there when the store is opened again, but never in part, and no reader of this DB sees it. With
// Options.ReadOnly nothing was written, nor after any other error, such as ErrTooLarge or ErrClosed. While compaction is
// behind, Apply takes longer, and at last it waits.
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

// Sync makes every write that returned before it durable: the barrier after NoSync writes. When it fails the store takes no
// more writes (ErrReadOnly).
func (db *DB) Sync() error {
	if db.tree.Load() == nil {
		return ErrClosed
	}
	return db.commit(nil, 0, true, nil)
}

// A commit is one writer's part in a group. Writers queue up; the first one commits for all who wait, so that they share
// one log write, one sync and one lock (LevelDB's writer queue).
type commit struct {
	ops   []byte
	count uint32
	sync  bool
	when  *condition // nil: always

	lead chan bool // true: you lead the next group; false: done, see err
	err  error
}

var commits = sync.Pool{New: func() any { return &commit{lead: make(chan bool, 1)} }}

// maxGroup bounds the bytes that a group gathers, so that a small write does not wait for too many large ones.
const maxGroup = 1 << 20

type commitQueue struct {
	mu      sync.Mutex
	leading bool
	waiting []*commit
}

// commit queues one writer's operations and returns when they are committed. Where when is not nil, they are only if it
// holds, and when.held says whether it did.
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
	db.group = group // kept for the next leader, which is told only after this
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
	if size > 0 { // else it is a barrier, which needs none
		if err := db.makeRoom(int64(size)); err != nil {
			return err
		}
	}
	first := db.lastSeq + 1
	framed := append(db.framed[:0], make([]byte, wal.HeaderSize)...) // and then the record
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
			return db.tree.Fail(fmt.Errorf("bloomkv: a record of its own making: %w", err))
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

// An operation is one of a record.
type operation struct {
	seq        ikey.Seq
	kind       ikey.Kind
	key, value []byte
	hash       bloomblock.Hash // of the key, mixed; set by addTo
}

// addRecord puts the operations of a record into a memtable. It takes a few at a time, and has what they wait for fetched
// before the first is added, so that their cache misses overlap.
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

// addTo puts operations into a memtable, in their order.
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

// syncLog makes the active log durable, and first what it stands on: its own name and every older log. commitMu is held.
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

// makeRoom returns when a group of that many bytes may go into the memtable: it slows writers while compaction is behind,
// starts a new memtable where the group does not fit, and waits where there is none to start. commitMu is held.
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

// waitForRoom returns when no memtable waits to be written out and level 0 is below its stop limit. commitMu is held.
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

// full says whether no memtable can be frozen now, and why.
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

// slowDown delays a write by the pressure of compaction: 8 µs a KiB (128 MiB/s) for its first step, twice that for each
// further one, so that writers approach the speed of compaction instead of stopping at once. commitMu is held.
func (db *DB) slowDown(size int64) {
	steps := db.policy.Pressure(db.tree.Load().Version).Slow
	if steps <= 0 {
		db.slowed(0)
		return
	}
	db.slowDebt += time.Duration(size) << min(steps-1, 6) * 8 * time.Microsecond / 1024
	if db.slowDebt < 200*time.Microsecond { // the system keeps shorter sleeps badly
		return
	}
	db.slowDebt = min(db.slowDebt, 100*time.Millisecond) // of one group: a large batch, too, sees the store closing
	began := time.Now()
	time.Sleep(db.slowDebt)
	slept := time.Since(began)
	db.slowDebt = max(-10*time.Millisecond, db.slowDebt-slept) // what was slept too long counts for later
	db.slowed(slept)
}
