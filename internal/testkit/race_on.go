//go:build race

package testkit

// RaceEnabled is true under the race detector, where slow tests run a part of their cases.
const RaceEnabled = true
