package commit

import (
	"bytes"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/memtable"
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
	// While the state is that of the first check, only the memtable can have newer versions.
	if s := w.Tree.Load(); s == when.state && !newer(s.Mem, when.key, when.hash, when.seq) {
		return true, nil
	}
	return w.Values.Compare(when.key, when.old)
}

// newer reports whether a memtable has a version of key, or a range tombstone over it, that is newer than since.
func newer(mem *memtable.Table, key []byte, hash bloomblock.SeededHash, since ikey.Seq) bool {
	if mem.RangeDels().Covering(key, ikey.MaxSeq) > since {
		return true
	}
	_, trailer, ok := mem.Get(key, hash.Mixed, ikey.MaxSeq)
	return ok && trailer.Seq() > since
}
