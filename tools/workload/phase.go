package workload

import (
	"cmp"
	"errors"
	"fmt"
)

// Kind is the kind of operations of a phase.
type Kind uint8

const (
	Load    Kind = iota // puts pairs of the set; a second load overwrites them with equal pairs
	Absent              // looks up absent keys
	Present             // looks up keys of the set
	Mixed               // looks up keys of the set and puts some of them
	Seek                // seeks a key of the set and reads on from there
	Insert              // calls PutIfAbsent with absent keys
	PutSeek             // puts a pair of the set and finds it with a Scan of one entry: an iterator for each write
	Serve               // runs a Mix of operations, such as those of YCSB; this kind and those below have one worker
	Scan                // reads all pairs in order
	Pop                 // reads the first pair of the store and deletes it; needs a sorted set
	Flush               // Store.Flush, one operation
	Settle              // Store.Settle, one operation
	Compact             // Store.Compact, one operation
	Reopen              // Store.Reopen, one operation
)

// String returns the name of the kind.
func (k Kind) String() string {
	return nameOf(k, "kind", "load", "absent", "present", "mixed", "seek", "insert", "put and seek", "serve", "scan",
		"pop", "flush", "settle", "compact", "reopen")
}

// nameOf returns the name of a value, or its number if it has none.
func nameOf[T ~uint8](value T, what string, names ...string) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("%s(%d)", what, uint8(value))
}

// A Phase is a number of operations of one kind. All kinds except Load and Serve expect a store that holds exactly the
// pairs of the set; Serve expects the records of its ledger.
//
// A Pop of all pairs checks that the store is empty afterwards.
type Phase struct {
	Name       string  // in the figures; default: the name of the kind or, for Serve, of the mix
	Kind       Kind    // what an operation does
	Ops        int     // default: as many as keys (Absent: absent keys, at most as many as keys); Scan, Pop: all
	Choice     Choice  // order of the keys; Insert uses each absent key once, InOrder or Shuffled
	Ranks      uint64  // Zipfian: seed of the order of popularity, so that phases can share it; default Seed
	Batch      int     // Load: pairs per batch; Absent, Present: keys per GetMany; default: single calls
	Durable    bool    // Load: use PutSync; not with Batch
	Records    int     // Load: number of pairs, the first of the set; default: all
	Limit      int     // Seek: entries that an operation reads, including the one that it seeks; default 10
	PutPercent int     // Mixed: share of puts, 0 to 100
	Mix        Mix     // Serve
	Ledger     *Ledger // Serve: what the store holds before the phase and, afterwards, what it then holds
	Workers    int     // goroutines; default 1
	Seed       uint64  // of the choice of keys; rounds with different seeds use different orders
}

const (
	chunkOps   = 256     // operations between two readings of the clock, so that their cost is small
	chunkBytes = 1 << 20 // maximum size of the values in a chunk, unless one value is larger
	aloneEvery = 8       // in one of this number of chunks, calls are timed one by one
)

// withDefaults returns the phase with its defaults applied, or an error if the phase is not valid.
func (p Phase) withDefaults(set Set) (Phase, error) {
	if p.Name == "" {
		p.Name = p.Kind.String()
		if p.Kind == Serve && p.Mix.Name != "" {
			p.Name = p.Mix.Name
		}
	}
	if p.Kind > Reopen {
		return p, fmt.Errorf("unknown %v", p.Kind)
	}
	if p.Ops < 0 || p.Batch < 0 || p.Limit < 0 || p.Workers < 0 || p.PutPercent < 0 || p.PutPercent > 100 {
		return p, fmt.Errorf("ops %d, batch %d, limit %d, workers %d: want 0 or more; put percent %d: want 0..100",
			p.Ops, p.Batch, p.Limit, p.Workers, p.PutPercent)
	}
	p.Workers = max(p.Workers, 1)
	p.Limit = cmp.Or(p.Limit, 10)
	if p.Kind == PutSeek {
		p.Limit = 1
	}
	switch {
	case p.Kind >= Serve && p.Workers > 1:
		return p, fmt.Errorf("%d workers, want 1 for this kind", p.Workers)
	case p.Durable && (p.Kind != Load || p.Batch > 1):
		return p, errors.New("durable: want a load without batches")
	case p.Records < 0 || p.Records > set.Len() || p.Records > 0 && p.Kind != Load && p.Kind != Serve:
		return p, fmt.Errorf("%d records, want 0..%d, in Load and Serve alone", p.Records, set.Len())
	case p.Kind == Pop && !set.Sorted():
		return p, errors.New("want a sorted set, which determines the next pair")
	case p.Kind == Serve:
		return p.servable(set)
	}
	return p.withOps(set)
}

// servable returns a Serve phase with its defaults applied, or an error if the phase is not valid.
func (p Phase) servable(set Set) (Phase, error) {
	m := &p.Mix
	if least := min(m.Read, m.Update, m.Insert, m.Scan, m.Modify, m.ScanMost); least < 0 ||
		m.Read+m.Update+m.Insert+m.Scan+m.Modify != 100 {
		return p, fmt.Errorf("a mix of %d, %d, %d, %d and %d percent: want a sum of 100 and no negative share",
			m.Read, m.Update, m.Insert, m.Scan, m.Modify)
	}
	if m.Scan > 0 && m.ScanMost == 0 {
		return p, errors.New("scans of at most 0 entries, want at least 1")
	}
	if m.Choice != Uniform && m.Choice != Zipfian && m.Choice != Latest {
		return p, fmt.Errorf("records chosen %v, want uniform, zipfian or latest", m.Choice)
	}
	if p.Ledger == nil {
		p.Ledger = NewLedger(set, cmp.Or(p.Records, set.Len()))
	} else if p.Ledger.set != set || p.Records > 0 && p.Records != p.Ledger.Records() {
		return p, fmt.Errorf("the ledger has %d records, want %d, or belongs to another set",
			p.Ledger.Records(), p.Records)
	}
	p.Records = p.Ledger.Records()
	p.Ops = cmp.Or(p.Ops, p.Records)
	if p.Records == 0 && p.Ops > 0 {
		return p, errors.New("no records to serve")
	}
	if need := p.Mix.Inserts(p.Ops); need > set.Len()-p.Records {
		return p, fmt.Errorf("%d records and %d pairs in the set, want %d pairs because of the inserts",
			p.Records, set.Len(), p.Records+need)
	}
	return p, nil
}

// withOps returns the phase with its number of operations.
func (p Phase) withOps(set Set) (Phase, error) {
	p.Ledger = nil // of Serve alone
	n, absents := set.Len(), set.Absents()
	switch p.Kind {
	case Absent, Insert:
		p.Ops = cmp.Or(p.Ops, min(n, absents))
	case Load:
		p.Ops = cmp.Or(p.Ops, p.Records, n)
	case Scan, Pop:
		p.Ops = min(cmp.Or(p.Ops, n), n)
	case Flush, Settle, Compact, Reopen:
		p.Ops = 1
	default:
		p.Ops = cmp.Or(p.Ops, n)
	}
	if p.Kind == Insert && p.Ops > absents {
		return p, fmt.Errorf("%d absent keys, want at least %d", absents, p.Ops)
	}
	return p, nil
}

// full reports whether a phase needs a FullStore.
func (p *Phase) full() bool {
	return p.Kind == Insert || p.Kind == Pop || p.Kind != Load && p.perCall() > 1
}
