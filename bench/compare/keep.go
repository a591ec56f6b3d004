package main

import (
	"errors"
	"sync"
)

// keeper keeps resources of lookups, such as iterators, for reuse. Each goroutine uses its own.
type keeper[T any] struct {
	open  func() (T, error)
	close func(T) error

	free sync.Pool // of *kept[T]

	mu   sync.Mutex
	made map[*kept[T]]struct{} // guarded by mu; all that are open
}

// kept is a resource with the number of changes of the store when it was made.
type kept[T any] struct {
	it      T
	changes uint64
}

// get returns a free resource that is as new as changes, or makes one. put gives it back.
func (k *keeper[T]) get(changes uint64) (*kept[T], error) {
	if l, _ := k.free.Get().(*kept[T]); l != nil {
		if l.changes == changes {
			return l, nil
		}
		k.mu.Lock()
		delete(k.made, l)
		k.mu.Unlock()
		if err := k.close(l.it); err != nil {
			return nil, err
		}
	}
	it, err := k.open()
	if err != nil {
		return nil, err
	}
	l := &kept[T]{it, changes}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.made == nil {
		k.made = make(map[*kept[T]]struct{})
	}
	k.made[l] = struct{}{}
	return l, nil
}

func (k *keeper[T]) put(l *kept[T]) { k.free.Put(l) }

// end closes all resources, including those that the pool has dropped. None may be in use.
func (k *keeper[T]) end() error {
	var errs []error
	for l := range k.made {
		errs = append(errs, k.close(l.it))
	}
	k.made, k.free = nil, sync.Pool{}
	return errors.Join(errs...)
}
