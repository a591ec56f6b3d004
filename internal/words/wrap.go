package words

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Width is how wide text is, in characters, but for keys that are longer.
const Width = 80

// Wrapped breaks text into lines of at most Width, the further ones indented.
func Wrapped(w io.Writer, text string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > Width:
			fmt.Fprintln(w, line)
			line = "  " + word
		default:
			line += " " + word
		}
	}
	fmt.Fprintln(w, line)
}

// Cut shortens what is too long for so many columns.
func Cut(s string, columns int) string {
	runes := []rune(s)
	if len(runes) <= columns {
		return s
	}
	return string(runes[:columns-1]) + "…"
}

// Pair is two texts in a line with words between them, or where that is too long for one, cut, in two.
func Pair(from, a, to, b string) string {
	line := from + " " + a + " " + to + " " + b
	if utf8.RuneCountInString(line) <= Width {
		return line
	}
	indent := strings.Repeat(" ", max(0, len(from)-len(to)))
	return Cut(from+" "+a, Width) + "\n" + Cut(indent+to+" "+b, Width)
}
