package bloomblock_test

import (
	"fmt"

	"github.com/bloomkv/bloomkv/bloomblock"
)

func Example() {
	params, err := bloomblock.ParamsFor(0.01)
	if err != nil {
		fmt.Println(err)
		return
	}
	var builder bloomblock.Builder
	for _, key := range []string{"apple", "banana", "cherry"} {
		builder.Add(bloomblock.HashKey([]byte(key)))
	}
	block := builder.AppendBlock(nil, params)

	filter, err := bloomblock.Parse(block)
	if err != nil {
		fmt.Println(err) // continue as if every answer were maybe
	}
	fmt.Println(filter.MayContain(bloomblock.HashKey([]byte("banana"))))
	fmt.Println(filter.MayContain(bloomblock.HashKey([]byte("durian"))))
	// Output:
	// true
	// false
}

func ExampleParamsFor() {
	for _, rate := range []float64{0.01, 0.0001, 1} {
		p, err := bloomblock.ParamsFor(rate)
		fmt.Println(p.Units(), p.BitsPerKey(), err)
	}
	_, err := bloomblock.ParamsFor(1e-12)
	fmt.Println(err)
	// Output:
	// [{9.9375 6}] 9.9375 <nil>
	// [{9.9375 6} {9.90625 6}] 19.84375 <nil>
	// [] 0 <nil>
	// false positive rate out of range: 1e-12, the best a filter can promise is 1e-09
}

func ExampleParamsNested() {
	// At the bottom of the tree one false positive in a hundred is enough, one level higher one in a thousand.
	p, err := bloomblock.ParamsNested(0.01, 0.001)
	if err != nil {
		fmt.Println(err)
		return
	}
	h := p.Header(1_000_000)
	fmt.Println(p.Units(), h.UnitsFor(0.001), h.UnitsFor(0.01))
	// Output:
	// [{9.9375 6} {4.84375 3}] 2 1
}
