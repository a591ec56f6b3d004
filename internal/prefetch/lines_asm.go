//go:build amd64 || arm64

package prefetch

// lines prefetches the cache lines of the n bytes at p; n is at least 1.
func lines(p uintptr, n int)

// Line prefetches the cache line of a word.
//
//go:noescape
func Line(p *uint64)
