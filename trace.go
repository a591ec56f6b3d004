package bloomkv

// A Trace is what one lookup used: its figures, which are also counted in Metrics, and the tables it searched.
type Trace struct {
	LookupMetrics

	Tables []TableTrace // in the order of the search: newest data first
}

// A TableTrace is the search of one table.
type TableTrace struct {
	Level      int
	File       string // base name of the table's file, in the directory of the store
	Filtered   bool   // a filter was queried and did not exclude the key
	Present    bool   // the table holds a version of the key; otherwise the search was wasted
	Blocks     uint64 // data blocks used
	BlocksRead uint64 // data blocks read from the file
	BytesRead  uint64 // bytes of these reads
}
