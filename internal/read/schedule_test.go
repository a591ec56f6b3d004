//go:build schedule

package read

import (
	"testing"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/step"
)

// put writes a key to the memtable and makes it visible.
func put(r *Reader, key string) {
	seq := r.Tree.NewestSeq() + 1
	r.Tree.Load().Mem.Add([]byte(key), r.Hash([]byte(key)).Mixed, seq, ikey.Set, nil)
	r.Tree.Publish(seq)
}

// Memtables are replaced while a cursor begins. The state that the cursor reads has everything written up to its
// sequence.
func TestACursorHasAllWritesUpToItsMoment(t *testing.T) {
	for _, after := range []bool{false, true} {
		r := newReader(t)
		put(r, "k")
		exchange := func() {
			r.Tree.Freeze(nil, r.Tree.NewestSeq(), batch.Mark{}, 1<<16)
			put(r, "k")
		}
		exchanges := 0
		moment := "sequence: read"
		if after {
			moment = "sequence: known"
		}
		exchanging := false // which reads the sequence too
		off := step.On(moment, func() {
			if exchanges == 2 || exchanging {
				return
			}
			exchanges++
			exchanging = true
			exchange()
			exchanging = false
		})
		c, err := r.Open(nil, nil, false, Newest, nil)
		off()
		must(t, err)
		_, newest, ok := c.state.Mem.Get([]byte("k"), r.Hash([]byte("k")).Mixed, ikey.MaxSeq)
		if exchanges != 2 || !ok || newest.Seq() < c.seq {
			t.Errorf("after %v: %d exchanges; the cursor's memtable has a write of %d (%v), and it reads at %d",
				after, exchanges, newest.Seq(), ok, c.seq)
		}
		c.Close()
	}
}
