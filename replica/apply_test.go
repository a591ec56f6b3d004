package replica

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// Whoever has asked may be gone before its batch is a command, and use the batch again.
func TestABatchOnItsWayIsNotThatOfTheCaller(t *testing.T) {
	n := &Node{proposals: make(chan proposal), ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	var b bloomkv.Batch
	b.Put([]byte("k"), []byte("first"))
	left := make(chan error)
	go func() { left <- n.applyHere(ctx, &b) }()
	p := <-n.proposals
	cancel()
	if err := <-left; !errors.Is(err, ErrUnknown) {
		t.Errorf("apply whose context ends: %v, want ErrUnknown", err)
	}
	b.Reset()
	b.Put([]byte("x"), []byte("other"))
	for op := range p.batch.Ops() {
		if string(op.Key) != "k" || string(op.Value) != "first" {
			t.Errorf("the command puts %q: %q, want what the caller had", op.Key, op.Value)
		}
	}
	p.answer <- nil // nobody waits, and nobody who answers is held up
}

func TestAWriteUnderWayEndsWhenItsNodeFails(t *testing.T) {
	n := &Node{proposals: make(chan proposal), ended: make(chan struct{})}
	n.fsm = &fsm{node: n}
	var b bloomkv.Batch
	b.Put([]byte("k"), nil)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	got := make(chan error)
	go func() { got <- n.applyHere(ctx, &b) }()
	<-n.proposals
	n.end(syscall.EIO)
	if err := <-got; !errors.Is(err, ErrUnknown) || !errors.Is(err, ErrClosed) || !errors.Is(err, syscall.EIO) {
		t.Errorf("apply: %v, want ErrUnknown, ErrClosed and the reason", err)
	}
}

// propose may wait for raft for ever when a node fails, and what was not applied before never is.
func TestACallThatWaitsEndsWhenItsNodeFails(t *testing.T) {
	n := &Node{proposals: make(chan proposal), ended: make(chan struct{})}
	n.fsm = &fsm{node: n}
	n.end(syscall.EIO)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	if err := n.applyHere(ctx, sized(t, 100)); !errors.Is(err, ErrClosed) || !errors.Is(err, syscall.EIO) {
		t.Errorf("apply: %v, want ErrClosed and the reason", err)
	}
	if err := n.awaitApplied(ctx, 1); !errors.Is(err, ErrClosed) || !errors.Is(err, syscall.EIO) {
		t.Errorf("a read: %v, want ErrClosed and the reason", err)
	}
}

// sized returns a batch of the given size.
func sized(t *testing.T, size int) *bloomkv.Batch {
	t.Helper()
	var b bloomkv.Batch
	b.Put([]byte("k"), make([]byte, size))
	value := 2*size - b.Size() // the header is as large as with this one
	b.Reset()
	b.Put([]byte("k"), make([]byte, value))
	if b.Size() != size {
		t.Fatalf("a batch of %d bytes, want %d", b.Size(), size)
	}
	return &b
}

func TestBatchesAreJoinedUpToABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.open("a", true)
		g.put("a", "k", "v") // so that it leads
		for _, c := range []struct{ sizes, want []int }{
			{[]int{100, 100, 100}, []int{3}},
			{[]int{joinedBytes - 1, 100, 100}, []int{2, 1}},
			{[]int{joinedBytes, 100}, []int{1, 1}},
			{[]int{3 * joinedBytes, 3 * joinedBytes}, []int{1, 1}},
		} {
			n := &Node{
				raft: g.node("a").raft, proposals: make(chan proposal, len(c.sizes)), underway: make(chan command, 64),
				ended: make(chan struct{}),
			}
			n.opts.Election = testkit.Patience // what raft has to take a command
			for _, size := range c.sizes {
				n.proposals <- proposal{sized(t, size), make(chan error, 1)}
			}
			n.running.Go(n.propose)
			var got []int
			for answered := 0; answered < len(c.sizes); {
				c := <-n.underway
				testkit.Must(t, c.result.Error())
				got = append(got, len(c.waiting))
				answered += len(c.waiting)
			}
			n.end(nil)
			n.running.Wait()
			if !slices.Equal(got, c.want) {
				t.Errorf("batches of %d bytes: commands of %d, want %d", c.sizes, got, c.want)
			}
		}
	})
}

func TestACallThatNobodyTakesHasDoneNothing(t *testing.T) {
	n := &Node{
		proposals: make(chan proposal), reads: make(chan readRequest), ended: make(chan struct{}),
	}
	var b bloomkv.Batch
	b.Put([]byte("k"), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.applyHere(ctx, &b); !errors.Is(err, ErrNoLeader) || errors.Is(err, ErrUnknown) {
		t.Errorf("a write whose context has ended: %v, want ErrNoLeader", err)
	}
	if _, err := n.readIndex(ctx); !errors.Is(err, errNotLeader) {
		t.Errorf("a read whose context has ended: %v, want errNotLeader", err)
	}
	n.end(nil)
	if err := n.applyHere(t.Context(), &b); !errors.Is(err, ErrClosed) || errors.Is(err, ErrUnknown) {
		t.Errorf("a write to a closed node: %v, want ErrClosed", err)
	}
	if _, err := n.readIndex(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("a read of a closed node: %v, want ErrClosed", err)
	}
}

func TestABatchIsNoLargerThanTheLimit(t *testing.T) {
	for size, want := range map[int]error{MaxBatchSize: nil, MaxBatchSize + 1: ErrBatch} {
		if err := checkBatch(sized(t, size)); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", size, err, want)
		}
	}
}

func TestANodeFetchesNothingFromItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.open("a", true)
		g.put("a", "k", "v")
		n := g.node(g.leader())
		if got := n.sources(); len(got) > 0 {
			t.Errorf("the only node fetches from %q", got)
		}
		g.closeNode("a")
		if err := n.Transfer(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("a transfer from a closed node: %v, want ErrClosed", err)
		}
	})
}
