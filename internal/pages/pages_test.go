package pages

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

func TestMemoryThatWasGivenBackIsLentAgain(t *testing.T) {
	p := NewPool()
	a, zeroed := p.Get(pageBytes + 1)
	if len(a) != pageBytes+1 || cap(a) != len(a) || !zeroed || !bytes.Equal(a, make([]byte, len(a))) {
		t.Fatalf("%d bytes of %d, zeroed %v: want %d zeros", len(a), cap(a), zeroed, pageBytes+1)
	}
	b, _ := p.Get(3 * pageBytes)
	if p.Lent() != 5*pageBytes || p.Idle() != 0 {
		t.Errorf("%d bytes are lent, %d idle, want 5 pages and 0", p.Lent(), p.Idle())
	}
	a[0], b[0] = 1, 2
	p.Put(a, false)
	if p.Lent() != 3*pageBytes || p.Idle() != 2*pageBytes {
		t.Errorf("%d bytes are lent, %d idle, want 3 pages and 2", p.Lent(), p.Idle())
	}
	if c, zeroed := p.Get(pageBytes); !zeroed || &c[0] == &a[0] {
		t.Error("memory of another size was lent")
	}
	if c, zeroed := p.Get(2 * pageBytes); zeroed || &c[0] != &a[0] || len(c) != 2*pageBytes || c[0] != 1 {
		t.Error("the memory that was given back was not lent again")
	}
	clear(b)
	p.Put(b, true)
	if c, zeroed := p.Get(3 * pageBytes); !zeroed || &c[0] != &b[0] {
		t.Error("the zeroed memory was not lent again as such")
	}
}

func TestPreparedMemoryIsLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool()
		prepare := func(n int, want int64) {
			t.Helper()
			p.Prepare(n)
			synctest.Wait()
			if p.Idle() != want {
				t.Errorf("%d bytes are idle, want %d", p.Idle(), want)
			}
		}
		const n = 2*hugeBytes + 5
		prepare(n, 2*hugeBytes+pageBytes)
		prepare(n, 2*hugeBytes+pageBytes) // enough is idle
		a, zeroed := p.Get(n)
		if len(a) != n || !zeroed || !bytes.Equal(a, make([]byte, n)) || p.Idle() != 0 {
			t.Errorf("%d bytes, zeroed %v, %d idle: want %d zeros and nothing idle", len(a), zeroed, p.Idle(), n)
		}
		p.preparing = true
		prepare(n, 0) // other memory is being prepared
		p.preparing = false
		prepare(n, 2*hugeBytes+pageBytes)
		if b, _ := p.Get(n); &b[0] == &a[0] {
			t.Error("memory was lent twice")
		}
		prepare(pageBytes, pageBytes)
		p.Trim(0)
		if p.Idle() != 0 {
			t.Errorf("%d bytes are idle after Trim", p.Idle())
		}
	})
}

func TestTrimKeepsWhatItIsAskedTo(t *testing.T) {
	p := NewPool()
	var lent [][]byte
	for range 8 {
		b, _ := p.Get(pageBytes)
		lent = append(lent, b)
	}
	for _, b := range lent {
		p.Put(b, false)
	}
	for _, keep := range []int64{9, 8, 5, 2, 0} {
		p.Trim(keep*pageBytes + 1)
		if want := min(keep, 8) * pageBytes; p.Idle() != want {
			t.Errorf("%d bytes are idle, want %d", p.Idle(), want)
		}
	}
}

// Words of memory outside the heap are atomic too, and goroutines may share them.
func TestWordsAreSharedByGoroutines(t *testing.T) {
	p := NewPool()
	b, _ := p.Get(pageBytes)
	words := As[atomic.Uint64](b)
	if len(words) != pageBytes/8 {
		t.Fatalf("%d words, want %d", len(words), pageBytes/8)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range words {
				words[i].Add(1)
			}
		})
	}
	all.Wait()
	for i := range words {
		if n := words[i].Load(); n != 4 {
			t.Fatalf("word %d is %d, want 4", i, n)
		}
	}
	runtime.KeepAlive(p)
}

func TestAPoolThatIsGarbageGivesItsMemoryBack(t *testing.T) {
	s := func() *shelf {
		p := NewPool()
		p.Get(pageBytes)
		idle, _ := p.Get(hugeBytes)
		p.Put(idle, false)
		return p.shelf
	}()
	testkit.Soon(t, "no blocks are left", func() bool {
		runtime.GC()
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.lent)+len(s.idle) == 0
	})
}
