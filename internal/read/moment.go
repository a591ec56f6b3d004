package read

import (
	"bytes"
	"errors"

	"github.com/bloomkv/bloomkv/internal/tree"
)

// The calls below read a moment whose state the caller holds. Their error is ErrClosed after the store was closed.

// AppendGetIn does what AppendGet does, as of a moment.
func (r *Reader) AppendGetIn(dst, key []byte, m tree.Moment) ([]byte, error) {
	var l lookup
	found, err := l.followIn(r, key, m)
	if found {
		dst, err = l.appendValue(r, dst)
	}
	l.end(r, key, AsOf{Seq: m.Seq})
	if err == nil && !found {
		err = ErrNotFound
	}
	return dst, err
}

// HasIn does what Has does, as of a moment.
func (r *Reader) HasIn(key []byte, m tree.Moment) (bool, error) {
	var l lookup
	found, err := l.followIn(r, key, m)
	l.end(r, key, AsOf{Seq: m.Seq})
	return found, err
}

// followIn looks up the version of key as of a moment, like follow. end must follow.
func (l *lookup) followIn(r *Reader, key []byte, m tree.Moment) (bool, error) {
	h := r.Hash(key)
	l.guard, l.inside = r.tree.Domain.Enter(), true // for cached blocks; the state is held
	if r.tree.Load() == nil {
		return false, tree.ErrClosed
	}
	maybe, deleted := filtered(m.State, key, h.Mixed, m.Seq)
	if deleted {
		l.cost.memtableHit = true
		return false, nil
	}
	if maybe {
		if value, live, decided := inMemory(m.State, key, h.Mixed, m.Seq); decided {
			l.cost.memtableHit = true
			l.value, l.state = value, m.State
			return live, nil
		}
	}
	var room [8]candidate
	candidates := candidatesIn(m.State, room[:0], key, h, m.Seq, &l.cost)
	for i := range candidates {
		found, decided, err := l.search(r, &candidates[i], key, h, m.Seq)
		if err != nil || decided {
			return found, err
		}
	}
	return false, nil
}

// OpenIn does what Open does, as of a moment.
func (r *Reader) OpenIn(lower, upper []byte, keysOnly bool, m tree.Moment) (*Cursor, error) {
	m.State.Hold()
	if r.tree.Load() == nil {
		r.tree.Release(m.State)
		return nil, tree.ErrClosed
	}
	return r.cursor(lower, upper, keysOnly, m), nil
}

// SameKey reports whether key has the same value at two moments, or none at both.
func (r *Reader) SameKey(key []byte, a, b tree.Moment) (bool, error) {
	var roomA, roomB [128]byte
	inA, errA := r.AppendGetIn(roomA[:0], key, a)
	inB, errB := r.AppendGetIn(roomB[:0], key, b)
	absentA, absentB := errors.Is(errA, ErrNotFound), errors.Is(errB, ErrNotFound)
	switch {
	case errA != nil && !absentA:
		return false, errA
	case errB != nil && !absentB:
		return false, errB
	default:
		return absentA == absentB && bytes.Equal(inA, inB), nil
	}
}

// SameRange reports whether the keys in [lower, upper) are the same at two moments, with the same values. A nil upper
// means no end.
func (r *Reader) SameRange(lower, upper []byte, a, b tree.Moment) (same bool, err error) {
	inA, err := r.OpenIn(lower, upper, false, a)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, inA.Close()) }()
	inB, err := r.OpenIn(lower, upper, false, b)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, inB.Close()) }()
	for {
		moreA, moreB := inA.Next(), inB.Next()
		if err := errors.Join(inA.Err(), inB.Err()); err != nil {
			return false, err
		}
		if !moreA || !moreB {
			return moreA == moreB, nil
		}
		if !bytes.Equal(inA.Key(), inB.Key()) || !bytes.Equal(inA.Value(), inB.Value()) {
			return false, nil
		}
	}
}
