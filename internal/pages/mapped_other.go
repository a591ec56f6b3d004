//go:build !unix || race

package pages

// mapped returns n zeroed bytes of the heap.
func mapped(n int) []byte { return make([]byte, n) }

// unmap leaves memory to the collector. After Strict it overwrites it first.
func unmap(b []byte) {
	if strict.Load() {
		for i := range b {
			b[i] = 0xdb
		}
	}
}
