package read

import "github.com/bloomkv/bloomkv/internal/sstable"

// A Trace is what one lookup touched.
type Trace struct {
	Counts

	Tables []TableTrace // that were searched, in that order: newest data first
}

// A TableTrace is the search of one table.
type TableTrace struct {
	Level      int
	File       string // base name
	Filtered   bool   // a filter was asked, and said maybe
	Present    bool   // the table holds a version of the key
	Blocks     uint64 // data blocks touched
	BlocksRead uint64 // of these, read from the file
	BytesRead  uint64 // of these reads
}

// GetTraced is Get, and returns what it cost, for an absent key too.
func (r *Reader) GetTraced(key []byte) ([]byte, Trace, error) {
	var t Trace
	l := lookup{trace: &t}
	found, err := l.find(r, key, Newest)
	var value []byte
	if found {
		value = append([]byte{}, l.value...)
	}
	l.end(r, key, Newest)
	t.Counts = l.cost.counts()
	if err == nil && !found {
		err = ErrNotFound
	}
	return value, t, err
}

func (t *Trace) add(c *candidate, present bool, before, after sstable.Stats) {
	t.Tables = append(t.Tables, TableTrace{
		Level: int(c.table.Level.Load()), File: c.table.File.Name, Filtered: c.probed, Present: present,
		Blocks: after.Blocks - before.Blocks, BlocksRead: after.FileReads - before.FileReads, BytesRead: after.FileBytes - before.FileBytes,
	})
}

// counts returns the figures of one lookup.
func (c *lookupCost) counts() Counts {
	l := Counts{Gets: 1}
	if c.memtableHit {
		l.MemtableHits = 1
		return l
	}
	l.TablesInRange, l.FilterProbes, l.FilterNegatives = c.inRange, c.probes, c.probes-c.passed
	l.TruePositives, l.FalsePositives = c.truePositives, c.falsePositives
	l.TableHits, l.AbsentWasted = c.tableHits, c.absentWasted
	l.TableSearches, l.WastedReads = c.searches, c.searches-c.found
	l.Blocks, l.BlocksRead, l.BytesRead = c.reads.Blocks, c.reads.FileReads, c.reads.FileBytes
	l.TailLoads, l.TailBytes = c.tailLoads, c.tailBytes
	return l
}
