package tree

import (
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// marks holds the newest marks that batches have set.
type marks struct {
	newest  atomic.Pointer[markPair] // nil without a mark; stored before the mark's sequence becomes visible
	durable atomic.Pointer[batch.Mark]
}

// A markPair is the newest mark, and the one before it, which readers see until the sequence of the newest is visible
// (I36).
type markPair struct{ mark, before batch.Mark }

// at returns the mark that a reader at seq sees.
func (p *markPair) at(seq ikey.Seq) batch.Mark {
	switch {
	case p == nil:
		return batch.Mark{}
	case p.mark.Seq <= seq:
		return p.mark
	default:
		return p.before
	}
}

// SetMark sets the mark that readers see once its sequence is published. Its bytes must not change any more. Calls come
// one at a time, in the order of sequences, each after the sequence of the mark before was published.
func (t *Tree) SetMark(m batch.Mark) {
	p := &markPair{mark: m}
	if last := t.marks.newest.Load(); last != nil {
		p.before = last.mark
	}
	t.marks.newest.Store(p)
}

// RecoverMark sets the mark that recovery has found, if there is one, and makes it durable, unless the tree takes no
// writes.
func (t *Tree) RecoverMark(m batch.Mark) error {
	if m.Seq == 0 {
		return nil
	}
	t.SetMark(m)
	var err error
	if t.Writable() == nil {
		_, err = t.OwnManifest()
	}
	return err
}

// Mark returns the newest visible mark. Its bytes must not be changed.
func (t *Tree) Mark() batch.Mark {
	p := t.marks.newest.Load() // before the sequence: then that of the mark before is visible in any case
	return p.at(ikey.Seq(t.visible.Load()))
}

// markedSeq returns the newest visible sequence, and the mark that a reader at it sees.
func (t *Tree) markedSeq() (ikey.Seq, batch.Mark) {
	for {
		p := t.marks.newest.Load()
		seq := t.NewestSeq()
		if t.marks.newest.Load() == p { // else a mark between the two may be missed
			return seq, p.at(seq)
		}
	}
}

// DurableMark returns the newest mark that is known to be on stable storage, with all writes up to it. Its bytes must
// not be changed.
func (t *Tree) DurableMark() batch.Mark {
	if m := t.marks.durable.Load(); m != nil {
		return *m
	}
	return batch.Mark{}
}

// Synced records that all writes up to the newest visible sequence are durable. No goroutine may write meanwhile.
func (t *Tree) Synced() {
	if p := t.marks.newest.Load(); p != nil {
		t.raiseDurable(&p.mark)
	}
}

// noteDurable records that the mark of the manifest is durable, unless it is not visible yet or the manifest is that of
// an earlier use, which may not be durable: see OwnManifest. editMu is held.
func (t *Tree) noteDurable() {
	if m := t.recorded.Mark; t.manifest != nil && m.Seq > 0 && m.Seq <= ikey.Seq(t.visible.Load()) {
		t.raiseDurable(&m)
	}
}

func (t *Tree) raiseDurable(m *batch.Mark) {
	for {
		last := t.marks.durable.Load()
		if last != nil && last.Seq >= m.Seq || t.marks.durable.CompareAndSwap(last, m) {
			return
		}
	}
}
