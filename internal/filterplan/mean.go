package filterplan

// A Mean is the mean of a figure of tables, each of which counts by its share of the entries. The zero value is that of
// no tables.
//
// The mean rate of the filters in memory of a run is what the run wastes: how often a lookup of an absent key within
// its bounds searches one of its tables. The sum over all runs is what the tree wastes: reads per lookup of an absent
// key within the bounds of every run.
type Mean struct{ entries, sum float64 }

// Add adds a table.
func (m *Mean) Add(entries uint64, figure float64) {
	m.entries += float64(entries)
	m.sum += float64(entries) * figure
}

// Value returns the mean, 0 if there are no entries: then nothing is searched.
func (m *Mean) Value() float64 {
	if m.entries == 0 {
		return 0
	}
	return m.sum / m.entries
}
