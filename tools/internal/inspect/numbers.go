package inspect

import (
	"fmt"
	"math"

	"github.com/bloomkv/bloomkv/internal/words"
)

// figure returns a number with about five digits, and a large one without decimals.
func figure(v float64) string {
	switch size := math.Abs(v); {
	case size >= 1000:
		return fmt.Sprintf("%.0f", v)
	case size < 0.001 && v != 0:
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.5g", v)
}

// errorFigure returns a standard error with about two digits.
func errorFigure(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

// deviations returns a number of standard errors as text.
func deviations(z float64) string {
	if math.Abs(z) < 0.05 {
		z = 0 // without a sign
	}
	return fmt.Sprintf("%.1f", z)
}

// rate returns a false positive rate as text.
func rate(v float64) string { return fmt.Sprintf("%.3g", v) }

// percent returns a share as text.
func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// count returns an integer, 0 or more, as text with commas between thousands.
func count[N int | int64 | uint64](n N) string { return words.Count(n) }
