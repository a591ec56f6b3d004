package tests

import (
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv/internal/storetest"
)

// everywhere makes the test damage each byte and truncate files at each length, instead of a selection: it takes
// minutes.
var everywhere = flag.Bool("everywhere", false, "salvage a store with damage at every byte of every file")

// TestSalvageLosesOnlyWhatDamagedBlocksHeld flips a bit in bytes of every file of a store, truncates files and removes
// them. Everything outside of damaged blocks must be in the new store.
func TestSalvageLosesOnlyWhatDamagedBlocksHeld(t *testing.T) {
	for _, closed := range []bool{true, false} {
		t.Run(fmt.Sprintf("closed %v", closed), func(t *testing.T) {
			d := newSalvageStore(t, closed)
			stride := 173
			switch {
			case *everywhere:
				stride = 1
			case storetest.RaceEnabled || testing.Short():
				stride *= 10
			}
			edges := map[string]map[int]bool{} // offsets at which parts of a file begin or end
			for _, i := range d.items {
				if edges[i.file] == nil {
					edges[i.file] = map[int]bool{}
				}
				edges[i.file][i.from], edges[i.file][i.to] = true, true
			}
			var all []salvageDamage
			total, shift := 0, 0
			for _, file := range d.files {
				n := d.sizes[file]
				total += n
				all = append(all, removed(file))
				for at := range n {
					near := edges[file][at] || edges[file][at+1] || at < 2 || at >= n-2
					if (at+shift)%stride == 0 || near && at%7 == 0 {
						all = append(all, flipped(file, at, at%8))
					}
					if (at+shift)%(3*stride) == 0 || near && (*everywhere || at%5 == 0) {
						all = append(all, cutTo(file, at))
					}
				}
				shift += n
			}
			var next atomic.Int64
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					for !t.Failed() {
						i := int(next.Add(1) - 1)
						if i >= len(all) {
							return
						}
						d.try(t, all[i])
						storetest.Progress.Add(1)
					}
				})
			}
			wg.Wait()
			t.Logf("%d bytes in %d files, %d damages", total, len(d.files), len(all))
		})
	}
}
