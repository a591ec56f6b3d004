//go:build !linux || race

package pages

func mappedHuge(n int) (b, whole []byte) {
	b = mapped(n)
	return b, b
}
