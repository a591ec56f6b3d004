//go:build race

package bloomkv

const raceEnabled = true // heavy tests run at a stride
