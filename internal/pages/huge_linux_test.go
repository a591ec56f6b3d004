//go:build !race

package pages

import "testing"

func TestLargeBlocksBeginAtAHugePage(t *testing.T) {
	p := newPool(true)
	for _, n := range []int{hugeBytes - pageBytes, hugeBytes, hugeBytes + 1, 5 * hugeBytes} {
		b, _ := p.Get(n)
		if n >= hugeBytes && beforeHuge(b) != 0 {
			t.Errorf("%d bytes begin %d before a huge page", n, beforeHuge(b))
		}
		b[0], b[n-1] = 1, 1
		p.Put(b, false)
		p.Trim(0)
	}
}
