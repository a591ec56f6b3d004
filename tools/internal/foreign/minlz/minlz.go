// Package minlz lets package foreign read MinLZ, a compression of Pebble, in a program that imports it. It is a package
// of its own since the page about a running store should not bring another module into the program.
package minlz

import (
	"github.com/minio/minlz"

	"github.com/bloomkv/bloomkv/tools/internal/foreign"
)

func init() {
	foreign.MinLZ = func(b []byte) ([]byte, error) { return minlz.Decode(nil, b) }
}
