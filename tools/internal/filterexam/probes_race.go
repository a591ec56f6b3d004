//go:build race

package filterexam

// mostProbes is smaller here because the race detector makes each probe forty times as slow.
const mostProbes = 1 << 19
