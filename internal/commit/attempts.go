package commit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bloomkv/bloomkv/internal/step"
)

// ErrConflict means that other writes changed what a transaction had read, at each of its attempts.
var ErrConflict = errors.New("conflict")

const (
	maxAttempts  = 64
	freeAttempts = 3 // that wait for nobody
)

// Attempts calls attempt until it has committed or fails, ctx ends, or the error matches ErrConflict. Later attempts
// have a turn, which attempt must end, and return how long they read, if timed is true.
func (w *Writer) Attempts(
	ctx context.Context, attempt func(turn *Turn, timed bool) (read time.Duration, committed bool, err error),
) error {
	var took time.Duration // to read, once it is measured
	for n := 1; ; n++ {
		err := ctx.Err()
		var turn *Turn
		switch {
		case err != nil || n <= freeAttempts:
		case took < MaxTurn:
			turn, err = w.Turn(ctx)
		default: // a turn would end before the attempt does: a random pause gets those that conflict out of step
			step.Pause(ctx, rand.N(MaxTurn))
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		w.attempts.Add(1)
		read, committed, err := attempt(turn, n >= freeAttempts)
		if err != nil || committed {
			return err
		}
		w.conflicts.Add(1)
		took = read
		if n == maxAttempts {
			return fmt.Errorf("bloomkv: update: %w after %d attempts", ErrConflict, n)
		}
	}
}
