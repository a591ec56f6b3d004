package workload

import (
	"fmt"

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

// decideServe decides the operations of a chunk of Serve and records in the ledger what they will put. Inserts use the
// next numbers. A pair that the chunk inserts can be read by later chunks only.
func (w *worker) decideServe() {
	r, ledger := w.run, w.run.phase.Ledger
	mix := &r.phase.Mix
	if records := ledger.Records(); records != w.records {
		w.records = records
		// cannot fail: the arguments were valid before, and records only grow
		w.recent, _ = NewZipf(records, skew)
	}
	w.todo = w.todo[:0]
	dice := w.dice.seeded(r.phase.Seed, w.first)
	for i := range w.n {
		at := position(r.phase.Seed, w.first+i)
		var one op
		for _, share := range [...]struct {
			what    operation
			percent int
		}{{read, mix.Read}, {put, mix.Update}, {insert, mix.Insert}, {scan, mix.Scan}, {modify, mix.Modify}} {
			if one.what = share.what; at < share.percent {
				break
			}
			at -= share.percent
		}
		var pick int
		if one.what == insert {
			pick = ledger.insert()
		} else {
			pick = r.chooser.pick(dice, w.first+i, w.records, &w.recent)
		}
		switch one.what {
		case put, modify:
			one.version = ledger.begin(pick)
		case scan:
			one.limit = 1 + dice.IntN(mix.ScanMost)
		default:
		}
		w.picks, w.todo = append(w.picks, pick), append(w.todo, one)
	}
}
