package bloom

import (
	"math"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

func TestScalableKeepsItsRate(t *testing.T) {
	testkit.Long(t)
	const keys, rate = 200_000, 0.01
	s := must(NewScalable(Options{Rate: rate, Seed: testSeed}))
	for n := 0; n < keys; {
		next := max(2*n, 3000)
		addRange(s, n, min(next, keys)-n)
		n = min(next, keys)
		if now, bound := s.Rate(), s.RateBound(); now > bound*1.05 || bound > rate {
			t.Errorf("%d keys: rate %v, bound %v, promised %v", n, now, bound, rate)
		}
		if got := s.EstimatedCount(); math.Abs(got.Value/float64(n)-1) > rate+0.005 {
			t.Errorf("%v keys, want %d", got, n)
		}
	}
	if got, asked := measure(s, 1<<40); got > rate || math.Abs(got/s.Rate()-1) > 0.03 {
		t.Errorf("%v of %d absent keys pass, the bits give %v", got, asked, s.Rate())
	}
	made, added, sum := 0, 0, 0.0
	for i, stage := range s.Stages() {
		if stage.Keys != firstKeys<<i || stage.Added > stage.Keys || stage.Rate > rate {
			t.Errorf("stage %d: %+v", i, stage)
		}
		made, added, sum = made+stage.Keys, added+stage.Added, sum+stage.Rate
	}
	if made < keys || made > 4*keys || sum != s.RateBound() {
		t.Errorf("stages for %d keys with rates of %v, want %d and %v", made, sum, keys, s.RateBound())
	}
	if got, want := s.BitsPerKey(), float64(8*s.Bytes())/float64(added); got != want {
		t.Errorf("%v bits per key, want %v", got, want)
	}
}

// All stages that there can be have a rate that a filter can have.
func TestScalableCanHaveAllItsStages(t *testing.T) {
	s := must(NewScalable(Options{Rate: leastScalable}))
	sum := 0.0
	for i := range maxStages {
		o := scalable{}.filter(s.options, i, maxStages)
		sum += o.Rate
		if err := o.check(); err != nil {
			t.Errorf("stage %d: %v", i, err)
		}
	}
	if sum > leastScalable {
		t.Errorf("the rates sum to %v", sum)
	}
}
