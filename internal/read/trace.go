package read

import "github.com/bloomkv/bloomkv/internal/sstable"

// A Trace is what one lookup used.
type Trace struct {
	Counts

	Tables []TableTrace // in the order of the search: newest data first
}

// A TableTrace is the search of one table.
type TableTrace struct {
	Level      int
	File       string // base name
	Filtered   bool   // a filter was queried and did not exclude the key
	Present    bool   // the table holds a version of the key
	Blocks     uint64 // data blocks used
	BlocksRead uint64 // data blocks among them that were not in the cache
	BytesRead  uint64 // bytes read from the file for these
}

func (t *Trace) add(c *candidate, present bool, before, after sstable.Stats) {
	t.Tables = append(t.Tables, TableTrace{
		Level: int(c.table.Level.Load()), File: c.table.File.Name, Filtered: c.probed, Present: present,
		Blocks:     after.Blocks - before.Blocks,
		BlocksRead: after.FileReads + after.Mapped - before.FileReads - before.Mapped,
		BytesRead:  after.FileBytes - before.FileBytes,
	})
}

// counts returns the figures of one lookup.
func (c *lookupCost) counts() (l Counts) {
	var s lookupStripe
	s.gets.Add(1)
	if c.memtableHit {
		s.memtableHits.Add(1)
	} else {
		s.add(c)
	}
	s.addTo(&l)
	l.TailLoads, l.TailBytes = c.tailLoads, c.tailBytes
	return l
}
