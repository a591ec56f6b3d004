package workload

import (
	"bytes"
	"slices"
	"time"
)

// runChunk runs n operations, possibly 0, starting with operation first. The time of loads includes the preparation of
// their pairs, so that the store cannot work in the background while the clock is stopped; the time of other phases
// does not.
func (w *worker) runChunk(first, n int) error {
	phase, gate := &w.run.phase, w.run.gate
	if n == 0 { // wait as long as the other workers
		begin := gate.pass()
		w.busy += gate.pass().Sub(begin)
		return nil
	}
	var begin time.Time
	if phase.Kind == Load {
		begin = gate.pass()
	}
	w.prepare(first, n)
	if phase.Kind != Load {
		begin = gate.pass()
	}
	perCall := phase.perCall()
	calls := (n + perCall - 1) / perCall
	switch {
	case w.run.loops != nil:
		if err := w.loop(n); err != nil {
			return err
		}
		w.record(gate.pass().Sub(begin), n)
	case w.run.alone(first):
		looks := w.run.looks()
		for i := range calls {
			one := time.Now()
			if err := w.call(i, perCall, n, true); err != nil {
				return err
			}
			w.calls.Add(uint64(max(time.Since(one)-(looks-1)*w.run.clockCost, 0)))
		}
		cost := looks * time.Duration(calls) * w.run.clockCost
		d := max(gate.pass().Sub(begin)-w.run.waitedFor(cost), 0)
		w.busy += d
		w.alone = append(w.alone, float64(d)/float64(n))
		if phase.Kind == PutSeek {
			w.putting = append(w.putting, float64(max(w.put-time.Duration(calls)*w.run.clockCost, 0))/float64(n))
			w.put = 0
		}
	default:
		for i := range calls {
			if err := w.call(i, perCall, n, false); err != nil {
				return err
			}
		}
		w.record(gate.pass().Sub(begin), n)
	}
	w.ops += n
	w.check(n)
	return nil
}

// loop runs a chunk of n operations in one call.
func (w *worker) loop(n int) error {
	if w.run.phase.Kind == Seek {
		w.counts = slices.Grow(w.counts, n)[:n]
		return w.run.loops.LoopSeek(&w.requests, &w.answers, w.run.phase.Limit, w.counts)
	}
	w.found = slices.Grow(w.found, n)[:n]
	return w.run.loops.LoopGet(&w.requests, &w.answers, w.found)
}

// prepare picks the keys of a chunk and prepares the arguments of its calls.
func (w *worker) prepare(first, n int) {
	r := w.run
	w.requests.reset()
	w.answers.reset()
	w.picks, w.puts, w.keys = w.picks[:0], w.puts[:0], w.keys[:0]
	w.found, w.counts = w.found[:0], w.counts[:0]
	if r.phase.Kind == Serve {
		w.prepareServe(first, n)
		return
	}
	w.picks = append(w.picks, make([]int, n)...)
	r.chooser.fill(w.picks, first, w.dice)
	if r.phase.Kind == Mixed {
		rng := w.dice.seeded(r.phase.Seed+golden, first)
		for range n {
			w.puts = append(w.puts, rng.IntN(100) < r.phase.PutPercent)
		}
	}
	for i, pick := range w.picks {
		switch r.phase.Kind {
		case Absent, Insert:
			w.requests.Keys = r.set.AppendAbsent(w.requests.Keys, pick)
		default:
			w.requests.Keys = r.set.AppendKey(w.requests.Keys, pick)
		}
		switch k := r.phase.Kind; {
		case k == Load || k == PutSeek || k == Mixed && w.puts[i]:
			w.requests.Values = r.set.AppendValue(w.requests.Values, pick)
		case k == Insert:
			w.requests.Values = r.set.AppendVersion(w.requests.Values, pick%r.set.Len(), 1)
		}
		w.requests.end()
	}
	if r.phase.Kind != Load && r.phase.perCall() > 1 {
		for i := range w.picks {
			w.keys = append(w.keys, w.requests.key(i))
		}
	}
}

// call runs call i of a chunk of n operations.
func (w *worker) call(i, perCall, n int, timed bool) error {
	r := w.run
	switch kind := r.phase.Kind; {
	case perCall == 1 && (kind == Absent || kind == Present): // first, because these are the shortest calls
		return w.get(i)
	case kind == Load && perCall > 1:
		return r.store.Apply(Batch{&w.requests, i * perCall, min((i+1)*perCall, n)})
	case kind == Load && r.phase.Durable:
		return r.store.PutSync(w.requests.key(i), w.requests.value(i))
	case kind == Load || kind == Mixed && w.puts[i]:
		return r.store.Put(w.requests.key(i), w.requests.value(i))
	case perCall > 1:
		return w.getMany(i*perCall, min((i+1)*perCall, n))
	case kind == Seek:
		return w.scan(w.requests.key(i), r.phase.Limit)
	case kind == PutSeek:
		return w.putSeek(i, timed)
	case kind == Pop:
		return w.pop()
	case kind == Insert:
		stored, err := r.full.PutIfAbsent(w.requests.key(i), w.requests.value(i))
		w.found = append(w.found, stored)
		return err
	case kind == Serve:
		return w.serveOne(i)
	default:
		return w.get(i)
	}
}

func (w *worker) putSeek(i int, timed bool) error {
	key, value := w.requests.key(i), w.requests.value(i)
	var begin time.Time
	if timed {
		begin = time.Now()
	}
	if err := w.run.store.Put(key, value); err != nil {
		return err
	}
	if timed {
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

// check compares the answers of a chunk with the set.
func (w *worker) check(n int) {
	switch w.run.phase.Kind {
	case Absent:
		for i := range n {
			if w.found[i] {
				w.wrong("absent key %s has a value of %d bytes", w.requests.key(i), len(w.answers.value(i)))
			}
		}
	case Present, Mixed:
		lookup := 0
		for i := range n {
			if w.run.phase.Kind == Mixed && w.puts[i] {
				continue
			}
			if !w.found[lookup] {
				w.wrong("key %s is not found", w.requests.key(i))
			} else {
				w.checkValue(w.requests.key(i), w.answers.value(lookup), w.picks[i])
			}
			lookup++
		}
	case Seek, PutSeek, Pop:
		answer := 0
		for i, count := range w.counts {
			switch {
			case w.run.phase.Kind != Pop:
				w.checkSeek(i, answer, count)
			case count == 1:
				w.checkPair(w.answers.key(answer), w.answers.value(answer), w.picks[i])
			default:
				w.wrong("pop: %d pairs at the head, want 1 with key %s", count, w.requests.key(i))
			}
			answer += count
		}
	case Insert:
		for i := range n {
			if !w.found[i] {
				w.wrong("PutIfAbsent of key %s does not store it", w.requests.key(i))
			}
		}
	case Serve:
		w.checkServe()
	default:
	}
}

// checkSeek checks the answers of operation i, count of them starting at answer.
func (w *worker) checkSeek(i, answer, count int) {
	set, limit := w.run.set, w.run.phase.Limit
	pick := w.picks[i]
	if count == 0 || count > limit || !bytes.Equal(w.answers.key(answer), w.requests.key(i)) {
		w.wrong("seek to %s: %d entries that do not start there, want 1..%d that do", w.requests.key(i), count, limit)
		return
	}
	if want := min(limit, set.Len()-pick); set.Sorted() && count != want {
		w.wrong("seek to %s: %d entries, want %d", w.requests.key(i), count, want)
	}
	if last := w.answers.key(answer + count - 1); count < limit && !set.Sorted() && !bytes.Equal(last, w.run.greatest) {
		w.wrong("seek to %s: stops after %d entries at %s, which is not the last key", w.requests.key(i), count, last)
	}
	for j := range count {
		key := w.answers.key(answer + j)
		if j > 0 && bytes.Compare(w.answers.key(answer+j-1), key) >= 0 {
			w.wrong("seek to %s: key %s follows %s", w.requests.key(i), key, w.answers.key(answer+j-1))
		}
		w.checkPair(key, w.answers.value(answer+j), pick+j)
	}
}
