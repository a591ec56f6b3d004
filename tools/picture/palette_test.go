package picture

import (
	"image/color"
	"math"
	"testing"
)

// linear converts the red, green and blue of a color to linear light, 0 to 1 (IEC 61966-2-1).
func linear(c color.NRGBA) (rgb [3]float64) {
	for i, v := range []uint8{c.R, c.G, c.B} {
		s := float64(v) / 255
		if rgb[i] = s / 12.92; s > 0.04045 {
			rgb[i] = math.Pow((s+0.055)/1.055, 2.4)
		}
	}
	return rgb
}

func luminance(rgb [3]float64) float64 { return 0.2126*rgb[0] + 0.7152*rgb[1] + 0.0722*rgb[2] }

// contrast returns the contrast as WCAG 2 defines it.
func contrast(a, b color.NRGBA) float64 {
	x, y := luminance(linear(a)), luminance(linear(b))
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// sight simulates eyes that lack one kind of cones (Machado, Oliveira, Fernandes, "A Physiologically-based Model for
// Simulation of Color Vision Deficiency", IEEE TVCG 2009, severity 1).
var sight = map[string][3][3]float64{
	"all cones": {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"no red":    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"no green":  {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"no blue":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// lab converts a color as seen by an eye to CIELAB, where a distance of 2 or 3 is just visible (white D65).
func lab(c color.NRGBA, eye [3][3]float64) (l [3]float64) {
	rgb := linear(c)
	var s [3]float64
	for i, row := range eye {
		s[i] = min(max(row[0]*rgb[0]+row[1]*rgb[1]+row[2]*rgb[2], 0), 1)
	}
	f := func(t float64) float64 {
		if t > 216.0/24389 {
			return math.Cbrt(t)
		}
		return (24389.0/27*t + 16) / 116
	}
	x := f((0.4124*s[0] + 0.3576*s[1] + 0.1805*s[2]) / 0.95047)
	y := f(luminance(s))
	z := f((0.0193*s[0] + 0.1192*s[1] + 0.9505*s[2]) / 1.08883)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

func TestColorsStandOutAndDifferForEveryEye(t *testing.T) {
	for _, scheme := range []struct {
		name string
		of   func(role) color.NRGBA
	}{
		{"light", func(r role) color.NRGBA { return palette[r].light }},
		{"dark", func(r role) color.NRGBA { return palette[r].dark }},
	} {
		paper := scheme.of(background)
		for r, want := range map[role]float64{ink: 12, muted: 5} {
			if got := contrast(scheme.of(r), paper); got < want {
				t.Errorf("%s: contrast of %s is %.1f, want %v", scheme.name, palette[r].name, got, want)
			}
		}
		for i := range numColors {
			a := lineRole(i)
			if got := contrast(scheme.of(a), paper); got < 3 {
				t.Errorf("%s: contrast of %s is %.1f, want 3", scheme.name, palette[a].name, got)
			}
			for eye, matrix := range sight {
				for j := range i {
					b := lineRole(j)
					v, w := lab(scheme.of(a), matrix), lab(scheme.of(b), matrix)
					const want = 20
					if got := math.Hypot(math.Hypot(v[0]-w[0], v[1]-w[1]), v[2]-w[2]); got < want {
						t.Errorf("%s, %s: %s and %s are %.0f apart, want %d",
							scheme.name, eye, palette[b].name, palette[a].name, got, want)
					}
				}
			}
		}
	}
}

func TestEveryLineHasALookOfItsOwn(t *testing.T) {
	type look struct {
		color role
		mark  mark
	}
	seen := make(map[look]int)
	for i := range maxLines {
		l := look{lineRole(i), marks[i%len(marks)]}
		if j, ok := seen[l]; ok {
			t.Errorf("lines %d and %d look alike", j, i)
		}
		seen[l] = i
	}
}
