package workload

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Kind is what a phase does.
type Kind uint8

const (
	Load    Kind = iota // puts pairs of the set; done again, it overwrites them with the same
	Absent              // looks up absent keys
	Present             // looks up keys of the set
	Mixed               // looks up keys of the set, and puts some
	Seek                // goes to a key of the set and reads on from there
	Insert              // puts absent keys if they are absent, and tries the same with keys of the set: see NewPercent
	Delete              // removes the absent keys that an Insert with the same Ops, NewPercent, Choice and Seed has put
	PutSeek             // puts a pair of the set, and goes to it with a Scan of one: an iterator for each write
	Serve               // runs a Mix of operations, such as those of YCSB
	Scan                // reads all pairs in order; from here on, there is one worker
	Pop                 // takes the first pair of the store and deletes it, in a sorted set; of all, an empty store is left
	Flush               // Store.Flush, one operation
	Settle              // Store.Settle, one operation
	Compact             // Store.Compact, one operation
	Reopen              // Store.Reopen, one operation
)

// String names the kind.
func (k Kind) String() string {
	names := [...]string{
		"load", "absent", "present", "mixed", "seek", "insert", "delete", "put and seek", "serve", "scan", "pop", "flush", "settle", "compact", "reopen",
	}
	if int(k) < len(names) {
		return names[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// A Phase is a number of operations of one kind. All but Load expect that all of the set has been loaded, and nothing else;
// Serve that the records of its ledger have been.
type Phase struct {
	Name       string  // for figures; default: the kind, for Serve its mix
	Kind       Kind    // what it does
	Ops        int     // default: each key once, for Absent, Insert and Delete each absent key, but no more than there are keys; Scan and Pop: all
	Choice     Choice  // which keys, in which order; Insert and Delete take absent keys in order or shuffled, each once
	Skew       float64 // of Zipfian and Latest; default 0.99
	Batch      int     // Load: pairs set together; Absent, Present: keys looked up together, with GetMany; default: one by one
	Durable    bool    // Load: PutSync, one by one
	Records    int     // Load: only so many pairs, the first of the set; default: all
	Limit      int     // Seek: entries that one operation reads, the one it went to included; default 10
	PutPercent int     // Mixed: 0 to 100
	NewPercent int     // Insert: how many of 100 operations have an absent key; default 100, all
	Mix        Mix     // Serve
	Ledger     *Ledger // Serve: what the store holds; after the phase, what it then holds
	Workers    int     // goroutines; default 1
	Seed       uint64  // of the choice: rounds with different seeds look up in different orders
}

const (
	chunkOps   = 256     // operations between two looks at the clock, enough to make these cheap
	chunkBytes = 1 << 20 // of values at most in a chunk, unless one is larger
	aloneEvery = 8       // of so many chunks, one has its calls timed one by one
)

// withDefaults is the phase with its defaults in place, or what is wrong with it.
func (p Phase) withDefaults(set Set) (Phase, error) {
	if p.Name == "" {
		p.Name = p.Kind.String()
		if p.Kind == Serve && p.Mix.Name != "" {
			p.Name = p.Mix.Name
		}
	}
	if p.Kind > Reopen {
		return p, fmt.Errorf("no %v", p.Kind)
	}
	if p.Ops < 0 || p.Batch < 0 || p.Limit < 0 || p.Workers < 0 || p.PutPercent < 0 || p.PutPercent > 100 || p.NewPercent < 0 || p.NewPercent > 100 {
		return p, fmt.Errorf("ops %d, batch %d, limit %d, workers %d: want none below 0; put percent %d, new percent %d: want 0..100",
			p.Ops, p.Batch, p.Limit, p.Workers, p.PutPercent, p.NewPercent)
	}
	p.Workers = max(p.Workers, 1)
	if p.Limit == 0 {
		p.Limit = 10
	}
	if p.Kind == PutSeek {
		p.Limit = 1
	}
	if p.Skew == 0 {
		p.Skew = 0.99
	}
	if p.NewPercent == 0 {
		p.NewPercent = 100
	}
	switch {
	case p.Kind >= Scan && p.Workers > 1:
		return p, fmt.Errorf("%d workers, want 1", p.Workers)
	case p.Durable && (p.Kind != Load || p.Batch > 1):
		return p, errors.New("durable: want a load, one by one")
	case p.Records < 0 || p.Records > set.Len() || p.Records > 0 && p.Kind != Load && p.Kind != Serve:
		return p, fmt.Errorf("%d records, want 0..%d, to load or to serve", p.Records, set.Len())
	case p.Kind == Pop && !set.Sorted():
		return p, errors.New("which pair comes next is known of a sorted set alone")
	case p.Kind == Serve:
		return p.servable(set)
	}
	return p.withOps(set)
}

// servable is a Serve phase with its defaults in place, or what is wrong with it.
func (p Phase) servable(set Set) (Phase, error) {
	m := &p.Mix
	if least := min(m.Read, m.Update, m.Insert, m.Scan, m.Modify, m.ScanMost); least < 0 || m.Read+m.Update+m.Insert+m.Scan+m.Modify != 100 {
		return p, fmt.Errorf("a mix of %d, %d, %d, %d and %d percent: want none below 0 and 100 together", m.Read, m.Update, m.Insert, m.Scan, m.Modify)
	}
	if m.Scan > 0 && m.ScanMost == 0 {
		return p, errors.New("scans of at most 0 entries, want at least 1")
	}
	if m.Choice != Uniform && m.Choice != Zipfian && m.Choice != Latest {
		return p, fmt.Errorf("records chosen %v, want uniform, zipfian or latest", m.Choice)
	}
	if p.Ledger == nil {
		if p.Records == 0 {
			p.Records = set.Len()
		}
		p.Ledger = NewLedger(set, p.Records)
	} else if p.Ledger.set != set || p.Records > 0 && p.Records != p.Ledger.Records() {
		return p, fmt.Errorf("the ledger is of another set or has %d records, want %d", p.Ledger.Records(), p.Records)
	}
	p.Records = p.Ledger.Records()
	if p.Ops == 0 {
		p.Ops = p.Records
	}
	if p.Records == 0 && p.Ops > 0 {
		return p, errors.New("there are no records")
	}
	if need := p.Mix.Inserts(p.Ops); need > set.Len()-p.Records {
		return p, fmt.Errorf("%d records and %d pairs in the set, want %d pairs for what is inserted", p.Records, set.Len(), p.Records+need)
	}
	return p, nil
}

// withOps is the phase with its number of operations.
func (p Phase) withOps(set Set) (Phase, error) {
	n, absents := set.Len(), set.Absents()
	if p.Ops == 0 {
		switch p.Kind {
		case Absent:
			p.Ops = min(n, absents)
		case Insert, Delete:
			p.Ops = min(n, int(min(int64(absents)*100/int64(p.NewPercent), math.MaxInt)))
		case Load:
			p.Ops = cmp.Or(p.Records, n)
		default:
			p.Ops = n
		}
	}
	switch p.Kind {
	case Insert, Delete:
		inserts := placedBefore(p.Seed, p.NewPercent, p.Ops)
		if inserts > absents {
			return p, fmt.Errorf("%d absent keys, want at least %d", absents, inserts)
		}
		if p.Kind == Delete {
			p.Ops = inserts
		}
	case Scan, Pop:
		p.Ops = min(p.Ops, n)
	case Flush, Settle, Compact, Reopen:
		p.Ops = 1
	default:
	}
	return p, nil
}
