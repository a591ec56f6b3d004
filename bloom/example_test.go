package bloom_test

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/bloomkv/bloomkv/bloom"
	"github.com/bloomkv/bloomkv/bloomblock"
)

// seed makes the outputs the same in every run. Programs leave Options.Seed 0, unless sets are to be compared.
const seed bloomblock.Seed = 1

func addNumbers(f interface{ Add(key []byte) bool }, first, n int) {
	for i := range n {
		f.Add(fmt.Append(nil, first+i))
	}
}

func ExampleFilter() {
	f, err := bloom.New(bloom.Options{Keys: 1000, Rate: 0.01, Seed: seed})
	if err != nil {
		fmt.Println(err)
		return
	}
	f.Add([]byte("apple"))
	fmt.Println("apple:", f.MayContain([]byte("apple")))
	fmt.Println("pear:", f.MayContain([]byte("pear")))

	addNumbers(f, 0, 999)
	fmt.Printf("%v keys in %d bytes\n", f.EstimatedCount(), f.Bytes())
	fmt.Printf("saturated: %v, rate %.2f %%\n", f.Saturated(), 100*f.Rate())
	addNumbers(f, 1000, 500)
	fmt.Printf("saturated: %v, rate %.2f %%\n", f.Saturated(), 100*f.Rate())
	// Output:
	// apple: true
	// pear: false
	// 1005 ± 21 keys in 1280 bytes
	// saturated: false, rate 0.90 %
	// saturated: true, rate 4.19 %
}

func ExampleFilter_Compare() {
	o := bloom.Options{Keys: 10_000, Rate: 0.01, Seed: seed}
	a, err := bloom.New(o)
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := bloom.New(o)
	if err != nil {
		fmt.Println(err)
		return
	}
	addNumbers(a, 0, 6000)
	addNumbers(b, 4000, 6000)
	got, err := a.Compare(b)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("in a or b:   ", got.Union)
	fmt.Println("in a and b:  ", got.Intersection)
	fmt.Println("in a, not b: ", got.Difference)
	if err := a.Union(b); err != nil {
		fmt.Println(err)
	}
	fmt.Println("a has both:  ", a.MayContain([]byte("9999")))
	// Output:
	// in a or b:    10022 ± 66
	// in a and b:   1975 ± 42
	// in a, not b:  4023 ± 54
	// a has both:   true
}

// A peer sends its filter; the answer is sent only for keys that the peer may lack.
func ExampleFilter_WriteTo() {
	theirs, err := bloom.New(bloom.Options{Keys: 100, Rate: 0.01, Seed: seed})
	if err != nil {
		fmt.Println(err)
		return
	}
	theirs.Add([]byte("known"))
	var wire bytes.Buffer
	n, err := theirs.WriteTo(&wire)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(n, "bytes")

	damaged := bytes.Clone(wire.Bytes())
	damaged[100]++
	var received bloom.Filter
	fmt.Println("damage is found:", errors.Is(received.UnmarshalBinary(damaged), bloom.ErrDamaged))
	if _, err := received.ReadFrom(&wire); err != nil {
		fmt.Println(err)
		return
	}
	for _, key := range []string{"known", "new"} {
		fmt.Println("send", key+":", !received.MayContain([]byte(key)))
	}
	// Output:
	// 256 bytes
	// damage is found: true
	// send known: false
	// send new: true
}

func ExampleAtomic_AddIfAbsent() {
	seen, err := bloom.NewAtomic(bloom.Options{Keys: 1000, Rate: 0.001, Seed: seed})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, url := range []string{"/a", "/b", "/a"} { // any number of goroutines may do this
		fmt.Println(url, seen.AddIfAbsent([]byte(url)))
	}
	// Output:
	// /a true
	// /b true
	// /a false
}

func ExampleCounting() {
	c, err := bloom.NewCounting(bloom.Options{Keys: 1000, Rate: 0.01, Seed: seed})
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Add([]byte("session 1"))
	c.Add([]byte("session 2"))
	fmt.Println("removed:", c.Remove([]byte("session 1")))
	fmt.Println("removed again:", c.Remove([]byte("session 1")))
	fmt.Println(c.MayContain([]byte("session 1")), c.MayContain([]byte("session 2")))
	fmt.Println(c.Len(), "key,", c.Refused(), "refused")
	// Output:
	// removed: true
	// removed again: false
	// false true
	// 1 key, 1 refused
}

func ExampleScalable() {
	s, err := bloom.NewScalable(bloom.Options{Rate: 0.01, Seed: seed})
	if err != nil {
		fmt.Println(err)
		return
	}
	addNumbers(s, 0, 10_000)
	for i, stage := range s.Stages() {
		fmt.Printf("stage %d: %d of %d keys at %.3f %%\n", i, stage.Added, stage.Keys, 100*stage.Rate)
	}
	fmt.Printf("at most %.2f %% of absent keys pass, now %.2f %%\n", 100*s.RateBound(), 100*s.Rate())
	// Output:
	// stage 0: 1024 of 1024 keys at 0.608 %
	// stage 1: 2048 of 2048 keys at 0.152 %
	// stage 2: 4096 of 4096 keys at 0.068 %
	// stage 3: 2771 of 8192 keys at 0.038 %
	// at most 0.87 % of absent keys pass, now 0.77 %
}

// Events are delivered at least once; the window drops those that were delivered again lately.
func ExampleWindow() {
	w, err := bloom.NewWindow(bloom.Options{Keys: 1000, Rate: 0.001, Seed: seed}, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	deliver := func(event string) { fmt.Println(event, "is new:", w.Add([]byte(event))) }
	deliver("event 1")
	deliver("event 1")
	addNumbers(w, 0, 990)
	deliver("event 1")
	addNumbers(w, 1000, 2000)
	deliver("event 1")
	// Output:
	// event 1 is new: true
	// event 1 is new: false
	// event 1 is new: false
	// event 1 is new: true
}
