package commit

import (
	"context"
	"slices"
	"time"

	"github.com/bloomkv/bloomkv/internal/step"
)

// MaxTurn bounds the time for which other writers wait for the commit of a turn. It is about that of a sync.
const MaxTurn = time.Millisecond

// A Turn keeps all other commits waiting, so that what a transaction reads in it stays the same until it commits. It
// ends with that commit, by End, or after MaxTurn: then the transaction commits as without a turn.
type Turn struct {
	queue *queue
	timer *step.Timer // ends the turn; whoever stops it has the lead
}

// Turn waits for a turn of the caller's, or until ctx ends. Turns come in the order of the calls. A commit that waits
// for a turn joins the group in which it ends, or leads the next one. The caller must call End; its reads have the turn
// for CommitReads.
func (w *Writer) Turn(ctx context.Context) (*Turn, error) {
	q := &w.queue
	granted := make(chan struct{}, 1)
	q.mu.Lock()
	q.turns = append(q.turns, granted)
	idle := !q.leading
	q.leading = true
	q.mu.Unlock()
	if idle {
		q.pass()
	}
	if _, ok := step.TakeOr(ctx, granted); ok {
		return &Turn{q, step.AfterFunc(MaxTurn, q.endTurn)}, nil
	}
	q.mu.Lock()
	i := slices.Index(q.turns, granted)
	if i >= 0 {
		q.turns = slices.Delete(q.turns, i, i+1)
	}
	q.mu.Unlock()
	if i < 0 { // it was granted meanwhile
		q.endTurn()
	}
	return nil, ctx.Err()
}

// take ends the turn for a commit of its own, and reports whether the turn lasted until then. A nil turn has ended.
func (t *Turn) take() bool { return t != nil && t.timer.Stop() }

// End ends the turn, if it still lasts. A nil turn has ended.
func (t *Turn) End() {
	if t.take() {
		t.queue.endTurn()
	}
}

// endTurn hands the lead on from a turn that has not committed.
func (q *queue) endTurn() {
	q.mu.Lock()
	q.owed = true
	q.mu.Unlock()
	q.pass()
}

// pass hands the lead on: to the first that waits for a turn, else to the first commit, or first to a commit that is
// owed the lead.
func (q *queue) pass() {
	q.mu.Lock()
	defer q.mu.Unlock()
	turn := len(q.turns) > 0 && !(q.owed && len(q.waiting) > 0)
	q.inTurn, q.owed = turn, false
	switch {
	case turn:
		q.turns[0] <- struct{}{}
		q.turns = slices.Delete(q.turns, 0, 1)
	case len(q.waiting) > 0:
		q.waiting[0].lead <- true
		q.waiting = slices.Delete(q.waiting, 0, 1)
	default:
		q.leading = false
	}
}
