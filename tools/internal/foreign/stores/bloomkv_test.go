package foreign_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	engine "github.com/bloomkv/bloomkv/internal/sstable"
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
			must(t, w.Finish())
			must(t, out.Close())
			facts, err := inspect.ReadTable(t.Context(), file, inspect.Options{})
			must(t, err)
			f, err := os.Open(file)
			must(t, err)
			defer f.Close()
			own, err := engine.Open(f, int64(facts.Bytes), file)
			must(t, err)
			defer own.Close()
			must(t, own.Load(0))
			positives := 0
			for i := range *absents {
				if maybe, _ := own.Keys.MayContain(bloomblock.HashKey(absent(i))); maybe {
					positives++
				}
			}
			results[name] = result{facts.BitsPerKey, facts.FPRFromBits, float64(positives) / float64(*absents)}
		})
	}
}
