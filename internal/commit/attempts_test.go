package commit

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAttemptsThatConflictGetTurnsAndEnd lets all attempts conflict, that read for no time or for longer than a turn.
func TestAttemptsThatConflictGetTurnsAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		for took, turns := range map[time.Duration]int{0: maxAttempts - freeAttempts, 2 * MaxTurn: 0} {
			n, before := 0, s.Counts()
			err := s.Attempts(t.Context(), func(turn *Turn, timed bool) (time.Duration, bool, error) {
				defer turn.End()
				if n++; timed != (n >= freeAttempts) || (turn != nil) != (n > freeAttempts && turns > 0) {
					t.Errorf("attempt %d: timed %v, with a turn %v", n, timed, turn != nil)
				}
				return took, false, nil
			})
			if c := s.Counts(); !errors.Is(err, ErrConflict) || n != maxAttempts ||
				c.Attempts-before.Attempts != maxAttempts || c.Conflicts-before.Conflicts != maxAttempts {
				t.Errorf("%v after %d attempts, counted %+v", err, n, c)
			}
		}
		s.close(t)
	})
}
