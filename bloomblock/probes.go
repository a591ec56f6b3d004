//go:build !race

package bloomblock

// mostProbes is the largest number of random hashes that measure a filter's rate. Rates below 10⁻⁴ are measured less
// exactly for it; Measured.Err says how exactly.
const mostProbes = 1 << 24
