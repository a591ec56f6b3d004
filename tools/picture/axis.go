package picture

import (
	"math"
	"strconv"
)

// A tick is a value of an axis with its label.
type tick struct {
	value float64
	label string
}

// extent is the range of an axis.
type extent struct{ min, max float64 }

func newExtent() extent { return extent{math.Inf(1), math.Inf(-1)} }

func (e *extent) add(values ...float64) {
	for _, v := range values {
		e.min, e.max = min(e.min, v), max(e.max, v)
	}
}

// linearTicks returns about n labeled ticks within the range, at multiples of 1, 2 or 5 times a power of ten, and the
// step between them.
func linearTicks(e extent, n int, label func(float64) string) (ticks []tick, step float64) {
	step = math.Pow10(int(math.Floor(math.Log10((e.max - e.min) / float64(n)))))
	for _, by := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if (e.max-e.min)/step <= float64(n) {
			break
		}
		step *= by
	}
	first := math.Ceil(e.min/step - 1e-9)
	for i := range 2 * n {
		v := (first + float64(i)) * step
		if v > e.max+step*1e-9 {
			break
		}
		// The shortest decimal near the product, so that 3 × 0.1 is 0.3.
		if rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64); err == nil {
			v = rounded
		}
		ticks = append(ticks, tick{v, label(v)})
	}
	return ticks, step
}

// makeDistinct prints the labels of an axis in full if three digits make two of them equal.
func makeDistinct(ticks []tick) {
	for i := range ticks {
		if i > 0 && ticks[i].label == ticks[i-1].label {
			for j := range ticks {
				verb := byte('f')
				if a := math.Abs(ticks[j].value); a < 1e-4 || a >= 1e15 {
					verb = 'g'
				}
				ticks[j].label = strconv.FormatFloat(ticks[j].value, verb, -1, 64)
			}
			return
		}
	}
}

// logTicks returns up to n labeled ticks at powers of ten, and at multiples of these if they are few.
func logTicks(e extent, n int, label func(float64) string) []tick {
	low, high := int(math.Floor(math.Log10(e.min)+1e-9)), int(math.Ceil(math.Log10(e.max)-1e-9))
	among := func(every int, multiples ...float64) []tick {
		var ticks []tick
		for decade := low; decade <= high; decade++ {
			if decade%every != 0 {
				continue
			}
			for _, m := range multiples {
				v := m * math.Pow10(decade)
				if v >= e.min*(1-1e-9) && v <= e.max*(1+1e-9) {
					ticks = append(ticks, tick{v, label(v)})
				}
			}
		}
		return ticks
	}
	var best []tick
	for _, multiples := range [][]float64{{1}, {1, 3}, {1, 2, 5}} {
		if ticks := among(1, multiples...); len(ticks) <= n {
			best = ticks
		}
	}
	if len(best) >= 3 || len(best) == 2 && high-low < 3 {
		return best
	}
	if high-low >= n {
		for every := 2; ; every++ {
			if ticks := among(every, 1); len(ticks) <= n {
				return ticks
			}
		}
	}
	if ticks, _ := linearTicks(e, max(n-1, 2), label); len(ticks) > len(best) {
		return ticks
	}
	return best
}
