//go:build !race

package filterexam

// mostProbes is the largest number of random hashes used to measure a filter's rate. Rates below 10⁻⁴ are therefore
// measured less exactly; see Measured.Err.
const mostProbes = 1 << 24
