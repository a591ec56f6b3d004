package words

import (
	"slices"
	"strconv"
	"strings"
)

// Plural returns a number, 0 or more, with a noun, such as "1 table" or "2,000 tables", for the nouns of this tool.
func Plural[N int | int64 | uint64](n N, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "sh"), strings.HasSuffix(noun, "ch"), strings.HasSuffix(noun, "x"):
		noun += "es"
	case strings.HasSuffix(noun, "ry"): // entry
		noun = strings.TrimSuffix(noun, "y") + "ies"
	default:
		noun += "s"
	}
	return Count(n) + " " + noun
}

// Count formats a number, 0 or more, with commas between thousands.
func Count[N int | int64 | uint64](n N) string {
	s := strconv.AppendUint(nil, uint64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = slices.Insert(s, i, ',')
	}
	return string(s)
}

// MiB returns text like "64 MiB" for a number of bytes, 0 or more; a part of one is rounded to a tenth.
func MiB(bytes int64) string {
	if bytes%(1<<20) == 0 {
		return Count(bytes>>20) + " MiB"
	}
	return strconv.FormatFloat(float64(bytes)/(1<<20), 'f', 1, 64) + " MiB"
}
