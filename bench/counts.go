package main

import (
	"fmt"
	"strconv"
	"strings"
)

// smallTable is the size of the tables in stores of many: the least there is.
const smallTable = 16 << 10

// entryOverhead is what an entry of a table takes beside key and value, about: lengths, sequence number, and its share of
// the index and of the filter.
const entryOverhead = 8

// keysOfTables is so many pairs of some bytes each that a compacted store of small tables has about so many.
func keysOfTables(tables, pair int) int {
	return max(fewestKeys, tables*max(1, smallTable/(pair+entryOverhead)))
}

// counts is a flag: numbers with commas between them, each with k, M or G behind it for thousands, millions and thousands of
// millions.
type counts []int

var countUnits = []struct {
	suffix string
	size   int
}{{"G", 1_000_000_000}, {"M", 1_000_000}, {"k", 1000}}

// String is the shortest way to write the counts.
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

// Type is what --help calls the value.
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

// mostPairs is the largest count: a floor has as many bits as a store's filters, and is built in memory.
const mostPairs = 1_000_000_000
