package replica

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/digest"
)

// Freshness says what a read sees.
type Freshness bool

const (
	// Linearizable reads see every write that was acknowledged, by any node, before the read began. They need a
	// majority of the nodes.
	Linearizable Freshness = false
	// Stale reads see what this node has, a prefix of all writes, and need no other node. Two stale reads of one node
	// never go back in time, even across its restart, unless the store was not closed and the machine lost power.
	Stale Freshness = true
)

type readRequest struct{ answer chan readAnswer }

type readAnswer struct {
	index uint64
	err   error
}

// Get returns the value of key, or bloomkv.ErrNotFound.
func (n *Node) Get(ctx context.Context, key []byte, f Freshness) ([]byte, error) {
	if err := n.Fresh(ctx, f); err != nil {
		return nil, err
	}
	value, err := n.db.Get(key)
	return value, closedAs(err)
}

// Scan returns the pairs of a range, as [bloomkv.DB.Scan] does.
func (n *Node) Scan(ctx context.Context, opts bloomkv.IterOptions, f Freshness) iter.Seq2[bloomkv.KV, error] {
	return func(yield func(bloomkv.KV, error) bool) {
		if err := n.Fresh(ctx, f); err != nil {
			yield(bloomkv.KV{}, err)
			return
		}
		for kv, err := range n.db.Scan(opts) {
			if !yield(kv, closedAs(err)) {
				return
			}
		}
	}
}

// Digest returns the digest of this node's store: see [bloomkv.DB.Digest]. Its mark is the index of the last command.
func (n *Node) Digest(ctx context.Context, opts bloomkv.DigestOptions) (*digest.Digest, error) {
	if err := n.done(); err != nil {
		return nil, err
	}
	d, err := n.db.Digest(ctx, opts)
	return d, closedAs(err)
}

// Snapshot returns this node's store as of now, for several reads that belong together; its mark is the index of the
// last command, little-endian. After Fresh it has what linearizable reads see.
func (n *Node) Snapshot() (*bloomkv.Snapshot, error) {
	if err := n.done(); err != nil {
		return nil, err
	}
	s, err := n.db.Snapshot()
	return s, closedAs(err)
}

func closedAs(err error) error {
	if errors.Is(err, bloomkv.ErrClosed) {
		return ErrClosed
	}
	return err
}

// Fresh returns once this node's store has every write that was acknowledged, by any node, before the call. With Stale
// it only says whether the node is usable. While there is no leader it waits until ctx ends (ErrNoLeader).
//
// The leader makes sure that it still is the leader, applies everything that is committed by then (see lead), and gives
// the index of its last command. This node waits until it has that, too. The index is that of the stores, so that it is
// always reached: raft's own also counts entries that no store ever sees.
func (n *Node) Fresh(ctx context.Context, f Freshness) error {
	if f == Stale {
		return n.done()
	}
	var index uint64
	err := n.onLeader(ctx,
		func() (err error) { index, err = n.readIndex(ctx); return err },
		func(leader string) (err error) { index, err = n.client.readIndex(ctx, leader); return err })
	if err != nil {
		return err
	}
	return n.awaitApplied(ctx, index)
}

// awaitApplied waits until this node's store has a command.
func (n *Node) awaitApplied(ctx context.Context, index uint64) error {
	switch err := n.fsm.applied.wait(ctx, index, n.ended); {
	case err == nil, errors.Is(err, ErrClosed):
		return n.done()
	default:
		return fmt.Errorf("%w: this node has index %d of %d: %w", ErrNoLeader, n.fsm.applied.load(), index, err)
	}
}

// readIndex returns, on the leader, an index up to which all acknowledged writes are.
func (n *Node) readIndex(ctx context.Context) (uint64, error) {
	r := readRequest{make(chan readAnswer, 1)}
	select {
	case n.reads <- r:
	case <-ctx.Done():
		return 0, errNotLeader
	case <-n.ended:
		return 0, n.over()
	}
	select {
	case a := <-r.answer:
		return a.index, a.err
	case <-ctx.Done():
		return 0, errNotLeader
	case <-n.ended:
		return 0, n.over()
	}
}

// confirm answers reads, all that wait at a time together. It ends with the node.
func (n *Node) confirm() {
	var ready barrier
	for {
		var waiting []readRequest
		select {
		case r := <-n.reads:
			waiting = append(waiting, r)
		case <-n.ended:
			return
		}
		for more := true; more; {
			select {
			case r := <-n.reads:
				waiting = append(waiting, r)
			default:
				more = false
			}
		}
		a := readAnswer{}
		if ready, a.err = n.lead(ready); a.err == nil {
			a.index = n.fsm.applied.load()
		}
		for _, r := range waiting {
			r.answer <- a
		}
	}
}

// A barrier is the newest that has passed: everything before it is applied. The entries after it, in its term, are
// commands and configurations, which the fsm sees: nobody else makes barriers, and a no-op begins a term.
type barrier struct{ term, index uint64 }

// lead returns nil if this node was the leader after the call began, and its store has everything that any store had
// when the call began.
//
// That is more than what was acknowledged. A follower may apply a command before the leader does, and whoever has read
// it there must not read, later and at a third node, what was before it. But no node applies a command before the
// leader's commit index has reached it. So the leader applies everything up to its commit index.
//
// Commands of earlier terms are in the store once a barrier of this term has passed; a passed barrier is also proof of
// leadership. Later calls of the term ask the other nodes for their terms. A leader of a later term has the votes of a
// majority, which have its term since before they voted; so if a majority still has this term, there was none when the
// call began.
//
// VerifyLeader of raft asks too, but counts every answer that arrives after the call, even to messages sent long
// before. A process that was stopped and continues could believe an answer from before a new leader's election. A lease
// depends on clocks.
func (n *Node) lead(ready barrier) (barrier, error) {
	term := n.raft.CurrentTerm()
	if n.raft.State() != raft.Leader || n.raft.CurrentTerm() != term {
		return ready, errNotLeader
	}
	if ready.term != term {
		f := n.raft.Barrier(n.opts.Election)
		switch err := n.await(context.Background(), f); {
		case errors.Is(err, ErrClosed):
			return ready, err
		case err != nil:
			return ready, errNotLeader
		}
		if n.raft.CurrentTerm() != term { // the barrier may be of a later term
			return ready, errNotLeader
		}
		index, ok := f.(raft.IndexFuture)
		if !ok {
			return ready, fmt.Errorf("barrier of type %T", f)
		}
		return barrier{term, index.Index()}, nil
	}
	committed := n.raft.CommitIndex()
	if !n.majorityHasTerm(term) {
		return ready, errNotLeader
	}
	if committed <= ready.index {
		return ready, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), n.opts.Election)
	defer cancel()
	if err := n.fsm.seen.wait(ctx, committed, n.ended); err != nil {
		return barrier{}, errNotLeader // the next call makes a barrier, in case that this entry is never seen
	}
	return ready, nil
}

// await returns the error of a future of raft. It ends early with the error of ctx, or with ErrClosed: what waits in
// raft's queues when the node closes or fails is never answered.
func (n *Node) await(ctx context.Context, f raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-n.ended:
		return n.over()
	}
}

// majorityHasTerm asks the voters for their terms.
func (n *Node) majorityHasTerm(term uint64) bool {
	servers := n.servers()
	ctx, cancel := context.WithTimeout(context.Background(), n.opts.Election)
	defer cancel() // ends requests whose answers are not needed
	voters, same := 0, 0
	answers := make(chan bool, len(servers))
	for _, s := range servers {
		switch {
		case s.Suffrage != raft.Voter:
			continue
		case s.ID == raft.ServerID(n.opts.ID):
			same++
		default:
			go func() {
				got, err := n.client.term(ctx, string(s.Address))
				answers <- err == nil && got == term
			}()
		}
		voters++
	}
	for asked := voters - same; asked > 0 && same <= voters/2; asked-- {
		select {
		case ok := <-answers:
			if ok {
				same++
			}
		case <-n.ended:
			return false
		}
	}
	return same > voters/2 && n.raft.CurrentTerm() == term
}
