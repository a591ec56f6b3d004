// Package prefetch asks the processor to load memory into its caches before it is used. Unlike a load, a prefetch that
// misses holds up nothing that follows it. On processors other than amd64 and arm64 it does nothing.
package prefetch

// Bytes prefetches all cache lines of b.
func Bytes(b []byte) {
	if len(b) > 0 {
		lines(&b[0], len(b))
	}
}
