package bloomblock

import (
	"encoding/binary"
	"testing"
)

func numbered(i uint64) []byte { return binary.BigEndian.AppendUint64(nil, i) }

func TestSmoke(t *testing.T) {
	for _, rate := range []float64{0.5, 0.1, 0.01, 0.001, 1e-4, 1e-5, 1e-6, 1e-9} {
		p, err := ParamsFor(rate)
		if err != nil {
			t.Fatal(err)
		}
		var b Builder
		const n = 1000000
		for i := range uint64(n) {
			b.Add(HashKey(numbered(i)))
		}
		f, err := Parse(b.AppendBlock(nil, p))
		if err != nil {
			t.Fatal(err)
		}
		fp := 0
		for i := range uint64(n) {
			if !f.MayContain(HashKey(numbered(i))) {
				t.Fatal("false negative")
			}

		}
		const q = 10000000
		for i := range uint64(q) {
			if f.MayContain(HashKey(numbered(i + n))) {
				fp++
			}
		}
		t.Logf("%v: %v bits %v promised %v exact %v measured %v", rate, p.Units(), p.BitsPerKey(), p.Rate(), f.FalsePositiveRate(), float64(fp)/q)
	}
	p, err := ParamsNested(0.0085, 0.00085, 0.000085)
	t.Log(p.Units(), p.BitsPerKey(), p.Rate(), err)
}
