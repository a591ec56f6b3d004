package foreign_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/sstable"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// TestOurRates adds tables of bloomkv to the results: their figures by inspect, and the answers of their filters.
func TestOurRates(t *testing.T) {
	bloom, err := bloomblock.ParamsFor(0.01)
	must(t, err)
	ribbon, err := bloomblock.ParamsRibbon(0.01)
	must(t, err)
	for name, p := range map[string]bloomblock.Params{
		"bloomkv, rate 0.01": bloom, "bloomkv, Ribbon, rate 0.01": ribbon,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "000001.sst")
			out, err := os.Create(file)
			must(t, err)
			w := sstable.NewWriter(out, sstable.WriterOptions{Filter: p})
			for _, key := range keys(*presents) {
				must(t, w.Add(key, value(key)))
			}
			_, err = w.Finish()
			must(t, err)
			must(t, out.Close())
			facts, err := inspect.ReadTable(t.Context(), file, inspect.Options{})
			must(t, err)
			f, err := os.Open(file)
			must(t, err)
			defer f.Close()
			own, err := sstable.Open(f, int64(facts.Bytes), file)
			must(t, err)
			defer own.Close()
			filter, err := own.Filter()
			must(t, err)
			positives := 0
			for i := range *absents {
				if filter.MayContain(bloomblock.HashKey(absent(i))) {
					positives++
				}
			}
			results[name] = result{facts.BitsPerKey, facts.FPRFromBits, float64(positives) / float64(*absents)}
		})
	}
}
