package picture

import (
	"fmt"
	"math"
	"strings"
)

// markSVG is the mark of the pages: a flower whose petals are bits, some of them set. iconSVG is the same for the tab
// of a browser.
var (
	markSVG = `<svg class="mark" viewBox="0 0 32 32" aria-hidden="true">` + petals() + `</svg>`
	iconSVG = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" ` +
		`fill="#07313a"/>` + petals() + `</svg>`
)

func petals() string {
	const bits = "11010110"
	var b strings.Builder
	for i, bit := range bits {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / float64(len(bits)))
		opacity := ".3"
		if bit == '1' {
			opacity = "1"
		}
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3.7" fill="#5eead4" fill-opacity="%s"/>`, 16+10*cos, 16+10*sin,
			opacity)
	}
	return b.String() + `<circle cx="16" cy="16" r="4" fill="#ffd166"/>`
}
