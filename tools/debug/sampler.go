package debug

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/bloomkv/bloomkv"
)

const (
	mostSamples = 300         // in the history: five minutes of a store that is never idle
	window      = time.Minute // of Sample.LastMinute
)

// A sampler samples one store for all viewers, whether there are any or not. It is safe for concurrent use.
type sampler struct {
	// constant
	db       *bloomkv.DB
	interval time.Duration

	measuring sync.Mutex // held while the store is asked for its metrics; before mu
	last      look       // the latest; guarded by measuring
	recent    []look     // of the last minute, oldest first; guarded by measuring

	mu      sync.Mutex    // guards what follows; held for moments only
	news    chan struct{} // closed when latest changes, and replaced
	latest  event
	levels  []bloomkv.LevelMetrics // of the latest look
	samples []Sample               // oldest first, those with something new
}

// A look is the metrics of the store at one time.
type look struct {
	at      time.Time
	metrics bloomkv.Metrics
}

// An event is what watchers are sent, the same bytes for all of them.
type event struct {
	number uint64 // counts samples with something new, from 1 on
	data   []byte // a Sample in JSON
	parts  []byte // of the page, in JSON
	trees  uint64 // how often the tree has changed
	closed bool   // the store is closed, and there will be no other event
}

func newSampler(db *bloomkv.DB, interval time.Duration) *sampler {
	return &sampler{db: db, interval: interval, news: make(chan struct{})}
}

// sample looks at the store, unless the last look is younger than age. It returns the metrics of the last look.
func (s *sampler) sample(age time.Duration) bloomkv.Metrics {
	s.measuring.Lock()
	defer s.measuring.Unlock()
	now := time.Now()
	if !s.last.at.IsZero() && (now.Sub(s.last.at) < age || isClosed(&s.last.metrics)) {
		return s.last.metrics
	}
	m := s.db.Metrics()
	if isClosed(&m) {
		s.last = look{now, m}
		s.publish(nil, &m)
		return m
	}
	s.recent = slices.DeleteFunc(s.recent, func(l look) bool { return now.Sub(l.at) > window })
	before, oldest := s.last.metrics, s.last.metrics
	if len(s.recent) > 0 {
		oldest = s.recent[0].metrics
	}
	s.last = look{now, m}
	if most := int(window/s.interval) + 1; len(s.recent) >= most {
		s.recent = slices.Delete(s.recent, 0, len(s.recent)-most+1)
	}
	s.recent = append(s.recent, s.last)
	made := sampleOf(now, &m, &before, &oldest)
	s.publish(&made, &m)
	return m
}

// isClosed reports whether the metrics are those of a closed store.
func isClosed(m *bloomkv.Metrics) bool { return m.Levels == nil }

// publish keeps a sample of metrics that has something new, and wakes the watchers. A nil sample means that the store
// is closed.
func (s *sampler) publish(made *Sample, m *bloomkv.Metrics) {
	s.mu.Lock()
	defer s.mu.Unlock()
	replaced := !slices.EqualFunc(s.levels, m.Levels, func(a, b bloomkv.LevelMetrics) bool { // by an import too
		return a.Runs == b.Runs && a.Tables == b.Tables && a.Bytes == b.Bytes && a.Entries == b.Entries
	})
	s.levels = m.Levels
	switch n := len(s.samples); {
	case made == nil:
		s.latest.closed = true
	case n > 0 && !replaced && !made.differs(s.samples[n-1]):
		return
	default:
		data, err := json.Marshal(made)
		if err != nil {
			return // broken logic: a sample has only numbers, and no NaN
		}
		if n == mostSamples {
			s.samples = slices.Delete(s.samples, 0, 1)
		}
		w := &made.Writes
		if w.Flushes+w.Compactions+w.Moves+w.Ingests > 0 || n > 0 && (replaced ||
			made.Warm != s.samples[len(s.samples)-1].Warm) {
			s.latest.trees++
		}
		s.samples = append(s.samples, *made)
		s.latest.number++
		s.latest.data = data
	}
	p := partsOf(m, s.samples)
	p.Trees = s.latest.trees
	s.latest.parts = p.json()
	close(s.news)
	s.news = make(chan struct{})
}

// state returns the latest event, and a channel that is closed when there is another one.
func (s *sampler) state() (event, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest, s.news
}

// history returns the samples so far, oldest first. The caller owns the slice.
func (s *sampler) history() []Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.samples)
}

// run samples until the store is closed.
func (s *sampler) run() {
	ticks := time.NewTicker(s.interval)
	defer ticks.Stop()
	for {
		if m := s.sample(s.interval * 9 / 10); isClosed(&m) {
			return
		}
		<-ticks.C
	}
}
