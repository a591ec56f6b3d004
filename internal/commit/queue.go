package commit

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/pages"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/internal/wal"
)

// A commit is one writer's part of a group. Writers queue up; the first one commits for all waiting writers, so that
// they share one log write, one sync and one lock (LevelDB's writer queue).
type commit struct {
	ops   []byte
	value []byte // of a put whose ops end before its value
	count uint32
	sync  bool
	when  *condition // nil means unconditionally
	reads *Reads     // nil means unconditionally, too
	stood bool       // the reads were the same

	lead chan bool // true: lead the next group; false: done, see err
	err  error
}

func (c *commit) size() int { return len(c.ops) + len(c.value) }

// maxGroup bounds the bytes in a group, so that a small write does not wait for too many large ones. A larger commit is
// a group of its own. Its bytes are not copied on their way to the log.
const maxGroup = 1 << 20

// MinPut is the smallest value for CommitPut, in bytes.
const MinPut = maxGroup

type queue struct {
	mu      sync.Mutex
	leading bool
	waiting []*commit
	turns   []chan struct{} // of those that wait for a turn
	inTurn  bool            // the lead was handed on as a turn
	owed    bool            // a turn has made the first in waiting wait: that one leads next
}

// Commit commits count operations, encoded in ops, and returns once they are visible, and durable if durable is true.
// Without operations it only makes earlier writes durable. An error matching tree.ErrReadOnly means that they may or
// may not be there when the store is opened again; after any other error nothing was written.
func (w *Writer) Commit(ops []byte, count uint32, durable bool) error {
	_, err := w.commit(ops, nil, count, durable, nil, nil)
	return err
}

// CommitPut does what Commit does for a put of at least MinPut bytes: op is what batch.AppendPut has made. The value is
// copied once, outside of the heap, and from there into the log and the memtable: the caller's bytes might change
// between their checksum and the log.
func (w *Writer) CommitPut(op, value []byte, durable bool) error {
	pool := pages.NewPool()
	own, _ := pool.Get(len(value))
	defer pool.Free(own)
	copy(own, value)
	_, err := w.commit(op, own, 1, durable, nil, nil)
	return err
}

// CommitIf does what Commit does if the value of key equals old, or with a nil old if the store has no value for key,
// and reports whether it did. The check and the commit are one step to all other writers and readers.
func (w *Writer) CommitIf(ops []byte, count uint32, durable bool, key, old []byte) (bool, error) {
	when := &condition{key: key, hash: w.Values.Hash(key), old: old, state: w.Tree.Load()}
	when.seq = w.Tree.NewestSeq()
	// The first check reads from files while no other writer waits. If its answer is no, that is final.
	if held, err := w.Values.Compare(key, old); err != nil || !held {
		return false, cmp.Or(w.Tree.Writable(), err) // if it is yes, the commit asks
	}
	_, err := w.commit(ops, nil, count, durable, when, nil)
	return err == nil && when.held, err
}

// commit queues the operations of one writer and returns once they are committed; value is nil unless ops end before
// it. If when is not nil, they are committed only if it holds; then when.held is set. If reads is not nil, they are
// committed only if the reads are still the same, and commit reports whether they are.
func (w *Writer) commit(
	ops, value []byte, count uint32, durable bool, when *condition, reads *Reads,
) (stood bool, err error) {
	c := w.commits.Get().(*commit) //nolint:errcheck // the pool holds nothing else
	c.ops, c.value, c.count, c.sync, c.when, c.err = ops, value, count, durable, when, nil
	c.reads, c.stood = reads, false
	q := &w.queue
	lead := reads != nil && reads.Turn.take()
	q.mu.Lock()
	if !lead && q.leading {
		q.waiting = append(q.waiting, c)
	} else {
		lead, q.leading = true, true
	}
	q.mu.Unlock()
	if lead || <-c.lead {
		w.lead(c)
	}
	stood, err = c.stood, c.err
	c.ops, c.value, c.when, c.reads = nil, nil, nil, nil
	w.commits.Put(c)
	return stood && err == nil, err
}

// lead commits a group that starts with c and hands the lead to the next waiter.
func (w *Writer) lead(c *commit) {
	q := &w.queue
	group := append(w.group[:0], c)
	q.mu.Lock()
	size, n := c.size(), 0
	for n < len(q.waiting) && (c.sync || !q.waiting[n].sync) && size+q.waiting[n].size() <= maxGroup &&
		(q.waiting[n].when == nil && q.waiting[n].reads == nil || size < maxConditional) {
		size += q.waiting[n].size()
		n++
	}
	group = append(group, q.waiting[:n]...)
	q.waiting = append(q.waiting[:0], q.waiting[n:]...)
	q.owed = q.inTurn && len(q.waiting) > 0
	q.mu.Unlock()

	err := w.commitGroup(group, size, c.sync)
	if err != nil {
		for _, c := range group {
			c.err = err
		}
	}
	w.group = group // kept for the next leader, which is woken only after this
	followers := append([]*commit(nil), group[1:]...)
	q.pass()
	for _, c := range followers {
		c.lead <- false
	}
}

// commitGroup makes a group durable, then visible, in this order:
//
//  1. wait until the memtable has space;
//  2. check the conditions of each writer, against the store and the writers before it in the group (I37);
//  3. append one record for all to the log: a batch is whole or absent (I4), and the kernel has it (I2);
//  4. if one of the writers asked for it, sync the log and all older ones (I1, I3, I6);
//  5. add the operations to the memtable, set the newest mark (I36), and publish the sequence number.
//
// After a failure of 3 or 4 nothing is published and the tree takes no more writes, since it is unknown what the disk
// has (I5).
func (w *Writer) commitGroup(group []*commit, size int, durable bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.Tree.Writable(); err != nil {
		return err
	}
	if size > 0 { // otherwise it is a barrier, which needs no space
		if err := w.fitsOnDisk(batch.RecordHeader+int64(size), group); err != nil {
			return err
		}
		if err := w.makeSpace(int64(size)); err != nil {
			return err
		}
	}
	first := w.lastSeq + 1
	framed := append(w.framed[:0], make([]byte, wal.HeaderSize)...) // the record follows
	framed = batch.AppendRecordHeader(framed, first, 0)
	var count uint32
	large := group[0] // if size is over maxGroup
	for _, c := range group {
		if c.when != nil {
			if c.when.held, c.err = w.holds(c.when, framed[wal.HeaderSize+batch.RecordHeader:]); !c.when.held {
				continue
			}
		}
		if c.reads != nil {
			if c.stood, c.err = w.stand(c.reads, framed[wal.HeaderSize+batch.RecordHeader:]); !c.stood {
				continue
			}
		}
		if size <= maxGroup {
			framed = append(framed, c.ops...)
		}
		count += c.count
	}
	if count == 0 {
		if durable {
			return w.syncAll()
		}
		return nil
	}
	if err := manifest.CheckWrite(w.lastSeq + ikey.Seq(count)); err != nil {
		return err
	}
	if err := w.ensureLog(); err != nil {
		return err
	}
	record := framed[wal.HeaderSize:]
	batch.SetRecordCount(record, count)
	w.framed = framed
	ops, value := record[batch.RecordHeader:], []byte(nil)
	var err error
	switch {
	case size <= maxGroup:
		err = w.log.w.Append(framed)
	case large.value == nil:
		ops = large.ops
		err = w.log.w.Append(framed, ops)
	default:
		ops, value = large.ops, large.value
		err = w.log.w.Append(framed, ops, value)
	}
	if err != nil {
		return w.Tree.Fail(err)
	}
	w.log.name()
	w.counts.groups.Add(1)
	w.counts.operations.Add(uint64(count))
	w.counts.logBytes.Add(uint64(batch.RecordHeader + len(ops) + len(value)))
	if durable {
		if err := w.syncLog(); err != nil {
			return err
		}
	}
	mem := w.Tree.Load().Mem
	var marks recordMarks
	if value != nil {
		key := batch.PutKey(ops)
		mem.Add(key, w.Seed.Mix(bloomblock.HashKey(key)), first, ikey.Set, value)
		ops = batch.AppendOp(nil, ikey.Set, key, nil)
	} else if marks, err = addOps(mem, w.Seed, first, count, ops); err != nil {
		return w.Tree.Fail(fmt.Errorf("bloomkv: invalid record of its own: %w", err))
	}
	w.Records.Wrote(ops)
	w.lastSeq += ikey.Seq(count)
	if marks.bytes > 0 {
		w.mark = batch.Mark{Seq: marks.last.Seq, Bytes: bytes.Clone(marks.last.Bytes)}
		w.marked.Add(marks.bytes)
		w.Tree.SetMark(w.mark)
	}
	w.Tree.Publish(w.lastSeq)
	if durable {
		w.Tree.Synced()
	}
	return nil
}

// makeSpace returns once a group of the given number of bytes may be added to the memtable. It slows writers while
// compaction is behind, begins a new memtable if the group does not fit into it or into its log, and waits if it
// cannot begin one. The first group after Open waits as well: Close flushes whatever level 0 has, so short sessions
// alone would never wait. mu is held.
func (w *Writer) makeSpace(size int64) error {
	w.slowDown(size)
	mem := w.Tree.Load().Mem
	limit := w.MemtableSize
	used := mem.Bytes() + w.marked.Load()
	fits := (w.empty(mem) || used < limit && (size <= limit/2 || used+size <= limit)) &&
		(w.log == nil || w.log.w.HasSpace(batch.RecordHeader+size))
	if first := w.log == nil && w.pace.began.IsZero(); first || !fits {
		if err := w.waitToFreeze(context.Background()); err != nil {
			return err
		}
	}
	if !fits {
		w.rotate()
		used = 0
	}
	if step := limit / tree.MemtableSteps; used-w.grown >= step || used < w.grown {
		w.grown = used
		w.Tree.Grow()
	}
	w.pace.bytes += size // of the memtable that the group is added to
	return nil
}

// recordMarks are the marks of a record.
type recordMarks struct {
	last  batch.Mark // shares the bytes of the record
	bytes int64      // of all marks in the log, at most; 0 without a mark
}

// addOps adds the operations of a record to a memtable, a few at a time, so that their cache misses overlap. It returns
// the marks, which a memtable does not keep.
func addOps(
	mem *memtable.Table, seed bloomblock.Seed, first ikey.Seq, count uint32, ops []byte,
) (marks recordMarks, err error) {
	var few [16]memtable.Op
	n := 0
	err = batch.ReadOps(first, count, ops, func(seq ikey.Seq, kind ikey.Kind, key, value []byte) {
		if kind == ikey.Mark {
			marks.last = batch.Mark{Seq: seq, Bytes: value}
			marks.bytes += wal.HeaderSize + batch.RecordHeader + batch.MaxOpHeader + int64(len(value))
			return
		}
		if n == len(few) {
			mem.AddOps(few[:n])
			n = 0
		}
		few[n] = memtable.Op{Seq: seq, Kind: kind, Key: key, Value: value, Hash: seed.Mix(bloomblock.HashKey(key))}
		n++
	})
	mem.AddOps(few[:n])
	return marks, err
}
