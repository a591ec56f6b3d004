package commit

import (
	"cmp"
	"errors"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/pages"
	"github.com/bloomkv/bloomkv/internal/step"
)

// A commit is one writer's part of a group. Writers queue up; the first one commits for all waiting writers, so that
// they share one log write, one sync and one lock (LevelDB's writer queue).
type commit struct {
	ops     []byte
	count   uint32
	durable bool
	when    *condition // nil means unconditionally
	reads   *Reads     // nil means unconditionally, too

	lead      chan bool // true: lead the next group; false: done, see satisfied and err
	satisfied bool      // when and reads let it commit
	err       error
}

// maxGroup bounds the bytes in a group, so that a small write does not wait for too many large ones. A larger commit is
// a group of its own. Its bytes are not copied on their way to the log.
const maxGroup = 1 << 20

// MinPut is the smallest value for CommitPut, in bytes.
const MinPut = maxGroup

type queue struct {
	mu      step.Mutex
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
	_, err := w.commit(ops, count, durable, nil, nil)
	return err
}

// CommitPut does what Commit does for a put of at least MinPut bytes, which is encoded outside of the heap, and copied
// from there into the log and the memtable: the caller's bytes might change between their checksum and the log.
func (w *Writer) CommitPut(key, value []byte, durable bool) error {
	pool := pages.NewPool()
	own, _ := pool.Get(batch.MaxOpHeader + len(key) + len(value))
	defer pool.Free(own)
	return w.Commit(batch.AppendOp(own[:0], ikey.Set, key, value), 1, durable)
}

// CommitIf does what Commit does if the value of key equals old, or with a nil old if the store has no value for key,
// and reports whether it did. The check and the commit are one step to all other writers and readers.
func (w *Writer) CommitIf(ops []byte, count uint32, durable bool, key, old []byte) (bool, error) {
	when := &condition{key: key, hash: w.Values.Hash(key), old: old, state: w.Tree.Load()}
	when.seq = w.Tree.NewestSeq()
	// The first check reads from files while no other writer waits. If its answer is no, that is final.
	if holds, err := w.Values.Compare(key, old); err != nil || !holds {
		return false, cmp.Or(w.Tree.Writable(), err) // if it holds, commitGroup checks Writable
	}
	return w.commit(ops, count, durable, when, nil)
}

// CommitReads does what Commit does if the reads are still the same, and reports whether it did. The check and the
// commit are one step to all other writers and readers. It sorts the reads.
//
// What was written since is in memtables, unless too much was: see tells. Only then are the reads repeated and
// compared, since tables drop versions and their sequence numbers, and so do not show what has changed. It is done once
// before the commit queues, so that files are read while no other writer waits.
func (w *Writer) CommitReads(ops []byte, count uint32, durable bool, r *Reads) (bool, error) {
	if len(r.Keys)+len(r.Ranges) == 0 && r.Turn == nil {
		return w.commit(ops, count, durable, nil, nil)
	}
	r.sort()
	r.seen = r.At
	if w.Tree.Load() != r.At.State {
		now, err := w.Tree.Now()
		if err != nil {
			return false, err
		}
		defer w.Tree.Release(now.State)
		if tells(now.State, r) {
			if w.touched(now.State, r) {
				return false, nil
			}
		} else if same, err := w.repeat(r, now); err != nil || !same {
			return false, err
		}
		r.seen = now
	}
	return w.commit(ops, count, durable, nil, r)
}

// commit queues the operations of one writer and returns once they are committed. If when is not nil, this is only if
// it holds, and if reads is not nil, only if the reads are still the same: commit reports whether they were committed.
func (w *Writer) commit(
	ops []byte, count uint32, durable bool, when *condition, reads *Reads,
) (satisfied bool, err error) {
	c := w.commits.Get().(*commit) //nolint:errcheck // the pool holds nothing else
	c.ops, c.count, c.durable, c.when, c.reads = ops, count, durable, when, reads
	c.satisfied, c.err = false, nil
	q := &w.queue
	lead := reads != nil && reads.Turn.take()
	step.At("commit: queue")
	q.mu.Lock()
	if !lead && q.leading {
		q.waiting = append(q.waiting, c)
	} else {
		lead, q.leading = true, true
	}
	q.mu.Unlock()
	if lead || step.Take(c.lead) {
		w.lead(c)
	}
	satisfied, err = c.satisfied, c.err
	c.ops, c.when, c.reads = nil, nil, nil
	w.commits.Put(c)
	return satisfied && err == nil, err
}

// errInterrupted is the error of a group whose commit did not return.
var errInterrupted = errors.New("a function of Events, Logger or FS panicked, or ended its goroutine, in a write")

// lead commits a group that starts with c and hands the lead to the next waiter.
func (w *Writer) lead(c *commit) {
	q := &w.queue
	group := append(w.group[:0], c)
	q.mu.Lock()
	size, n := len(c.ops), 0
	for n < len(q.waiting) && (c.durable || !q.waiting[n].durable) && size+len(q.waiting[n].ops) <= maxGroup &&
		(q.waiting[n].when == nil && q.waiting[n].reads == nil || size < maxConditional) {
		size += len(q.waiting[n].ops)
		n++
	}
	group = append(group, q.waiting[:n]...)
	q.waiting = append(q.waiting[:0], q.waiting[n:]...)
	q.owed = q.inTurn && len(q.waiting) > 0
	q.mu.Unlock()

	err := errInterrupted
	defer func() { w.handOn(group, err) }()
	defer func() {
		if errors.Is(err, errInterrupted) { // nothing is known of the record
			_ = w.Tree.Fail(err) // which may panic, too
		}
	}()
	err = w.commitGroup(group, size, c.durable)
}

// handOn returns err to the other writers of a group, unless it is nil, and hands the lead to the next waiter.
func (w *Writer) handOn(group []*commit, err error) {
	if err != nil {
		for _, c := range group {
			c.err = err
		}
	}
	w.group = group // kept for the next leader, which is woken only after this
	followers := append([]*commit(nil), group[1:]...)
	step.At("commit: pass")
	w.queue.pass()
	for _, c := range followers {
		c.lead <- false
	}
}
