//go:build !race

package bloomkv

const raceEnabled = false // tests run in full
