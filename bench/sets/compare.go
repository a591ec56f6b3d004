package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// key returns key number n: 16 bytes.
func key(dst []byte, n uint64) []byte {
	dst = binary.BigEndian.AppendUint64(dst[:0], n*0x9e3779b97f4a7c15)
	return binary.BigEndian.AppendUint64(dst, n)
}

func keysFrom(first uint64, n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = key(nil, first+uint64(i))
	}
	return all
}

// Absent keys have numbers from here on.
const absentFrom = 1 << 40

// A row has the figures of one kind at one rate: times in ns a key, one of each round.
type row struct {
	add, absent, present []float64
	bitsPerKey, rate     float64
}

// compare measures all kinds at two rates and prints a table.
func compare(ctx context.Context, out io.Writer, keys, rounds, positives int) error {
	kinds := slices.Concat(own, others)
	in, absent := keysFrom(0, keys), keysFrom(absentFrom, keys)
	t := cli.Table{
		Intro: fmt.Sprintf("%d keys of 16 bytes. ns a key from the key to the answer, medians of %d rounds in which "+
			"the kinds take turns,\nof medians over %d keys each; in parentheses divided by the time of blocked in "+
			"the same round, median.\nIdeal: the bits of a classic filter with the measured rate.\n\n",
			keys, rounds, chunk),
		Head: []string{
			"rate", "set", "measured %", "bits/key", "/ ideal", "add", "", "absent", "", "present", "",
		},
	}
	for _, rate := range []float64{0.01, 0.001} {
		rows := make([]row, len(kinds))
		for round := range rounds {
			for turn := range kinds {
				if err := ctx.Err(); err != nil {
					return err
				}
				i := (round + turn) % len(kinds)
				s, err := kinds[i].make(keys, rate)
				if err != nil {
					return fmt.Errorf("%s: %w", kinds[i].name, err)
				}
				r := &rows[i]
				r.add = append(r.add, perKey(in, s.add))
				r.absent = append(r.absent, perKey(absent, func(keys [][]byte) { s.count(keys) }))
				denied := keys
				r.present = append(r.present, perKey(in, func(keys [][]byte) { denied -= s.count(keys) }))
				if denied > 0 && kinds[i].name != "Window of 4" {
					return fmt.Errorf("%s denies %d keys", kinds[i].name, denied)
				}
				if round == 0 {
					r.bitsPerKey = float64(s.bytes()) * 8 / float64(keys)
					r.rate = rateOf(s, rate, positives)
				}
			}
		}
		for i, k := range kinds {
			r := &rows[i]
			ideal := -math.Log(r.rate) / (math.Ln2 * math.Ln2)
			cells := []string{
				fmt.Sprint(rate), k.name, fmt.Sprintf("%.3f", 100*r.rate), fmt.Sprintf("%.2f", r.bitsPerKey),
				fmt.Sprintf("%.2f", r.bitsPerKey/ideal),
			}
			for _, times := range [][2][]float64{
				{r.add, rows[0].add}, {r.absent, rows[0].absent}, {r.present, rows[0].present},
			} {
				ratios := make([]float64, rounds)
				for round := range ratios {
					ratios[round] = times[0][round] / times[1][round]
				}
				cells = append(cells, fmt.Sprintf("%.1f", workload.Median(times[0])),
					fmt.Sprintf("(%.1f)", workload.Median(ratios)))
			}
			t.Add(cells...)
		}
	}
	return t.Print(out)
}

// chunk is the number of keys that are timed together.
const chunk = 500

// perKey returns the time of do for each key, in ns: the median over chunks, which leaves out disturbances.
func perKey(keys [][]byte, do func(keys [][]byte)) float64 {
	var times []float64
	for some := range slices.Chunk(keys, chunk) {
		begin := time.Now()
		do(some)
		times = append(times, float64(time.Since(begin))/float64(len(some)))
	}
	return workload.Median(times)
}

// rateOf returns the rate of absent keys that pass, from about the given number of them if it is near the given one.
func rateOf(s set, near float64, positives int) float64 {
	asked, found := int(float64(positives)/near), 0
	one := keysFrom(0, 1)
	for i := range asked {
		one[0] = key(one[0], absentFrom+uint64(i))
		found += s.count(one)
	}
	return float64(found) / float64(asked)
}
