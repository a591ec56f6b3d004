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
		return Mix{}, fmt.Errorf("no YCSB workload %s, want A..F", words.Quoted(string(letter)))
	}
}

// Inserts returns the number of pairs that a phase of ops operations inserts.
func (m Mix) Inserts(ops int) int { return ops/100*m.Insert + min(ops%100, m.Insert) }
