package workload

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

func TestUnmixUndoesMix(t *testing.T) {
	for _, x := range []uint64{0, 1, 42, golden, math.MaxUint64} {
		if got := unmix(mix(x)); got != x {
			t.Errorf("unmix(mix(%#x)) = %#x", x, got)
		}
	}
}

func TestAPermutationHasEveryNumberOnce(t *testing.T) {
	sizes := []int{1, 2, 3, 4, 5, 7, 8, 9, 100, 255, 256, 257, 1000, 65536, 65537}
	for _, n := range sizes {
		for seed := range uint64(4) {
			p := NewPermutation(n, seed)
			seen := make([]bool, n)
			for i := range n {
				at := p.At(i)
				if at < 0 || at >= n || seen[at] {
					t.Fatalf("n %d seed %d: position %d has %d, out of range or for the second time", n, seed, i, at)
				}
				seen[at] = true
			}
		}
	}
}

func TestAPermutationLooksShuffled(t *testing.T) {
	const n = 100_000
	p, q := NewPermutation(n, 1), NewPermutation(n, 2)
	fixed, same, ascents := 0, 0, 0
	for i := range n {
		if p.At(i) == i {
			fixed++
		}
		if p.At(i) == q.At(i) {
			same++
		}
		if i > 0 && p.At(i-1) < p.At(i) {
			ascents++
		}
	}
	if fixed > 12 || same > 12 {
		t.Errorf("%d fixed points and %d common to two seeds, want about 1", fixed, same)
	}
	if ascents < n*48/100 || ascents > n*52/100 {
		t.Errorf("%d of %d steps go up, want about half", ascents, n)
	}
}

func TestZipfFollowsItsDistribution(t *testing.T) {
	testkit.LongUnderRace(t)
	for _, skew := range []float64{0.5, 0.99, 1, 1.5} {
		const n, draws = 1000, 400_000
		z, err := NewZipf(n, skew)
		must(t, err)
		r := rand.New(rand.NewPCG(1, 2))
		counts := make([]float64, n)
		for range draws {
			counts[z.Next(r)]++
		}
		sum := 0.0
		for k := range n {
			sum += math.Pow(float64(k+1), -skew)
		}
		for _, k := range []int{0, 1, 2, 9, 99} {
			want := draws * math.Pow(float64(k+1), -skew) / sum
			if diff := math.Abs(counts[k] - want); diff > 5*math.Sqrt(want) {
				t.Errorf("skew %v: rank %d drawn %.0f times, want %.0f", skew, k, counts[k], want)
			}
		}
	}
	z, err := NewZipf(1, 0.99)
	if got := z.Next(rand.New(rand.NewPCG(1, 2))); err != nil || got != 0 {
		t.Errorf("of one rank, %d is drawn, %v", got, err)
	}
	for _, skew := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := NewZipf(10, skew); err == nil {
			t.Errorf("skew %v: no error", skew)
		}
	}
}

func TestChoicesPick(t *testing.T) {
	const n = 1000
	picks := func(c Choice, seed uint64) []int {
		ch, err := newChooser(c, n, seed)
		must(t, err)
		all := make([]int, 2*n)
		for first := 0; first < len(all); first += 100 {
			ch.fill(all[first:first+100], first, newDice())
		}
		return all
	}
	once := picks(Shuffled, 1)
	if got := len(slices.Compact(slices.Sorted(slices.Values(once[:n])))); got != n {
		t.Errorf("shuffled: %d different keys in the first %d", got, n)
	}
	if !slices.Equal(once[:n], once[n:]) {
		t.Error("shuffled: the second turn differs from the first")
	}
	if got := picks(InOrder, 1)[n+3]; got != 3 {
		t.Errorf("in order: pick %d is %d, want 3", n+3, got)
	}
	for _, c := range []Choice{Uniform, Zipfian, Latest} {
		a, b := picks(c, 1), picks(c, 2)
		if !slices.Equal(a, picks(c, 1)) {
			t.Errorf("%v: the same seed picks otherwise", c)
		}
		if slices.Equal(a, b) {
			t.Errorf("%v: another seed picks the same", c)
		}
		if slices.Min(a) < 0 || slices.Max(a) >= n {
			t.Errorf("%v: picks from %d to %d of %d", c, slices.Min(a), slices.Max(a), n)
		}
	}
	if _, err := newChooser(Latest+1, n, 1); err == nil {
		t.Error("a choice that does not exist: no error")
	}
	if _, err := newChooser(Uniform, 0, 1); err == nil {
		t.Error("no keys: no error")
	}
}

func TestTheLatestAreChosenMostOften(t *testing.T) {
	ch, err := newChooser(Latest, 1000, 1)
	must(t, err)
	picks := make([]int, 10_000)
	ch.fill(picks, 0, newDice())
	counts := make([]int, 1000)
	for _, pick := range picks {
		counts[pick]++
	}
	if counts[999] < counts[998] || counts[998] < counts[900] || counts[999] < 1000 {
		t.Errorf("the last three are chosen %d times of %d, number 900 %d times", counts[997:], len(picks), counts[900])
	}
}

func TestEveryHundredHasEachPositionOnce(t *testing.T) {
	same := 0
	for hundred := range 20 {
		seen := make([]bool, 100)
		for k := hundred * 100; k < hundred*100+100; k++ {
			if at := position(7, k); seen[at] {
				t.Fatalf("position %d is there twice in hundred %d", at, hundred)
			} else {
				seen[at] = true
			}
			if position(7, k) == position(7, k+100) {
				same++
			}
		}
	}
	if same > 100 {
		t.Errorf("%d of 2000 positions are as in the hundred before, want about 20", same)
	}
}

func BenchmarkKeyAndValue(b *testing.B) {
	for _, shape := range Shapes {
		b.Run(shape.String(), func(b *testing.B) {
			g, err := NewGenerated(shape, 1_000_000, 1, 100)
			must(b, err)
			p := NewPermutation(g.Len(), 1)
			var buf []byte
			for i := 0; b.Loop(); i++ {
				at := p.At(i % g.Len())
				buf = g.AppendKey(buf[:0], at)
				buf = g.AppendValue(buf, at)
			}
		})
	}
}
