//go:build schedule

package tree

import (
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func locked(mu interface {
	TryLock() bool
	Unlock()
},
) bool {
	ok := mu.TryLock()
	if ok {
		mu.Unlock()
	}
	return !ok
}

// A reader of the list that does not find a pin has no version newer than the pin.
func TestAPinTakesItsSequenceUnderTheLockOfTheList(t *testing.T) {
	tree, _ := newTree(t, vfstest.NewMem())
	tree.Publish(3)
	reads := 0
	off := step.On("sequence: read", func() {
		reads++
		if !locked(&tree.snapshots.mu) || !locked(&tree.mu) {
			t.Error("the sequence of a pin is read without a lock")
		}
	})
	p, err := tree.Pin()
	must(t, err)
	if got := tree.Pinned(); reads != 1 || len(got) != 1 || got[0] != 3 || p.Seq != 3 {
		t.Errorf("a pin at %d after %d readings, the list has %v, want 3", p.Seq, reads, got)
	}
	off()

	// A pin that waits for the list includes what becomes visible while the list is locked.
	tree.snapshots.mu.Lock()
	taken := make(chan *Pin)
	go func() {
		p, err := tree.Pin()
		if err != nil {
			t.Error(err)
		}
		taken <- p
	}()
	for !locked(&tree.mu) { // the other goroutine has it, and waits for the list
		time.Sleep(time.Millisecond)
	}
	tree.Publish(4)
	tree.snapshots.mu.Unlock()
	if late := <-taken; late.Seq != 4 {
		t.Errorf("a pin at %d, want 4, which was visible before the pin was in the list", late.Seq)
	}
}

func TestWhatIsRecordedAndItsStateAreTakenBetweenTwoEdits(t *testing.T) {
	tree, _ := newTree(t, vfstest.NewMem())
	held := false
	defer step.On("tree: hold", func() { held = locked(&tree.editMu) })()
	recorded, s := tree.Recorded()
	if !held {
		t.Error("the state is taken without the lock of edits")
	}
	if s.Version != recorded.Version {
		t.Error("the state is of another version than what is recorded")
	}
	tree.Release(s)
}

// TestAPinReadsSequenceAndMarkTogether sets a mark each time when a pin has read the sequence.
func TestAPinReadsSequenceAndMarkTogether(t *testing.T) {
	tree, _ := newTree(t, vfstest.NewMem())
	next, left := ikey.Seq(1), 3
	defer step.On("sequence: known", func() {
		if left > 0 {
			left--
			tree.SetMark(batch.Mark{Seq: next, Bytes: []byte{byte(next)}})
			tree.Publish(next)
			next++
		}
	})()
	p, err := tree.Pin()
	must(t, err)
	if p.Mark.Seq != p.Seq || p.Seq != 3 {
		t.Errorf("the pin at sequence %d has the mark of sequence %d, want both 3", p.Seq, p.Mark.Seq)
	}
}

// TestAMomentHasTheStateOfItsSequence publishes a sequence in another state between the two loads of Now.
func TestAMomentHasTheStateOfItsSequence(t *testing.T) {
	tree, _ := newTree(t, vfstest.NewMem())
	once := true
	defer step.On("tree: now", func() {
		if once {
			once = false
			tree.Freeze(nil, 0, batch.Mark{}, 1<<16)
			tree.Publish(1)
		}
	})()
	now, err := tree.Now()
	must(t, err)
	if now.Seq != 1 || now.State != tree.Load() {
		t.Errorf("sequence %d, in the present state: %v; want 1, true", now.Seq, now.State == tree.Load())
	}
	tree.Release(now.State)
}
