package tree

import "github.com/bloomkv/bloomkv/internal/ikey"

// A Moment is a state of a tree and a sequence number that was visible in it. While the state is held, nothing that a
// reader at Seq sees in it changes, whatever is flushed and compacted meanwhile: no snapshot is needed for that.
type Moment struct {
	State *State // has all writes up to Seq
	Seq   ikey.Seq
}

// Now returns the present moment, whose state the caller must Release. The error is ErrClosed.
func (t *Tree) Now() (Moment, error) {
	s, seq, ok := t.HoldNow()
	if !ok {
		return Moment{}, ErrClosed
	}
	return Moment{s, seq}, nil
}
