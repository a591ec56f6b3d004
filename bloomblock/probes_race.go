//go:build race

package bloomblock

// mostProbes is less where the race detector makes each question forty times as slow.
const mostProbes = 1 << 19
