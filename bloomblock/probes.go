//go:build !race

package bloomblock

// mostProbes bounds how many random hashes measure a filter's rate. Below a rate of 10⁻⁴ the error grows, and is told.
const mostProbes = 1 << 24
