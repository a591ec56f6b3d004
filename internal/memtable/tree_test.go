package memtable

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// TestATreeHoldsItemsInOrder compares a tree with a sorted slice, for several orders of insertion, with heads that
// distinguish keys and with heads that do not.
func TestATreeHoldsItemsInOrder(t *testing.T) {
	const n = 20_000
	random := rand.New(rand.NewPCG(1, 2))
	for name, order := range map[string]func(i int) int{
		"ascending":  func(i int) int { return i },
		"descending": func(i int) int { return n - 1 - i },
		"both ends":  func(i int) int { return []int{i / 2, n - 1 - i/2}[i%2] },
		"inward out": func(i int) int { return []int{n/2 + i/2, n/2 - 1 - i/2}[i%2] },
		"random":     func() func(i int) int { p := random.Perm(n); return func(i int) int { return p[i] } }(),
	} {
		for _, heads := range []string{"distinct", "equal"} {
			tb := newTable(t, nil, 0)
			item := func(i int) item {
				key := fmt.Appendf(nil, "%08d", 2*i)
				it := item{head: ikey.Head(key), first: tb.arena.put(0, 0, uint32(i), key, nil), id: uint32(i)}
				if heads == "equal" {
					it.head = 7
				}
				return it
			}
			for i := range n {
				tb.insertInTree(item(order(i)))
			}
			id := func(p position) int {
				if p.leaf == 0 {
					return -1
				}
				return int(tb.itemAt(p).id)
			}
			var up, down []int
			for p := tb.firstPosition(); p.leaf != 0; p = tb.after(p) {
				up = append(up, id(p))
			}
			for p := tb.lastPosition(); p.leaf != 0; p = tb.before(p) {
				down = append(down, id(p))
			}
			slices.Reverse(down)
			if len(up) != n || !slices.IsSorted(up) || !slices.Equal(up, down) {
				t.Fatalf("%s, %s heads: %d items upward, %d downward, want %d in order",
					name, heads, len(up), len(down), n)
			}
			for i := 0; i < n; i += 1 + i%7 {
				at := item(i)
				if got, want := [2]int{id(tb.seekGE(at)), id(tb.seekLE(at))}, [2]int{i, i}; got != want {
					t.Fatalf("%s, %s heads: at %d: %v, want %v", name, heads, i, got, want)
				}
				between := item(i)
				key := fmt.Appendf(nil, "%08d", 2*i+1)
				between.first = tb.arena.put(0, 0, 0, key, nil)
				if heads == "distinct" {
					between.head = ikey.Head(key)
				}
				want := [2]int{i + 1, i}
				if i == n-1 {
					want[0] = -1
				}
				if got := [2]int{id(tb.seekGE(between)), id(tb.seekLE(between))}; got != want {
					t.Fatalf("%s, %s heads: after %d: %v, want %v", name, heads, i, got, want)
				}
			}
		}
	}
}

func TestAnEmptyTreeHasNoPosition(t *testing.T) {
	tb := newTable(t, nil, 0)
	probe := tb.take([]byte("k"))
	defer tb.give(probe)
	for _, p := range []position{tb.firstPosition(), tb.lastPosition(), tb.seekGE(probe), tb.seekLE(probe)} {
		if p.leaf != 0 {
			t.Errorf("an empty tree has a position %v", p)
		}
	}
}

// BenchmarkOrder inserts keys in random order into the tree alone.
func BenchmarkOrder(b *testing.B) {
	const n = 400_000
	order := rand.New(rand.NewPCG(1, 2)).Perm(n)
	for b.Loop() {
		tb := New(nil, 0, 0)
		for i := range n {
			h := uint64(order[i])
			tb.insertInTree(item{head: h, id: uint32(h)})
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/key")
}
