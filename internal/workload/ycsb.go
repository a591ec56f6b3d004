package workload

import "fmt"

// A Mix is how often each of some operations comes, in percent, and on which keys.
type Mix struct {
	Name     string
	Read     int    // looks a record up
	Update   int    // puts another version of a record
	Insert   int    // puts the next pair of the set
	Scan     int    // reads on from a record, 1 to ScanMost of them, uniformly
	Modify   int    // looks a record up and puts another version of it
	ScanMost int    // see Scan
	Choice   Choice // of records: Uniform, Zipfian, or Latest
}

// YCSB is a workload of the Yahoo! Cloud Serving Benchmark, by its letter A to F: Cooper, Silberstein, Tam, Ramakrishnan,
// Sears, "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010. Records and requests are those of the set and the phase.
func YCSB(letter byte) (Mix, error) {
	switch letter | 0x20 {
	case 'a':
		return Mix{Name: "ycsb-a", Read: 50, Update: 50, Choice: Zipfian}, nil
	case 'b':
		return Mix{Name: "ycsb-b", Read: 95, Update: 5, Choice: Zipfian}, nil
	case 'c':
		return Mix{Name: "ycsb-c", Read: 100, Choice: Zipfian}, nil
	case 'd':
		return Mix{Name: "ycsb-d", Read: 95, Insert: 5, Choice: Latest}, nil
	case 'e':
		return Mix{Name: "ycsb-e", Scan: 95, ScanMost: 100, Insert: 5, Choice: Zipfian}, nil
	case 'f':
		return Mix{Name: "ycsb-f", Read: 50, Modify: 50, Choice: Zipfian}, nil
	default:
		return Mix{}, fmt.Errorf("no YCSB workload %q, want A..F", letter)
	}
}

// Inserts is how many pairs a phase of so many operations puts: what the set needs beyond the records that are there.
func (m Mix) Inserts(ops int) int { return ops/100*m.Insert + min(ops%100, m.Insert) }
