package main

import (
	"encoding/binary"
	"errors"
	"sync"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloom"
)

// A queue holds the URLs that a crawler has still to visit, and every URL that it ever held. Its store has three kinds
// of keys:
//
//	s<URL>              a mark: this URL was pushed; it stays forever
//	q<number, 8 bytes>  an entry, with the URL as its value: this URL has still to be visited, or is being visited
//	f                   the filter as bytes, only while no process has the queue open
//
// push writes mark and entry in one batch, so a killed process leaves both or neither. pop writes nothing: an entry
// stays until done deletes it, so the next process begins with the pages that were in flight. Only these are visited
// twice.
//
// Invariant: the filter has every URL that has a mark. A URL that is only in the filter costs a lookup in the store; a
// URL that had only a mark would be visited twice. So push adds to the filter before it writes to the store, and a
// filter that may be older than the marks is never used: saving it is the last write of a process, and deleting it is
// the first of the next one. After a crash, the store has a prefix of all writes (I3 in ARCHITECTURE.md), so if it
// still has the filter, it has no later mark. Without a saved filter, openQueue adds all marks to a new one.
//
// All methods are safe for concurrent use.
type queue struct {
	db *bloomkv.DB

	mu       sync.Mutex // guards everything below
	changed  sync.Cond  // broadcast when pop may have something to return
	filter   *bloom.Filter
	next     uint64 // number of the first entry that was not popped
	end      uint64 // number of the next entry to push
	inFlight int    // pages that were popped and are not done
	err      error  // the first failed write or read; errClosed after close
	counts   counts
}

// counts are the figures of a queue since it was opened. Each push counts as sure, known or wrong.
type counts struct {
	sure    int // the filter answered "new", which is certain: no lookup
	known   int // the filter answered "maybe", and the store had the URL
	wrong   int // the filter answered "maybe", but the URL was new
	done    int // pages
	waiting int // URLs that wait for pop
}

// A page is a URL in flight.
type page struct {
	number uint64
	url    string
}

var (
	errFinished = errors.New("all pages are visited")
	errClosed   = errors.New("the queue is closed")

	filterKey = []byte("f")
	noEntry   = []byte("r") // greater than the key of every entry
)

func markKey(url string) []byte     { return append([]byte("s"), url...) }
func entryKey(number uint64) []byte { return binary.BigEndian.AppendUint64([]byte("q"), number) }
func entryNumber(key []byte) uint64 { return binary.BigEndian.Uint64(key[1:]) }

// openQueue opens the queue in a store, which it closes with close. The filter is made for the given number of URLs
// and rate. With more URLs it stays as large and lets more "maybes" through to the store: the crawl becomes slower and
// stays correct. It is therefore no bloom.Scalable, which would keep the rate and grow.
func openQueue(db *bloomkv.DB, o bloom.Options) (*queue, error) {
	filter, err := loadFilter(db, o)
	if err != nil {
		return nil, err
	}
	q := &queue{db: db, filter: filter}
	q.changed.L = &q.mu
	entries := db.Iter(bloomkv.IterOptions{Lower: entryKey(0), Upper: noEntry, KeysOnly: true})
	if entries.First() {
		q.next = entryNumber(entries.Key())
		if entries.Last() { // Close returns the error of the last move
			q.end = entryNumber(entries.Key()) + 1
		}
	}
	return q, entries.Close()
}

// loadFilter returns a filter of all marks: the saved one if it is there and has the right size, otherwise a new one.
// The store has no saved filter afterwards.
func loadFilter(db *bloomkv.DB, o bloom.Options) (*bloom.Filter, error) {
	filter, err := bloom.New(o)
	if err != nil {
		return nil, err
	}
	saved, err := db.Get(filterKey)
	switch {
	case err == nil:
		if err := db.Delete(filterKey); err != nil {
			return nil, err
		}
		var old bloom.Filter
		if old.UnmarshalBinary(saved) == nil && old.Bytes() == filter.Bytes() {
			return &old, nil
		}
	case !errors.Is(err, bloomkv.ErrNotFound):
		return nil, err
	}
	for kv, err := range db.Scan(bloomkv.IterOptions{Prefix: markKey(""), KeysOnly: true}) {
		if err != nil {
			return nil, err
		}
		filter.Add(kv.Key[len(markKey("")):])
	}
	return filter, nil
}

// push appends a URL that was never pushed before, and drops any other. For a URL that is longer than a key it returns
// ErrTooLarge and changes nothing.
func (q *queue) push(url string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return q.err
	}
	mark := markKey(url)
	if len(mark) > bloomkv.MaxKeySize {
		return bloomkv.ErrTooLarge
	}
	if !q.filter.MayContain([]byte(url)) {
		q.counts.sure++
	} else { // only the store knows
		known, err := q.db.Has(mark)
		switch {
		case err != nil:
			return q.failed(err)
		case known:
			q.counts.known++
			return nil
		}
		q.counts.wrong++
	}
	q.filter.Add([]byte(url)) // before the store: see queue
	var b bloomkv.Batch
	b.Put(mark, nil)
	b.Put(entryKey(q.end), []byte(url))
	if err := q.db.Apply(&b); err != nil {
		return q.failed(err)
	}
	q.end++
	q.changed.Broadcast()
	return nil
}

// pop returns the page that was pushed first of those that are not in flight. If all are in flight, it waits for what
// they push. The error is errFinished if nothing is left to do.
func (q *queue) pop() (page, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.err == nil {
		for kv, err := range q.db.Scan(bloomkv.IterOptions{Lower: entryKey(q.next), Upper: noEntry}) {
			if err != nil {
				return page{}, q.failed(err)
			}
			p := page{entryNumber(kv.Key), string(kv.Value)}
			q.next = p.number + 1
			q.inFlight++
			return p, nil
		}
		if q.inFlight == 0 {
			return page{}, errFinished
		}
		q.changed.Wait()
	}
	return page{}, q.err
}

// done ends the visit of a page. Its links must have been pushed: after done, no process visits the page again.
func (q *queue) done(p page) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return q.err
	}
	if err := q.db.Delete(entryKey(p.number)); err != nil {
		return q.failed(err)
	}
	q.counts.done++
	q.inFlight--
	q.changed.Broadcast()
	return nil
}

// failed ends the use of the queue with an error, also for those that wait in pop.
func (q *queue) failed(err error) error {
	if q.err == nil {
		q.err = err
	}
	q.changed.Broadcast()
	return err
}

// stop makes all later calls, and those that wait in pop, return err, or the error of an earlier failure.
func (q *queue) stop(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_ = q.failed(err)
}

// figures returns the counts.
func (q *queue) figures() counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.counts
	c.waiting = int(q.end - q.next) //nolint:gosec // these URLs are in one store
	return c
}

// close saves the filter, unless it is too large for a value, and closes the store.
func (q *queue) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var err error
	if q.err == nil {
		var saved []byte
		if saved, err = q.filter.MarshalBinary(); err == nil && len(saved) <= bloomkv.MaxValueSize {
			err = q.db.Put(filterKey, saved)
		}
		_ = q.failed(errClosed) // a push behind the saved filter would break the invariant
	}
	return errors.Join(err, q.db.Close())
}
