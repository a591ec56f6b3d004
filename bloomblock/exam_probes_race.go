//go:build race

package bloomblock

// mostProbes is smaller here because the race detector makes each probe forty times as slow.
const mostProbes = 1 << 19
