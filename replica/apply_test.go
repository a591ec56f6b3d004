package replica

import (
	"context"
	"errors"
	"testing"

	"github.com/bloomkv/bloomkv"
)

// Whoever has asked may be gone before its batch is a command, and use the batch again.
func TestABatchOnItsWayIsNotThatOfTheCaller(t *testing.T) {
	n := &Node{proposals: make(chan proposal), stop: make(chan struct{}), failed: make(chan struct{})}
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
