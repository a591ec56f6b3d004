package tree

import (
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/step"
)

// published is what readers see of the writes: all up to a sequence, and their newest mark.
type published struct {
	visible atomic.Uint64            // the newest sequence visible to readers
	newest  atomic.Pointer[markPair] // nil without a mark; stored before the mark's sequence becomes visible
	durable atomic.Pointer[batch.Mark]
}

// NewestSeq returns the newest sequence visible to readers. A reader loads its state first: a state older than the
// sequence lacks only what is newer than the call. In the other order, a compaction could have dropped the version
// that an older sequence needs.
func (p *published) NewestSeq() ikey.Seq {
	step.At("sequence: read")
	seq := ikey.Seq(p.visible.Load())
	step.At("sequence: known")
	return seq
}

// Publish makes all writes up to seq visible to readers.
func (p *published) Publish(seq ikey.Seq) {
	if step.Scheduled {
		step.Assert(uint64(seq) >= p.visible.Load(), "a sequence is published after a newer one")
	}
	p.visible.Store(uint64(seq))
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
func (p *published) SetMark(m batch.Mark) {
	pair := &markPair{mark: m}
	if last := p.newest.Load(); last != nil {
		pair.before = last.mark
	}
	p.newest.Store(pair)
}

// Mark returns the newest visible mark. Its bytes must not be changed.
func (p *published) Mark() batch.Mark {
	pair := p.newest.Load() // before the sequence: then that of the mark before is visible in any case
	return pair.at(ikey.Seq(p.visible.Load()))
}

// markedSeq returns the newest visible sequence, and the mark that a reader at it sees.
func (p *published) markedSeq() (ikey.Seq, batch.Mark) {
	for {
		pair := p.newest.Load()
		step.At("tree: mark")
		seq := p.NewestSeq()
		if p.newest.Load() == pair { // else a mark between the two may be missed
			return seq, pair.at(seq)
		}
	}
}

// DurableMark returns the newest mark that is known to be on stable storage, with all writes up to it. Its bytes must
// not be changed.
func (p *published) DurableMark() batch.Mark {
	if m := p.durable.Load(); m != nil {
		return *m
	}
	return batch.Mark{}
}

// Synced records that all writes up to the newest visible sequence are durable. No goroutine may write meanwhile.
func (p *published) Synced() {
	if pair := p.newest.Load(); pair != nil {
		p.raiseDurable(&pair.mark)
	}
}

func (p *published) raiseDurable(m *batch.Mark) {
	for {
		last := p.durable.Load()
		if last != nil && last.Seq >= m.Seq || p.durable.CompareAndSwap(last, m) {
			return
		}
	}
}
