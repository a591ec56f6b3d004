package picture

import (
	"math"
	"strconv"
	"strings"
)

// Number formats a value with three digits, or with all its digits if that is no longer: 0.05, 1.5, 250, 20k, 5M,
// 1e-05.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a < 1e-4 || a >= 1e15:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case a >= 9_999.5:
		for _, unit := range []struct {
			size float64
			name string
		}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
			if a >= unit.size*0.9995 {
				return digits(v/unit.size) + unit.name
			}
		}
	case a >= 999.5:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return digits(v)
}

// Bytes formats a size given in bytes, in powers of a thousand: 512 B, 4 kB, 1.5 GB.
func Bytes(n float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	i := 0
	for ; math.Abs(n) >= 999.5 && i < len(units)-1; i++ {
		n /= 1000
	}
	return Number(n) + " " + units[i]
}

// digits formats a value with three digits, without zeros at the end of a fraction.
func digits(v float64) string {
	a := math.Abs(v)
	if a == 0 {
		return "0"
	}
	return shortest(v, max(2-int(math.Floor(math.Log10(a))), 0))
}

// shortest formats a value with the given number of decimals, without zeros at the end of a fraction.
func shortest(v float64, decimals int) string {
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func (c *Chart) formatX(v float64) string {
	if i := int(v); len(c.Categories) > 0 && v == math.Trunc(v) && i >= 0 && i < len(c.Categories) {
		return clean(c.Categories[i])
	}
	return format(c.FormatX, v)
}

func (c *Chart) formatY(v float64) string { return format(c.FormatY, v) }

func format(f func(float64) string, v float64) string {
	if f == nil {
		f = Number
	}
	return clean(f(v))
}
