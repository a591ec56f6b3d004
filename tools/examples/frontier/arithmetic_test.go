package main

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloom"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

const billion = 1_000_000_000

// This example computes the filters of a billion URLs. Sizes are those that can be built, not those of a formula.
func Example_aBillionURLs() {
	fmt.Print(arithmetic())
	// Output:
	// a billion URLs                               1 %      0.01 %
	// classic filter                           1.20 GB     2.40 GB
	// blocked filter                           1.24 GB     2.48 GB
	// Ribbon filter, built once                0.88 GB     1.75 GB
	// lost of a billion, filter full          10000000      100000
	// lost of the billion that fill it         1865000       10000
	//
	// 18 MB for a billion: takes 99.9 % of new URLs for seen
	// 18 MB at 1 %: enough for 15 million
}

func arithmetic() string {
	var out strings.Builder
	rates := []float64{0.01, 0.0001}
	row := func(what string, figure func(rate float64) string) {
		fmt.Fprintf(&out, "%-36s", what)
		for _, rate := range rates {
			fmt.Fprintf(&out, "%12s", figure(rate))
		}
		fmt.Fprintln(&out)
	}
	gigabytes := func(bitsPerKey float64) string { return fmt.Sprintf("%.2f GB", bitsPerKey*billion/8/1e9) }
	row("a billion URLs", func(rate float64) string { return fmt.Sprint(100*rate, " %") })
	row("classic filter", func(rate float64) string { return gigabytes(classicBits(rate)) })
	row("blocked filter", func(rate float64) string {
		p, _ := bloomblock.ParamsFor(rate)
		return gigabytes(p.BitsPerKey())
	})
	row("Ribbon filter, built once", func(rate float64) string {
		p, _ := bloomblock.ParamsRibbon(rate)
		return gigabytes(p.BitsPerKey())
	})
	row("lost of a billion, filter full", func(rate float64) string { return fmt.Sprintf("%.0f", rate*billion) })
	row("lost of the billion that fill it", func(rate float64) string {
		return fmt.Sprintf("%.0f", math.Round(rateWhileFilling(rate)*billion/1000)*1000)
	})
	fmt.Fprintf(&out, "\n18 MB for a billion: takes %.1f %% of new URLs for seen\n",
		-100*math.Expm1(-billion/(18e6*8))) // with one bit for each URL; more are worse
	fmt.Fprintf(&out, "18 MB at 1 %%: enough for %.0f million\n", 18e6*8/classicBits(0.01)/1e6)
	return out.String()
}

// classicBits returns the bits for each URL of a classic filter.
func classicBits(rate float64) float64 {
	const keys = 1_000_000
	f, err := bloom.New(bloom.Options{Keys: keys, Rate: rate, Layout: bloom.LayoutClassic})
	if err != nil {
		panic(err)
	}
	return float64(f.Bytes()) * 8 / keys
}

// rateWhileFilling returns the mean rate of a blocked filter from its first to its last key.
func rateWhileFilling(rate float64) (mean float64) {
	const keys, steps = 1_000_000, 100
	f, err := bloom.New(bloom.Options{Keys: keys, Rate: rate})
	if err != nil {
		panic(err)
	}
	for i := range steps {
		mean += f.RateAt(keys*(2*i+1)/(2*steps)) / steps
	}
	return mean
}

// TestTheReadmeHasTheFigures compares README.md with the arithmetic, and with what a store takes for each URL.
func TestTheReadmeHasTheFigures(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{arithmetic()}
	if runtime.GOARCH == "amd64" { // compression is a little different elsewhere
		texts = append(texts, bytesPerURL(t))
	}
	for _, text := range texts {
		if !strings.Contains(string(readme), text) {
			t.Errorf("README.md lacks\n%s", text)
		}
	}
}

// bytesPerURL measures what marks and entries take, for made-up URLs of many hosts.
func bytesPerURL(t *testing.T) string {
	t.Helper()
	const hosts, each = 1000, 100
	random := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("news article product category item user blog archive images search about forum wiki docs")
	word := func() string { return words[random.IntN(len(words))] }
	var urls []string
	length := 0
	for range hosts {
		host := fmt.Sprintf("https://www.%s-%08x.com", word(), random.Uint32())
		for range each {
			url := fmt.Sprintf("%s/%s/%s/%s-%08x.html", host, word(), word(), word(), random.Uint32())
			urls = append(urls, url)
			length += len(url)
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%-22s%4d bytes\n", "a URL", length/len(urls))
	measure := func(what string, pairs iter.Seq2[bloomkv.KV, error]) {
		t.Helper()
		db, err := bloomkv.Open("store", &bloomkv.Options{FS: vfstest.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Ingest(t.Context(), pairs, bloomkv.IngestOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := db.Compact(t.Context(), bloomkv.CompactOptions{}); err != nil {
			t.Fatal(err)
		}
		size := uint64(0)
		for _, table := range db.Tables() {
			size += table.Bytes
		}
		m, n := db.Metrics().Memory, float64(len(urls))
		fmt.Fprintf(&out, "%-22s%4.0f bytes on disk, %.1f bits of filters and %.1f bytes of indexes in memory\n",
			what, float64(size)/n, float64(m.Filters)*8/n, float64(m.Indexes)/n)
	}
	measure("its entry, until done", func(yield func(bloomkv.KV, error) bool) {
		for i, url := range urls {
			if !yield(bloomkv.KV{Key: entryKey(uint64(i)), Value: []byte(url)}, nil) {
				return
			}
		}
	})
	slices.Sort(urls)
	measure("its mark, for ever", func(yield func(bloomkv.KV, error) bool) {
		for _, url := range urls {
			if !yield(bloomkv.KV{Key: markKey(url)}, nil) {
				return
			}
		}
	})
	return out.String()
}
