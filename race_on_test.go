//go:build race

package bloomkv

const raceEnabled = true // slow tests run a part of their cases
