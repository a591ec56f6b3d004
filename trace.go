package bloomkv

// A Trace is what one lookup touched: the same figures as in Metrics, of which it is a part, and the tables one by one.
type Trace struct {
	LookupMetrics

	Tables []TableTrace // that were searched, in that order: newest data first
}

// A TableTrace is the search of one table.
type TableTrace struct {
	Level      int
	File       string // base name of the table's file, in the store's directory
	Filtered   bool   // a filter was asked, and said maybe
	Present    bool   // the table holds a version of the key; where it does not, the search was wasted
	Blocks     uint64 // data blocks touched
	BlocksRead uint64 // of these, read from the file
	BytesRead  uint64 // of these reads
}
