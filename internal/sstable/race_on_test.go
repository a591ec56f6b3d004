//go:build race

package sstable

const raceEnabled = true // which allocates, and empties pools
