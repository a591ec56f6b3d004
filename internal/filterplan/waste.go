package filterplan

// A RunWaste adds up the tables of a run, to get what the run wastes: how often a lookup of an absent key within its
// bounds searches one of its tables. Each table counts by its share of the entries. The zero value is an empty run.
type RunWaste struct {
	entries, passed           float64
	falsePositives, negatives uint64
}

// Add adds a table: its entries, the rate of its filter in memory (1 without one), and the answers that the filter has
// given to lookups.
func (r *RunWaste) Add(entries uint64, rate float64, falsePositives, negatives uint64) {
	r.entries += float64(entries)
	r.passed += float64(entries) * rate
	r.falsePositives += falsePositives
	r.negatives += negatives
}

// A LevelWaste is what all runs of a level waste. The sums over all levels are what the tree wastes: reads per lookup
// of an absent key within the bounds of every run. The zero value is a level without runs.
type LevelWaste struct {
	Predicted float64 // by the filters in memory

	runs, falsePositives, negatives uint64
}

// Add adds a run. A run without entries is never searched.
func (l *LevelWaste) Add(r RunWaste) {
	l.runs++
	if r.entries > 0 {
		l.Predicted += r.passed / r.entries
	}
	l.falsePositives += r.falsePositives
	l.negatives += r.negatives
}

// Measured returns what lookups have measured in place of Predicted: the runs of the level, each with the share of
// false positives among them and the negatives; 0 without answers. Searches of tables without a filter do not count,
// since they are not counted apart for absent keys.
func (l *LevelWaste) Measured() float64 {
	answers := l.falsePositives + l.negatives
	if answers == 0 {
		return 0
	}
	return float64(l.runs) * float64(l.falsePositives) / float64(answers)
}

// Promised returns what a store promises that plans filters for a rate, and whose filters in memory predict another
// one. Plans are of filters as they are on average: the bits of the present ones may be a little worse.
func Promised(planned, predicted float64) float64 { return max(planned, min(predicted, 1.02*planned)) }
