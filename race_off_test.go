//go:build !race

package bloomkv

const raceEnabled = false // every test runs whole
