package salvage

import (
	"cmp"
	"container/heap"
	"errors"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A source returns versions in the order of package ikey, once. Key and Value are valid until Next. After Next has
// returned false, Err returns nil at the end, or the error that ends the whole salvage.
type source interface {
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
	top     []position // a heap of the sources that have a version
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
	if !q.begun {
		q.begun = true
		for _, s := range q.sources {
			if s.Next() {
				q.top = append(q.top, position{s, s.Key(), s.Age()})
			} else if q.err = s.Err(); q.err != nil {
				return false
			}
		}
		heap.Init(q)
		return len(q.top) > 0
	}
	p := &q.top[0]
	if p.src.Next() {
		p.key, p.age = p.src.Key(), p.src.Age()
		heap.Fix(q, 0)
		return true
	}
	if q.err = p.src.Err(); q.err != nil {
		return false
	}
	heap.Pop(q)
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

// Len returns the number of positions. It is one of the methods that package heap needs, as are the next four.
func (q *queue) Len() int { return len(q.top) }

// Less orders positions by their versions.
func (q *queue) Less(i, j int) bool {
	a, b := &q.top[i], &q.top[j]
	return cmp.Or(ikey.Compare(a.key, b.key), cmp.Compare(a.age, b.age)) < 0
}

// Swap swaps two positions.
func (q *queue) Swap(i, j int) { q.top[i], q.top[j] = q.top[j], q.top[i] }

// Push adds a position. It is not called, since all sources join before the heap is made.
func (q *queue) Push(p any) {
	if p, ok := p.(position); ok {
		q.top = append(q.top, p)
	}
}

// Pop removes the last position.
func (q *queue) Pop() any {
	n := len(q.top) - 1
	p := q.top[n]
	q.top = q.top[:n]
	return p
}
