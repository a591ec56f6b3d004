package replica

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv"
)

// retryPause is the pause between two searches for the leader, and between two questions to a node.
const retryPause = 20 * time.Millisecond

// A proposal is a batch on its way into a command. The batch belongs to propose, and answer has space for one error.
type proposal struct {
	batch  *bloomkv.Batch
	answer chan error
}

// A command is what raft was given, with those who wait for it.
type command struct {
	result  raft.ApplyFuture
	waiting []chan error
}

// Apply replicates a batch and returns once it is applied on the leader: then a majority of the nodes has it on stable
// storage, and every linearizable read that begins later sees it. Any node takes the call and passes it on to the
// leader. Without a leader, Apply waits for one until ctx ends. The batches of concurrent callers share entries of the
// log, and each batch stays atomic. An empty batch does nothing.
//
// After an error matching ErrUnknown the batch may be applied, now or later. After every other error it is not:
// ErrBatch for a batch that sets a mark or is too large, ErrNoLeader, ErrClosed.
func (n *Node) Apply(ctx context.Context, b *bloomkv.Batch) error {
	if err := checkBatch(b); err != nil || b.Len() == 0 {
		return err
	}
	return n.onLeader(ctx,
		func() error { return n.applyHere(ctx, b) },
		func(leader string) error { return n.client.apply(ctx, leader, b) })
}

// Put stores value under key: see Apply.
func (n *Node) Put(ctx context.Context, key, value []byte) error {
	var b bloomkv.Batch
	b.Put(key, value)
	return n.Apply(ctx, &b)
}

// Delete removes key: see Apply.
func (n *Node) Delete(ctx context.Context, key []byte) error {
	var b bloomkv.Batch
	b.Delete(key)
	return n.Apply(ctx, &b)
}

func checkBatch(b *bloomkv.Batch) error {
	if b.Size() > MaxBatchSize {
		return fmt.Errorf("%w: it has %d bytes, want at most %d", ErrBatch, b.Size(), MaxBatchSize)
	}
	for op := range b.Ops() {
		if op.Kind == bloomkv.OpSetMark {
			return fmt.Errorf("%w: it sets a mark, and the mark of the store is the replica's", ErrBatch)
		}
	}
	if b.Len() == 0 { // perhaps since its only operation was too large
		if _, err := b.MarshalBinary(); err != nil {
			return fmt.Errorf("%w: %w", ErrBatch, err)
		}
	}
	return nil
}

// onLeader runs a call here, if this node is the leader, or on the leader, and again elsewhere as long as the error
// says that it reached no leader. A call that did so twice did nothing the first time.
func (n *Node) onLeader(ctx context.Context, here func() error, there func(leader string) error) error {
	for {
		if err := n.done(); err != nil {
			return err
		}
		err := errNotLeader
		if n.raft.State() == raft.Leader {
			err = here()
		} else if leader, _ := n.raft.LeaderWithID(); leader != "" && string(leader) != n.opts.Address {
			err = there(string(leader))
		}
		if !errors.Is(err, errNotLeader) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNoLeader, ctx.Err())
		case <-n.ended:
			return n.over()
		case <-time.After(retryPause):
		}
	}
}

// applyHere replicates a batch as the leader.
func (n *Node) applyHere(ctx context.Context, b *bloomkv.Batch) error {
	own := new(bloomkv.Batch) // b belongs to the caller, who may be gone before it is joined
	own.Append(b)
	if own.Len() == 0 { // an operation of b was too large: then Append takes none
		_, err := b.MarshalBinary()
		return fmt.Errorf("%w: %w", ErrBatch, err)
	}
	p := proposal{own, make(chan error, 1)}
	select {
	case n.proposals <- p:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNoLeader, ctx.Err())
	case <-n.ended: // propose may wait for complete, and that for raft, which has ended
		return n.over()
	}
	select {
	case err := <-p.answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	case <-n.ended:
		return fmt.Errorf("%w: %w", ErrUnknown, n.over())
	}
}

// propose joins batches into commands and gives these to raft. While raft syncs its log it takes none, so what arrives
// meanwhile becomes one command. It ends with the node.
func (n *Node) propose() {
	defer close(n.underway)
	for {
		var first proposal
		select {
		case first = <-n.proposals:
		case <-n.ended:
			return
		}
		runtime.Gosched() // lets those who were answered together propose together
		joined, waiting := first.batch, []chan error{first.answer}
		for more := true; more && joined.Size() < joinedBytes; {
			select {
			case p := <-n.proposals:
				joined.Append(p.batch)
				waiting = append(waiting, p.answer)
			default:
				more = false
			}
		}
		raw, err := joined.MarshalBinary() // no error: each batch was checked
		if err != nil {
			answer(waiting, err)
			continue
		}
		// After the timeout, as while raft installs a snapshot, nothing was handed over.
		c := command{n.raft.Apply(raw, n.opts.Election), waiting}
		select {
		case n.underway <- c:
		case <-n.ended:
			return
		}
	}
}

// complete passes the results of commands on, in their order, until propose ends. What is in raft's queues at its
// shutdown is never answered: then the one goroutine that runs complete stays, and those who wait for commands have
// left when Close began.
func (n *Node) complete() {
	for c := range n.underway {
		answer(c.waiting, outcome(c.result))
	}
}

func answer(waiting []chan error, err error) {
	for _, w := range waiting {
		w <- err
	}
}

// outcome waits for a command and returns its error.
func outcome(f raft.ApplyFuture) error {
	if err := f.Error(); err != nil {
		return ofEntry(err)
	}
	err, _ := f.Response().(error)
	return err
}

// ofEntry returns the error of a command, or of a change of the group, of which raft has returned err: errNotLeader if
// no log has its entry, and ErrUnknown if one may have it, as after ErrLeadershipLost or ErrRaftShutdown.
func ofEntry(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrEnqueueTimeout),
		errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return errNotLeader
	default:
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
}
