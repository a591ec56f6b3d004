package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// counts is a flag for a list of numbers, separated by commas. A number may end in k, M or G for a factor of a
// thousand, a million or a thousand million.
type counts []int

var countUnits = []struct {
	suffix string
	size   int
}{{"G", 1_000_000_000}, {"M", 1_000_000}, {"k", 1000}}

// String returns the shortest form of the counts.
func (c *counts) String() string {
	names := make([]string, len(*c))
	for i, n := range *c {
		names[i] = countName(n)
	}
	return strings.Join(names, ",")
}

func countName(n int) string {
	for _, unit := range countUnits {
		if n >= unit.size && n%unit.size == 0 {
			return strconv.Itoa(n/unit.size) + unit.suffix
		}
	}
	return strconv.Itoa(n)
}

// Type returns the name of the value in the help text.
func (c *counts) Type() string { return "LIST" }

// Set replaces the counts.
func (c *counts) Set(list string) error {
	*c = nil
	for name := range strings.SplitSeq(list, ",") {
		digits, size := strings.TrimSpace(name), 1
		for _, unit := range countUnits {
			if cut, ok := strings.CutSuffix(digits, unit.suffix); ok {
				digits, size = cut, unit.size
				break
			}
		}
		n, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || n == 0 || n*uint64(size) > mostPairs {
			return fmt.Errorf("%q: want numbers from 1 to %s, as in 10000 or 250k or 5M", name, countName(mostPairs))
		}
		*c = append(*c, int(n)*size)
	}
	return nil
}

// atLeast returns an error that names the flag if a count is below least.
func (c counts) atLeast(flag string, least int) error {
	if n := slices.Min(c); n < least {
		return fmt.Errorf("%s %s: want at least %d", flag, countName(n), least)
	}
	return nil
}

// mostPairs is the largest count. A floor has as many filter bits as a store, and is built in memory.
const mostPairs = 2_000_000_000
