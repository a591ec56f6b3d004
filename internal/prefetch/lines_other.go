//go:build !amd64 && !arm64

package prefetch

func lines(uintptr, int) {}

// Line prefetches the cache line of a word.
func Line(*uint64) {}
