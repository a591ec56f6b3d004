// Package prefetch asks the processor to load memory into its caches before it is used. Unlike a load, a prefetch that
// misses holds up nothing that follows it. On processors other than amd64 and arm64 it does nothing.
package prefetch

import "unsafe"

// Bytes prefetches all cache lines of b.
func Bytes(b []byte) {
	if len(b) > 0 {
		lines(uintptr(unsafe.Pointer(&b[0])), len(b))
	}
}

// Steps is memory that is prefetched step by step. A processor has about a dozen cache lines under way at a time, and
// waits when more are asked for. So the lines of a whole block are better prefetched a few at a time, between other
// work. Steps does not keep the memory alive. The memory may even be unmapped meanwhile, since a prefetch never faults.
type Steps struct{ at, end, step uintptr }

// InSteps returns b, to be prefetched in n steps at most; n is at least 1.
func InSteps(b []byte, n int) Steps {
	if len(b) == 0 {
		return Steps{}
	}
	at := uintptr(unsafe.Pointer(&b[0]))
	most := (len(b) + line - 1) / line
	return Steps{at, at + uintptr(len(b)), uintptr((most + n - 1) / n * line)}
}

// Next takes a step, if one is left.
func (s *Steps) Next() {
	if s.at < s.end {
		lines(s.at, int(s.step))
		s.at += s.step
	}
}

// Take takes n steps at once, or those that are left.
func (s *Steps) Take(n int) {
	if s.at < s.end && n > 0 {
		step := min(s.step*uintptr(n), s.end-s.at)
		lines(s.at, int(step))
		s.at += step
	}
}

// line is the size of a cache line in bytes.
const line = 64
