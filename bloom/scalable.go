package bloom

import (
	"fmt"
	"math"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// A Scalable is a set of unknown size. It is a cascade of filters, the stages, each made for twice as many keys as the
// one before and with a lower rate (Almeida, Baquero, Preguiça, Hutchison, "Scalable Bloom Filters", Information
// Processing Letters 2007). The rate of all stages together does not exceed Options.Rate, up to stages of 1 TiB, or
// 256 MiB on a 32-bit machine.
//
// Stage i, from 1, has the rate Rate·6/(π·i)². These sum to Rate, and cost later stages fewer bits than rates that
// shrink by a constant factor. Add and MayContain ask every stage; Add allocates when it adds one. If the number of
// keys is known within a factor of two, a Filter takes half the memory and a fraction of the time.
//
// One goroutine may add; any number may ask while none adds.
type Scalable struct{ series[scalable] }

const (
	firstKeys     = 1024 // keys of the first stage, unless more are expected
	growth        = 2
	maxStages     = 48
	leastScalable = 1e-5 // Rate: the last stage can just have its share of it
)

// NewScalable returns an empty set. Options.Keys is the number of keys of the first stage, which is made for 1024 at
// least. Its errors are those of New; the lowest rate is 1e-5.
func NewScalable(o Options) (*Scalable, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	o.Keys = max(o.Keys, firstKeys)
	if o.Rate < leastScalable {
		return nil, fmt.Errorf("%w: %v, the best of a Scalable is %v", bloomblock.ErrRate, o.Rate, leastScalable)
	}
	s := &Scalable{series[scalable]{options: o}}
	if err := s.grow(); err != nil {
		return nil, err
	}
	return s, nil
}

// scalable is the kind of a Scalable, whose options have the Keys of the first stage.
type scalable struct{}

func (scalable) kind() (number uint8, name string) { return kindScalable, "Scalable" }

// filter returns the options of stage i, from 0.
func (scalable) filter(o Options, i, _ int) Options {
	o.Rate *= 6 / (math.Pi * math.Pi * float64((i+1)*(i+1)))
	for range i {
		o.Keys = min(o.Keys, maxKeys/growth) * growth
	}
	return o
}

func (s *Scalable) grow() error {
	i := len(s.filters)
	f, err := newFilterOf(scalable{}.filter(s.options, i, i+1))
	if err == nil {
		s.filters = append(s.filters, f)
	}
	return err
}

// Add adds a key. It reports whether the key was certainly not in the set before.
func (s *Scalable) Add(key []byte) (added bool) { return s.AddHash(bloomblock.HashKey(key)) }

// AddHash adds a key by its hash: see Add.
func (s *Scalable) AddHash(h bloomblock.Hash) (added bool) {
	if s.MayContainHash(h) {
		return false // it stays so: nothing is ever removed
	}
	last := s.filters[len(s.filters)-1]
	if last.added >= uint64(last.options.Keys) && len(s.filters) < maxStages { //nolint:gosec // ≥ 0
		if s.grow() == nil { // otherwise no filter can be that large: the rate rises
			last = s.filters[len(s.filters)-1]
		}
	}
	return last.AddHash(h)
}

// A Stage describes one filter of a Scalable.
type Stage struct {
	Keys  int     // that it is made for
	Added int     // that set at least one of its bits
	Rate  float64 // with Keys keys, at most
	Bytes int
}

// Stages returns a description of all stages, the oldest first.
func (s *Scalable) Stages() []Stage {
	var all []Stage
	for _, f := range s.filters {
		all = append(all, Stage{f.options.Keys, int(f.added), f.options.Rate, f.Bytes()}) //nolint:gosec // ≤ maxKeys
	}
	return all
}

// BitsPerKey returns the memory for each added key. It is highest just after a stage was added.
func (s *Scalable) BitsPerKey() float64 {
	added := uint64(0)
	for _, f := range s.filters {
		added += f.added
	}
	return float64(s.Bytes()) * 8 / float64(max(added, 1))
}

// RateBound returns the sum of the rates of the stages: the false positive rate if all were full. It is below
// Options.Rate. It is 1 for a zero value.
func (s *Scalable) RateBound() (sum float64) {
	if len(s.filters) == 0 {
		return 1
	}
	for _, f := range s.filters {
		sum += f.options.Rate
	}
	return sum
}

// EstimatedCount estimates the number of distinct keys. It is low by at most the share RateBound, since Add
// takes a false positive for a key that it has.
func (s *Scalable) EstimatedCount() (sum Estimate) {
	if len(s.filters) == 0 {
		return unknown
	}
	for _, f := range s.filters { // no two have a key in common
		e := f.EstimatedCount()
		sum.Value += e.Value
		sum.Err = math.Hypot(sum.Err, e.Err)
	}
	return sum
}
