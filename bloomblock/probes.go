//go:build !race

package bloomblock

// mostProbes bounds how often a filter is asked to measure its rate: below a rate of 10⁻⁴ the error grows, and is told.
const mostProbes = 1 << 24
