package bloomblock

import (
	"flag"
	"fmt"
	"testing"
)

// many is the number of keys of TestOfManyKeysNoneIsDenied.
var many = flag.Uint64("keys", 1_000_000, "keys of the test that none of them is denied")

func TestOfManyKeysNoneIsDenied(t *testing.T) {
	for _, p := range []Params{
		paramsFor(t, 0.00855), paramsFor(t, 1e-5), ribbonOf(t, 0.00855), ribbonOf(t, 0.1, 1e-4),
	} {
		t.Run(fmt.Sprintf("%d units, Ribbon %v", len(p.Units()), p.Ribbon()), func(t *testing.T) {
			f := filterOf(t, p, hashesOf(numbered, 0, *many))
			if (f.ribbon != nil) != p.Ribbon() {
				t.Errorf("a Ribbon unit is there: %v, want %v", f.ribbon != nil, p.Ribbon())
			}
			for h := range hashesOf(numbered, 0, *many) {
				if !f.MayContain(h) {
					t.Fatalf("%x is denied", h)
				}
			}
			if rate := rateOfBits(f); rate > p.Rate()*1.005 {
				t.Errorf("%.4g from the bits, promised %.4g", rate, p.Rate())
			}
		})
	}
}
