//go:build unix

package prefetch_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bloomkv/bloomkv/internal/prefetch"
)

// Memory may be unmapped before all its steps are taken.
func TestStepsDoNotFault(t *testing.T) {
	b, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	must(t, err)
	for _, n := range []int{0, 1, 63, 64, 65, 4096, len(b)} {
		for _, steps := range []int{1, 2, 33, 1 << 20} {
			s := prefetch.InSteps(b[:n], steps)
			some := s
			some.Take(steps)
			for range steps {
				s.Next()
			}
			end := s
			before := some
			if some.Take(1); some != before {
				t.Errorf("%d bytes in %d steps: Take(%d) leaves some", n, steps, steps)
			}
			if s.Next(); s != end {
				t.Errorf("%d bytes are not over after %d steps", n, steps)
			}
		}
	}
	s := prefetch.InSteps(b, 1<<10)
	s.Next()
	must(t, unix.Munmap(b))
	for range 1 << 10 {
		s.Next()
	}
}
