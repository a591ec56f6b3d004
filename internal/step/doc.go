// Package step is how the store names the moments at which its goroutines can meet, and how they wait for each other.
//
// In an ordinary build nothing is left of it: At and Until do nothing, and the rest is what packages sync, context and
// time have. With the build tag "schedule", a test runs a store with one goroutine at a time and chooses, from a seed,
// which one goes on at each of these moments: see Run in schedule.go. A schedule that has shown a mistake shows it
// again.
//
// All goroutines of a store that take its locks, and whatever they wait for, are by this package. A lock that is held
// over no call that waits may be one of sync.
package step
