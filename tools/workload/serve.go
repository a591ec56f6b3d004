package workload

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/bloomkv/bloomkv/internal/words"
)

// A Mix gives the share of each operation, in percent, and the choice of keys.
type Mix struct {
	Name     string
	Read     int    // looks up a record
	Update   int    // puts another version of a record
	Insert   int    // puts the next pair of the set
	Scan     int    // reads 1 to ScanMost entries from a record on, uniformly distributed
	Modify   int    // looks up a record and puts another version of it
	ScanMost int    // see Scan
	Choice   Choice // of records: Uniform, Zipfian, or Latest
}

// YCSB returns a workload of the Yahoo! Cloud Serving Benchmark, by its letter A to F: Cooper, Silberstein, Tam,
// Ramakrishnan, Sears, "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010. The set and the phase determine its
// records and the number of requests.
func YCSB(letter byte) (Mix, error) {
	m, ok := map[byte]Mix{
		'a': {Name: "ycsb-a", Read: 50, Update: 50, Choice: Zipfian},
		'b': {Name: "ycsb-b", Read: 95, Update: 5, Choice: Zipfian},
		'c': {Name: "ycsb-c", Read: 100, Choice: Zipfian},
		'd': {Name: "ycsb-d", Read: 95, Insert: 5, Choice: Latest},
		'e': {Name: "ycsb-e", Scan: 95, ScanMost: 100, Insert: 5, Choice: Zipfian},
		'f': {Name: "ycsb-f", Read: 50, Modify: 50, Choice: Zipfian},
	}[letter|0x20]
	if !ok {
		return m, fmt.Errorf("no YCSB workload %s, want A..F", words.Quoted(string(letter)))
	}
	return m, nil
}

// Inserts returns the number of pairs that a phase of ops operations inserts.
func (m Mix) Inserts(ops int) int { return ops/100*m.Insert + min(ops%100, m.Insert) }

// operation is one kind of operation of a mix.
type operation uint8

const (
	read operation = iota
	update
	insert
	scan
	modify
)

// served is one operation of a chunk of Serve.
type served struct {
	what    operation
	limit   int    // scan: entries asked for
	version uint32 // update, modify: version to put; else 0
	oldest  uint32 // read, modify: oldest version that may be read
}

// serving holds, for a worker, the operations of a chunk of Serve. The worker's counts hold the number of answers to
// each.
type serving struct {
	all     []served
	records int      // records in the store before the chunk
	zipf    Zipf     // over that number of records
	later   []uint32 // scratch: versions of a pair that the chunk puts later
}

// pick chooses one of the records in the store.
func (w *worker) pick(r *rand.Rand) int {
	c := &w.run.chooser
	switch c.choice {
	case Uniform:
		return r.IntN(w.serve.records)
	case Latest:
		return w.serve.records - 1 - w.serve.zipf.Next(r)
	default:
		for {
			if i := c.perm.At(c.zipf.Next(r)); i < w.serve.records {
				return i
			}
		}
	}
}

// prepareServe decides the operations of a chunk and records in the ledger what they will put. Inserts use the next
// numbers. A pair that the chunk inserts can be read by later chunks only.
func (w *worker) prepareServe(first, n int) {
	r, s, ledger := w.run, &w.serve, w.run.phase.Ledger
	mix := &r.phase.Mix
	s.all = s.all[:0]
	if records := ledger.Records(); records != s.records {
		s.records = records
		// cannot fail: the arguments were valid before, and records only grow
		s.zipf, _ = NewZipf(records, skew)
	}
	dice := w.dice.seeded(r.phase.Seed, first)
	for i := range n {
		at := position(r.phase.Seed, first+i)
		var one served
		for _, share := range [...]struct {
			what    operation
			percent int
		}{{read, mix.Read}, {update, mix.Update}, {insert, mix.Insert}, {scan, mix.Scan}, {modify, mix.Modify}} {
			if one.what = share.what; at < share.percent {
				break
			}
			at -= share.percent
		}
		var pick int
		if one.what == insert {
			pick = ledger.insert()
		} else {
			pick = w.pick(dice)
		}
		if one.what == read || one.what == modify {
			one.oldest = ledger.oldest(pick, w.id) // before a version of this operation begins
		}
		switch one.what {
		case update, modify:
			one.version = ledger.begin(pick, w.id)
		case scan:
			one.limit = 1 + dice.IntN(mix.ScanMost)
		default:
		}
		w.picks, s.all = append(w.picks, pick), append(s.all, one)
		w.requests.Keys = r.set.AppendKey(w.requests.Keys, pick)
		if one.what != read && one.what != scan {
			w.requests.Values = r.set.AppendVersion(w.requests.Values, pick, one.version)
		}
		w.requests.end()
	}
}

// serveOne runs operation i of a chunk.
func (w *worker) serveOne(i int) error {
	key, store, one := w.requests.key(i), w.run.store, &w.serve.all[i]
	switch one.what {
	case update, insert:
		w.counts = append(w.counts, 0)
		return store.Put(key, w.requests.value(i))
	case scan:
		return w.scan(key, one.limit)
	default:
		out, found, err := store.AppendGet(w.answers.Values, key)
		w.answers.Values = out
		if !found {
			w.counts = append(w.counts, 0)
			return err
		}
		w.answers.end()
		w.counts = append(w.counts, 1)
		if err == nil && one.what == modify {
			err = store.Put(key, w.requests.value(i))
		}
		return err
	}
}

// checkServe checks the answers of a chunk in the order of its operations, and records in the ledger what was put.
func (w *worker) checkServe() {
	ledger := w.run.phase.Ledger
	answer := 0
	for i, one := range w.serve.all {
		pick, count := w.picks[i], w.counts[i]
		switch one.what {
		case read, modify:
			if count == 0 {
				w.wrong("key %s is not found", w.requests.key(i))
			} else {
				w.checkVersion(w.requests.key(i), w.answers.value(answer), pick, one.oldest)
			}
		case scan:
			w.checkServedScan(i, answer, count)
		case insert:
			ledger.inserted(pick)
		default:
		}
		if one.version > 0 {
			ledger.end(pick, one.version)
		}
		answer += count
	}
}

// checkVersion checks that value is one of the versions of pair i that may have been read.
func (w *worker) checkVersion(key, value []byte, i int, oldest uint32) {
	var newest uint32
	newest, w.serve.later = w.run.phase.Ledger.newest(w.serve.later[:0], i, w.id)
	for version := newest; ; version-- {
		if !slices.Contains(w.serve.later, version) {
			w.scratch = w.run.set.AppendVersion(w.scratch[:0], i, version)
			if bytes.Equal(value, w.scratch) {
				return
			}
		}
		if version == oldest {
			break
		}
	}
	w.wrong("key %s: a value of %d bytes that is not one of its versions %d to %d", key, len(value), oldest, newest)
}

// checkServedScan checks the answers of operation i, count of them starting at answer. It accepts any version that
// other workers put in the meantime, because it is no longer known which versions were already overwritten when the
// scan started.
func (w *worker) checkServedScan(i, answer, count int) {
	set, ledger, limit := w.run.set, w.run.phase.Ledger, w.serve.all[i].limit
	pick, from := w.picks[i], w.requests.key(i)
	if count == 0 || count > limit || !bytes.Equal(w.answers.key(answer), from) {
		w.wrong("scan from %s: %d entries that do not start there, want 1..%d that do", from, count, limit)
		return
	}
	last := w.answers.key(answer + count - 1)
	switch {
	case count == limit:
	case set.Sorted() && count < w.serve.records-pick, !set.Sorted() && bytes.Compare(last, w.run.greatest) < 0:
		w.wrong("scan from %s: stops after %d entries at %s, want %d", from, count, last, limit)
	}
	for j := range count {
		key := w.answers.key(answer + j)
		number, ok := set.Index(key)
		switch {
		case j > 0 && bytes.Compare(w.answers.key(answer+j-1), key) >= 0:
			w.wrong("scan from %s: key %s follows %s", from, key, w.answers.key(answer+j-1))
		case !ok || !ledger.known(number):
			w.wrong("scan from %s: key %s was never put", from, key)
		case set.Sorted() && number != pick+j && number < w.serve.records:
			w.wrong("scan from %s: key %s has number %d, want %d", from, key, number, pick+j)
		default:
			oldest := uint32(0)
			if len(w.run.workers) == 1 {
				oldest = ledger.oldest(number, noWorker)
			}
			w.checkVersion(key, w.answers.value(answer+j), number, oldest)
		}
	}
}
