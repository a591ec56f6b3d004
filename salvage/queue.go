package salvage

import (
	"cmp"
	"errors"
	"slices"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A source returns versions in the order of package ikey, once: First, then Next until one returns false. Then Err
// returns nil at the end, or the error that ends the whole salvage. Key and Value are valid until Next.
type source interface {
	First() bool
	Next() bool
	Key() ikey.Key
	Value() []byte
	Err() error
	Close() error
	// Age orders equal versions of different sources: the version of the lower age comes first.
	Age() int
}

// A queue merges sources. A merge.Iter would not do: it orders equal versions by their sources, but here the order
// of two sources depends on the tables they have reached.
type queue struct {
	sources []source
	top     []position // of the sources that have a version, in order
	begun   bool
	err     error
}

// A position is the version that a source has reached.
type position struct {
	src source
	key ikey.Key
	age int
}

func (q *queue) add(s source) { q.sources = append(q.sources, s) }

// next moves to the next version of all sources.
func (q *queue) next() bool {
	move, step := q.sources, source.First
	if q.begun {
		move, step = []source{q.top[0].src}, source.Next
		q.top = slices.Delete(q.top, 0, 1)
	}
	q.begun = true
	for _, s := range move {
		if !step(s) {
			if q.err = s.Err(); q.err != nil {
				return false
			}
			continue
		}
		p := position{s, s.Key(), s.Age()}
		i, _ := slices.BinarySearchFunc(q.top, p, func(a, b position) int {
			return cmp.Or(ikey.Compare(a.key, b.key), cmp.Compare(a.age, b.age))
		})
		q.top = slices.Insert(q.top, i, p)
	}
	return len(q.top) > 0
}

func (q *queue) key() ikey.Key { return q.top[0].key }
func (q *queue) value() []byte { return q.top[0].src.Value() }

// close closes all sources.
func (q *queue) close() error {
	var errs []error
	for _, s := range q.sources {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
