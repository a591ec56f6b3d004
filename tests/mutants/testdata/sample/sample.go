// Package sample has mutants that its tests notice, that only tests of another package notice, and that none does.
package sample

import "errors"

var errNegative = errors.New("negative")

// Sum returns the sum of the elements that are at least least.
func Sum(elements []uint8, least uint8) (sum int, err error) {
	for _, e := range elements {
		if e < least {
			continue
		}
		sum += int(e)
	}
	return sum, nil
}

// Root returns the integral square root.
func Root(n int) (int, error) {
	if n < 0 {
		return 0, errNegative
	}
	r := 0
	for (r+1)*(r+1) <= n && r < 1<<20 {
		r++
	}
	return r, nil
}

const bits = 3

// Mask returns n without its lowest bits.
func Mask(n uint) uint { return n >> bits << bits }

// Unused is called by no test.
func Unused(n int) int { return n - 2 }
