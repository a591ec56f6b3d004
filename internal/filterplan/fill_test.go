package filterplan

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// TestFillDividesMemoryAsWellAsAnExhaustiveSearch compares Fill with all choices of forms of few filters. Fill leaves
// at most one step of a filter unused.
func TestFillDividesMemoryAsWellAsAnExhaustiveSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 300 {
		demands := make(Demands, 1+rng.IntN(4))
		all := int64(0)
		step := int64(0)
		for i := range demands {
			forms := []bloomblock.Form{{Rate: 1}}
			gain := 1 + rng.Float64()
			for range 1 + rng.IntN(3) {
				last := forms[len(forms)-1]
				bytes := 64 * (1 + rng.Int64N(20))
				gain *= 0.2 + 0.7*rng.Float64()
				forms = append(forms, bloomblock.Form{
					Bytes: last.Bytes + bytes, Rate: last.Rate - gain*float64(bytes)/10_000,
				})
				step = max(step, bytes)
			}
			demands[i] = Demand{Weight: rng.Float64(), Table: rng.Uint64(), Forms: forms}
			all += forms[len(forms)-1].Bytes
		}
		memory := rng.Int64N(all + 100)
		bytesOf := func(chosen []int) (sum int64) {
			for i, n := range chosen {
				sum += demands[i].Forms[n].Bytes
			}
			return sum
		}
		best := func(memory int64) (least float64) {
			least = math.Inf(1)
			chosen := make([]int, len(demands))
			var try func(i int)
			try = func(i int) {
				if i == len(demands) {
					if bytesOf(chosen) <= memory {
						least = min(least, demands.Wasted(chosen))
					}
					return
				}
				for chosen[i] = range demands[i].Forms {
					try(i + 1)
				}
				chosen[i] = 0
			}
			try(0)
			return least
		}
		got := demands.Fill(memory)
		if used := bytesOf(got); used > memory {
			t.Fatalf("round %d: %d bytes used of %d", round, used, memory)
		}
		if wasted, most := demands.Wasted(got), best(memory-step); wasted > most+1e-12 {
			t.Errorf("round %d: %g wasted in %d bytes, want at most the %g that %d bytes less can have", round, wasted,
				memory, most, step)
		}
	}
}

func TestFillTakesAllThatFits(t *testing.T) {
	forms := []bloomblock.Form{{Rate: 1}, {Bytes: 100, Rate: 0.1}, {Bytes: 200, Rate: 0.01}}
	demands := Demands{{Weight: 0.5, Table: 1, Forms: forms}, {Weight: 0.5, Table: 2, Forms: forms}} // 2 is first
	for _, c := range []struct {
		memory int64
		want   [2]int
	}{
		{400, [2]int{2, 2}},
		{399, [2]int{1, 2}},
		{300, [2]int{1, 2}},
		{200, [2]int{1, 1}},
		{199, [2]int{0, 1}},
		{100, [2]int{0, 1}},
		{99, [2]int{0, 0}},
		{0, [2]int{0, 0}},
		{-5, [2]int{0, 0}},
	} {
		if got := demands.Fill(c.memory); [2]int(got) != c.want {
			t.Errorf("%d bytes: forms %v, want %v", c.memory, got, c.want)
		}
	}
	if got := Demands(nil).Fill(100); len(got) != 0 {
		t.Errorf("no filters: %v", got)
	}
}

func TestABudgetIsTheSmallestThatHoldsItsFilters(t *testing.T) {
	for _, fixed := range []int64{0, 1, 5 << 20} {
		for _, share := range []float64{0, 1. / 32, 1. / 16, 0.5} {
			for filters := int64(1); filters < 1<<40; filters = filters*3 + 1 {
				b := BudgetFor(filters, fixed, share)
				if b%mib != 0 || b < MinBudget || Space(Left(b, fixed, share)) < filters {
					t.Fatalf("%d bytes of filters, %d fixed, share %g: %d, of which filters get %d",
						filters, fixed, share, b, Space(Left(b, fixed, share)))
				}
				if less := Space(Left(b-mib, fixed, share)); b > MinBudget && less >= filters && less > 0 {
					t.Fatalf("%d bytes of filters, %d fixed, share %g: %d, but one MiB less leaves %d",
						filters, fixed, share, b, less)
				}
			}
		}
	}
}

func TestPartsLeaveBlocksASixteenthOrAQuarterOfTheRest(t *testing.T) {
	for _, c := range [][3]int64{
		{1600, 1600, 1500}, {800, 1600, 700}, {400, 1600, 300}, {396, 1600, 297}, {0, 1600, 0},
	} {
		if got := PartsSpace(c[0], c[1]); got != c[2] {
			t.Errorf("%d of %d bytes are left: %d for parts, want %d", c[0], c[1], got, c[2])
		}
	}
}
