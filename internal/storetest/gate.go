package storetest

import (
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

// A Gate blocks the goroutines that pass it until it is opened.
type Gate struct {
	Come chan struct{} // receives a value for each goroutine that reaches the gate
	Open chan struct{} // closing it opens the gate
}

// NewGate returns a closed gate.
func NewGate() *Gate { return &Gate{make(chan struct{}, 64), make(chan struct{})} }

// Pass waits until the gate is open.
func (g *Gate) Pass() {
	select {
	case g.Come <- struct{}{}:
	default:
	}
	<-g.Open
}

// Wait returns when a goroutine has reached the gate.
func (g *Gate) Wait(t *testing.T, what string) {
	t.Helper()
	select {
	case <-g.Come:
	case <-time.After(testkit.Patience):
		t.Fatalf("%s: not reached within %v", what, testkit.Patience)
	}
}
