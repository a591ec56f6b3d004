package debug

import (
	"context"
	"time"
)

// A cached value is made by one request at a time, and shown to all until it is too old. It is safe for concurrent use.
type cached[T any] struct {
	turn chan *made[T] // has the value while no request uses it
}

type made[T any] struct {
	value T
	until time.Time
}

func newCached[T any]() cached[T] {
	c := cached[T]{turn: make(chan *made[T], 1)}
	c.turn <- &made[T]{}
	return c
}

// get returns the value. If it is too old, get calls fresh for another one, and for the time until which that may be
// shown. It returns the error of ctx if ctx is done before its turn comes.
func (c *cached[T]) get(ctx context.Context, fresh func() (T, time.Time)) (T, error) {
	select {
	case m := <-c.turn:
		defer func() { c.turn <- m }()
		if time.Now().After(m.until) {
			m.value, m.until = fresh()
		}
		return m.value, nil
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
