package bloom_test

import (
	"fmt"
	"math"

	"github.com/bloomkv/bloomkv/bloom"
	"github.com/bloomkv/bloomkv/bloomblock"
)

// The examples of textbooks: a false yes in a filter of 16 bits with 3 hashes, a false no after zeroing bits, a
// Counting without one, a rate, and bits a key.
func Example_textbook() {
	const m, k = 16, 3
	var set uint16
	places := func(key string) (bits uint16) {
		h := bloomblock.HashKey([]byte(key))
		for i := range k { // four bits of the hash are a number below 16
			bits |= 1 << (h >> (4 * i) % m)
		}
		return bits
	}
	ask := func(key string) bool { return set&places(key) == places(key) }
	set = places("boa") | places("emu")
	fmt.Printf("boa sets %016b\nemu sets %016b\nthe filter is %016b\n", places("boa"), places("emu"), set)
	fmt.Println("gnu:", ask("gnu"), "- certainly not added")
	fmt.Println("cod:", ask("cod"), "- was not added either: a false yes")
	set &^= places("emu")
	fmt.Println("boa after zeroing the bits of emu:", ask("boa"), "- a false no")

	c, err := bloom.NewCounting(bloom.Options{Keys: 2, Seed: seed})
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Add([]byte("boa"))
	c.Add([]byte("emu"))
	c.Remove([]byte("emu"))
	fmt.Println("Counting, boa after removing emu:", c.MayContain([]byte("boa")))

	fmt.Printf("rate with 10 hashes and 20 bits a key: %.7f\n", math.Pow(-math.Expm1(-10.0/20), 10))
	f, err := bloom.New(bloom.Options{Keys: 1_000_000, Rate: 0.01, Layout: bloom.LayoutClassic})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("bits a key at 1 %%: %.1f; with one hash: %.1f\n", float64(8*f.Bytes())/1e6, -1/math.Log1p(-0.01))
	// Output:
	// boa sets 0001000100010000
	// emu sets 0001000000001001
	// the filter is 0001000100011001
	// gnu: false - certainly not added
	// cod: true - was not added either: a false yes
	// boa after zeroing the bits of emu: false - a false no
	// Counting, boa after removing emu: true
	// rate with 10 hashes and 20 bits a key: 0.0000889
	// bits a key at 1 %: 9.6; with one hash: 99.5
}
