package commit

import (
	"bytes"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A condition on the value of one key. It is checked before its writer queues, and again when the writer's turn
// comes.
type condition struct {
	key  []byte
	hash bloomblock.SeededHash
	old  []byte // the value that key must have; nil if key must be absent

	state *tree.State // of the first check
	seq   ikey.Seq    // the first check saw all writes up to this, or more
}

// maxConditional bounds the operations, in bytes, that may precede a conditional write in its group, since the write
// searches through all of them.
const maxConditional = 64 << 10

func (when *condition) wants(value []byte, found bool) bool {
	return found == (when.old != nil) && (!found || bytes.Equal(value, when.old))
}

// holds checks the condition for the commit. ops are the operations of its group that were written before it. mu is
// held.
func (w *Writer) holds(when *condition, ops []byte) (bool, error) {
	held, decided := false, false // by ops
	for len(ops) > 0 {
		kind, key, value, rest, err := batch.NextOp(ops)
		if err != nil {
			return false, err
		}
		ops = rest
		switch {
		case kind == ikey.RangeDelete && bytes.Compare(key, when.key) <= 0 &&
			(value == nil || bytes.Compare(when.key, value) < 0):
			held, decided = when.wants(nil, false), true
		case (kind == ikey.Set || kind == ikey.Delete) && bytes.Equal(key, when.key):
			held, decided = when.wants(value, kind == ikey.Set), true
		}
	}
	if decided {
		return held, nil
	}
	if s := w.Tree.Load(); s == when.state {
		// The tables and frozen memtables are those of the first check. Only the memtable can have newer versions.
		last := ikey.Seq(0)
		if d := s.Mem.RangeDels(); d != nil {
			last = d.Covering(when.key, ikey.MaxSeq)
		}
		if _, trailer, ok := s.Mem.Get(when.key, when.hash.Mixed, ikey.MaxSeq); ok {
			last = max(last, trailer.Seq())
		}
		if last <= when.seq {
			return true, nil
		}
	}
	return w.Values.Compare(when.key, when.old)
}
