package words

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Plural returns a number with a noun, such as "1 table" or "2 tables", for the nouns of this tool.
func Plural[N int | int64 | uint64](n N, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "sh"): // flush
		noun += "es"
	case strings.HasSuffix(noun, "ry"): // entry
		noun = strings.TrimSuffix(noun, "y") + "ies"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Count formats a number, 0 or more, with commas between thousands.
func Count(n int) string {
	s := []byte(strconv.Itoa(n))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = slices.Insert(s, i, ',')
	}
	return string(s)
}
