package words

import (
	"fmt"
	"io"
	"strings"
)

// Width is the width of text in characters.
const Width = 80

// Wrapped breaks text at spaces into lines of at most Width and indents all but the first. A longer word is broken too.
func Wrapped(w io.Writer, text string) {
	const indent = "  "
	line, empty := []rune{}, true
	flush := func() {
		fmt.Fprintln(w, strings.TrimRight(string(line), " "))
		line, empty = []rune(indent), true
	}
	for part := range strings.SplitSeq(text, " ") {
		word := []rune(part)
		if !empty && len(line)+1+len(word) > Width {
			flush()
		}
		if !empty {
			line = append(line, ' ')
		}
		for len(line)+len(word) > Width {
			n := Width - len(line)
			line, word = append(line, word[:n]...), word[n:]
			flush()
		}
		line, empty = append(line, word...), false
	}
	flush()
}

// Cut shortens s to at most the given number of columns.
func Cut(s string, columns int) string {
	runes := []rune(s)
	if len(runes) <= columns {
		return s
	}
	return string(runes[:columns-1]) + "…"
}
