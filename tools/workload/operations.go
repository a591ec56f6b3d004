package workload

import (
	"bytes"
	"slices"
	"time"
)

// An operation is what a call, or a part of one, does with a pair.
type operation uint8

const (
	read         operation = iota // looks up a pair of the set
	readAbsent                    // looks up an absent key
	scan                          // reads pairs from one of the set on
	pop                           // reads the first pair of the store and deletes it
	put                           // puts a version of a pair; this operation and those below have a value
	insert                        // puts a pair of the set that the store does not hold
	insertAbsent                  // calls PutIfAbsent with an absent key
	putScan                       // puts a pair and reads it by a scan
	modify                        // looks up a pair and puts another version of it
)

// onlyOperation has the operation of each kind of phase. Mixed has put too, and Serve the operations of its mix.
var onlyOperation = [Reopen + 1]operation{
	Load: put, Absent: readAbsent, Present: read, Mixed: read, Seek: scan, Insert: insertAbsent, PutSeek: putScan,
	Pop: pop,
}

// An op is one operation of a chunk.
type op struct {
	what    operation
	limit   int    // scan: entries asked for
	version uint32 // version to put; above 0 in Serve alone
}

// runChunks runs a chunk of each worker of a crew, from operation first on; the last ones may be empty. The time of
// loads includes the preparation of their pairs, so that the store cannot work in the background while the clock is
// stopped; the time of other phases does not.
func (r *run) runChunks(crew []*worker, first int) error {
	timed := r.loops == nil && r.alone(first)
	for i, w := range crew {
		w.first, w.timed = first+i*r.chunk, timed
		w.n = max(0, min(r.chunk, r.phase.Ops-w.first))
	}
	begin := time.Now()
	if r.phase.Kind == Load {
		r.each(crew, func(w *worker) { w.prepare(); w.err = w.operate() })
	} else {
		r.each(crew, (*worker).prepare)
		begin = time.Now()
		r.each(crew, func(w *worker) { w.err = w.operate() })
	}
	took := time.Since(begin)
	for _, w := range crew {
		if w.err != nil {
			return w.err
		}
		if timed {
			w.recordTimed(took)
		} else {
			w.record(took, w.n)
		}
		w.ops += w.n
	}
	r.each(crew, (*worker).check)
	return nil
}

// operate runs the operations of a chunk.
func (w *worker) operate() error {
	r, calls := w.run, w.numCalls()
	switch {
	case w.n == 0:
	case r.loops != nil && r.phase.Kind == Seek:
		w.counts = slices.Grow(w.counts, w.n)[:w.n]
		return r.loops.LoopSeek(&w.requests, &w.answers, r.phase.Limit, w.counts)
	case r.loops != nil:
		w.found = slices.Grow(w.found, w.n)[:w.n]
		return r.loops.LoopGet(&w.requests, &w.answers, w.found)
	case w.timed:
		looks := r.looks()
		for i := range calls {
			one := time.Now()
			if err := w.call(i); err != nil {
				return err
			}
			w.calls.Add(uint64(max(time.Since(one)-(looks-1)*r.clockCost, 0)))
		}
	default:
		for i := range calls {
			if err := w.call(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// numCalls returns the number of calls of the store in a chunk, if it does not loop.
func (w *worker) numCalls() int { return (w.n + w.perCall - 1) / w.perCall }

// prepare decides the operations of a chunk and prepares the arguments of its calls.
func (w *worker) prepare() {
	r := w.run
	w.requests.reset()
	w.answers.reset()
	w.picks, w.keys = w.picks[:0], w.keys[:0]
	w.found, w.counts = w.found[:0], w.counts[:0]
	if r.phase.Kind == Serve {
		w.decideServe()
	} else {
		w.decide()
	}
	for i, pick := range w.picks {
		what, version := w.todo[i].what, w.todo[i].version
		switch what {
		case readAbsent, insertAbsent:
			w.requests.Keys = r.set.AppendAbsent(w.requests.Keys, pick)
			pick, version = pick%r.set.Len(), 1 // a value of no pair of the set
		default:
			w.requests.Keys = r.set.AppendKey(w.requests.Keys, pick)
		}
		if what >= put {
			w.requests.Values = r.set.AppendVersion(w.requests.Values, pick, version)
		}
		w.requests.end()
	}
	if r.phase.Kind != Load && w.perCall > 1 {
		for i := range w.picks {
			w.keys = append(w.keys, w.requests.key(i))
		}
	}
}

// decide decides the operations of a chunk of another kind than Serve, which are all alike, except in Mixed.
func (w *worker) decide() {
	r := w.run
	w.picks = append(w.picks, make([]int, w.n)...)
	r.chooser.fill(w.picks, w.first, w.dice)
	w.todo = w.todo[:w.n] // as newWorker made them
	if r.phase.Kind == Mixed {
		rng := w.dice.seeded(r.phase.Seed+golden, w.first)
		for i := range w.todo {
			if w.todo[i].what = read; rng.IntN(100) < r.phase.PutPercent {
				w.todo[i].what = put
			}
		}
	}
}

// call runs call i of a chunk.
func (w *worker) call(i int) error {
	r := w.run
	if w.perCall > 1 {
		from, to := i*w.perCall, min((i+1)*w.perCall, w.n)
		if r.phase.Kind == Load {
			return r.store.Apply(Batch{&w.requests, from, to})
		}
		return w.getMany(from, to)
	}
	switch one := &w.todo[i]; one.what {
	case read, readAbsent:
		return w.get(i)
	case put, insert:
		if r.phase.Durable {
			return r.store.PutSync(w.requests.key(i), w.requests.value(i))
		}
		return r.store.Put(w.requests.key(i), w.requests.value(i))
	case scan:
		return w.scan(w.requests.key(i), one.limit)
	case putScan:
		return w.putSeek(i)
	case pop:
		return w.pop()
	case insertAbsent:
		stored, err := r.full.PutIfAbsent(w.requests.key(i), w.requests.value(i))
		w.found = append(w.found, stored)
		return err
	default: // modify
		if err := w.get(i); err != nil || !w.found[len(w.found)-1] {
			return err
		}
		return r.store.Put(w.requests.key(i), w.requests.value(i))
	}
}

func (w *worker) putSeek(i int) error {
	key, value := w.requests.key(i), w.requests.value(i)
	var begin time.Time
	if w.timed {
		begin = time.Now()
	}
	if err := w.run.store.Put(key, value); err != nil {
		return err
	}
	if w.timed {
		w.put += time.Since(begin)
	}
	return w.scan(key, 1)
}

// pop deletes the first pair of the store, if there is one.
func (w *worker) pop() error {
	if err := w.scan(nil, 1); err != nil || w.counts[len(w.counts)-1] == 0 {
		return err
	}
	return w.run.full.Delete(w.answers.key(w.answers.len() - 1))
}

// getMany looks up the keys from..to-1.
func (w *worker) getMany(from, to int) error {
	w.base = w.answers.len()
	w.end = w.base + to - from
	if err := w.run.full.GetMany(w.keys[from:to], w.take); err != nil {
		return err
	}
	for got := w.answers.len(); got < w.end; got++ {
		w.wrong("no answer for key %d of %d of GetMany", got-w.base, to-from)
		w.answers.end()
		w.found = append(w.found, false)
	}
	return nil
}

// check compares the answers of a chunk with the set, in the order of its operations, and records in the ledger of
// Serve what was put.
func (w *worker) check() {
	ledger := w.run.phase.Ledger
	answer, lookup, scanned := 0, 0, 0
	for i, one := range w.todo {
		pick, key := w.picks[i], w.requests.key(i)
		switch one.what {
		case read, readAbsent, modify:
			switch found := w.found[lookup]; {
			case found && one.what == readAbsent:
				w.wrong("absent key %s has a value of %d bytes", key, len(w.answers.value(answer)))
			case found:
				w.checkValue(key, w.answers.value(answer), pick)
			case one.what != readAbsent:
				w.wrong("key %s is not found", key)
			}
			lookup, answer = lookup+1, answer+1
		case insertAbsent:
			if !w.found[i] {
				w.wrong("PutIfAbsent of key %s does not store it", key)
			}
		case insert:
			ledger.records++
		case scan, putScan, pop:
			switch count := w.counts[scanned]; {
			case one.what != pop:
				w.checkScan(i, answer, count)
			case count == 1:
				w.checkPair(w.answers.key(answer), w.answers.value(answer), pick)
			default:
				w.wrong("pop: %d pairs at the head, want 1 with key %s", count, key)
			}
			answer += w.counts[scanned]
			scanned++
		default:
		}
		if one.version > 0 {
			ledger.put[pick] = one.version
		}
	}
}

// checkScan checks the answers of operation i, count of them starting at answer.
func (w *worker) checkScan(i, answer, count int) {
	set, ledger, limit := w.run.set, w.run.phase.Ledger, w.todo[i].limit
	pick, from, what, records := w.picks[i], w.requests.key(i), "seek to", set.Len()
	if ledger != nil {
		what, records = "scan from", ledger.records
	}
	if count == 0 || count > limit || !bytes.Equal(w.answers.key(answer), from) {
		w.wrong("%s %s: %d entries that do not start there, want 1..%d that do", what, from, count, limit)
		return
	}
	last := w.answers.key(answer + count - 1)
	switch {
	case count == limit:
	case set.Sorted() && count < records-pick, !set.Sorted() && bytes.Compare(last, w.run.greatest) < 0:
		w.wrong("%s %s: stops after %d entries at %s, which is not the last key, want %d", what, from, count, last,
			limit)
	}
	for j := range count {
		key := w.answers.key(answer + j)
		number, ok := set.Index(key)
		switch {
		case j > 0 && bytes.Compare(w.answers.key(answer+j-1), key) >= 0:
			w.wrong("%s %s: key %s follows %s", what, from, key, w.answers.key(answer+j-1))
		case !ok || number >= records:
			w.wrong("%s %s: key %s was never put", what, from, key)
		case set.Sorted() && number != pick+j:
			w.wrong("%s %s: key %s has number %d, want %d", what, from, key, number, pick+j)
		default:
			w.checkValue(key, w.answers.value(answer+j), number)
		}
	}
}
