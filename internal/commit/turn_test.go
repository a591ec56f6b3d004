package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

// TestACommitThatATurnDelayedComesBeforeTheNextTurn lets turns and commits wait for a turn and gives up one wait. The
// others come in their order, and each turn records how many groups there were before.
func TestACommitThatATurnDelayedComesBeforeTheNextTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		first, err := s.Turn(t.Context())
		must(t, err)
		came := make(chan string, 8)
		wait := func(ctx context.Context, name string) {
			go func() {
				turn, err := s.Turn(ctx)
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("turn %s: %v, want the context's error", name, err)
				}
				came <- fmt.Sprintf("%s, ended %v, after %d groups", name, err != nil, s.Counts().Groups)
				turn.End()
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait(ctx, "a")
		wait(t.Context(), "b")
		wait(t.Context(), "c")
		for range 2 {
			go func() {
				if err := s.Commit(put("k", "v"), 1, false); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if n := s.Counts().Groups; len(came) != 1 || n != 0 {
			t.Errorf("in the first turn: %d waits have ended, %d groups are committed, want 1 and none", len(came), n)
		}
		first.End()
		first.End() // does nothing
		synctest.Wait()
		close(came)
		var got []string
		for turn := range came {
			got = append(got, turn)
		}
		want := []string{
			"a, ended true, after 0 groups", "b, ended false, after 1 groups", "c, ended false, after 1 groups",
		}
		if !slices.Equal(got, want) {
			t.Errorf("turns %q, want %q", got, want)
		}
		if q := &s.queue; q.leading || len(q.turns)+len(q.waiting) > 0 {
			t.Errorf("at the end %d turns and %d commits wait", len(q.turns), len(q.waiting))
		}
		s.close(t)
	})
}

// TestATurnThatIsGrantedToNobodyIsHandedOn grants turns to callers whose context has ended: select chooses one of both.
func TestATurnThatIsGrantedToNobodyIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no turn ends by itself
		s := newStore(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 64 {
			turn, _ := s.Turn(ctx)
			turn.End()
			if s.queue.leading {
				t.Fatalf("the turn lasts; granted: %v", turn != nil)
			}
		}
		s.close(t)
	})
}
