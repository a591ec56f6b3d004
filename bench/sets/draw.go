package main

import (
	"fmt"
	"math"

	"github.com/bloomkv/bloomkv/bloom"
	"github.com/bloomkv/bloomkv/tools/picture"
)

func percent(v float64) string { return picture.Number(100*v) + " %" }

// charts draws the rate against the load, and the memory against the rate.
func charts(keys, positives int) ([]picture.Chart, error) {
	load, err := loadChart(keys, positives)
	if err != nil {
		return nil, err
	}
	return []picture.Chart{load, memoryChart(keys)}, nil
}

// loadChart draws the rate of sets that are made for the given number of keys and 1 %, up to twice as many keys.
func loadChart(keys, positives int) (picture.Chart, error) {
	c := picture.Chart{
		Name: "sets-load", Title: "False positives of sets made for 1 %, as they fill",
		X: "keys added, of those the set is made for", Y: "absent keys that pass",
		FormatX: percent, FormatY: percent, LogY: true,
		Caption: fmt.Sprintf("Measured with %d keys; the curve is the formula of blocked filters. Scalable is made "+
			"for an unknown number.", keys),
	}
	formula := picture.Line{Name: "blocked, formula", Kind: picture.Curve, Dashed: true}
	f, err := bloom.New(bloom.Options{Keys: keys})
	if err != nil {
		return c, err
	}
	const first, step, last = 0.2, 0.1, 2.0
	for x := first; x < last+step/2; x += step {
		formula.X, formula.Y = append(formula.X, x), append(formula.Y, f.RateAt(int(x*float64(keys))))
	}
	for _, k := range own {
		if k.name == "Atomic" || k.name == "Counting" || k.name == "blocked, 64 at once" {
			continue // the bits of blocked
		}
		s, err := k.make(keys, 0.01)
		if err != nil {
			return c, err
		}
		line, added := picture.Line{Name: k.name}, 0
		for _, x := range formula.X {
			n := int(x * float64(keys))
			s.add(keysFrom(uint64(added), n-added))
			added = n
			if rate := rateOf(s, 0.002, positives); rate > 0 {
				line.X, line.Y = append(line.X, x), append(line.Y, rate)
			}
		}
		c.Lines = append(c.Lines, line)
	}
	c.Lines = append(c.Lines, formula)
	return c, nil
}

// memoryChart draws the bits per key of sets with the given number of keys.
func memoryChart(keys int) picture.Chart {
	c := picture.Chart{
		Name: "sets-memory", Title: "Memory of sets for a rate of false positives",
		X: "rate promised", Y: "bits per key",
		FormatX: percent, LogX: true,
		Caption: fmt.Sprintf("Sets of %d keys. No set of any kind can take less than log2(1/rate).", keys),
	}
	least := picture.Line{Name: "least possible", Kind: picture.Curve, Dashed: true}
	var rates []float64
	in := keysFrom(0, keys)
	for e := -1.0; e >= -5; e -= 0.25 {
		rate := math.Pow(10, e)
		rates = append(rates, rate)
		least.X, least.Y = append(least.X, rate), append(least.Y, -math.Log2(rate))
	}
	for _, k := range own {
		if k.name == "Atomic" || k.name == "partitioned" || k.name == "blocked, 64 at once" {
			continue // near blocked, and near classic
		}
		line := picture.Line{Name: k.name}
		for _, rate := range rates {
			s, err := k.make(keys, rate)
			if err != nil {
				continue // below the best rate of this kind
			}
			s.add(in)
			line.X, line.Y = append(line.X, rate), append(line.Y, float64(s.bytes())*8/float64(keys))
		}
		c.Lines = append(c.Lines, line)
	}
	c.Lines = append(c.Lines, least)
	return c
}
