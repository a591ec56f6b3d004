package words

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Figures writes a head and the figures after it, on several lines if need be. Without figures it writes nothing.
func Figures(w io.Writer, head string, parts ...[]string) {
	line := head + ":"
	for i, part := range slices.Concat(parts...) {
		if i > 0 {
			line += ","
		}
		if len(line)+len(" ,")+len(part) > Width {
			fmt.Fprintln(w, line)
			line = " "
		}
		line += " " + part
	}
	if line != head+":" {
		fmt.Fprintln(w, line)
	}
}

// Times say how often something has happened, and how long it took in all.
type Times struct {
	Count    uint64
	Duration time.Duration
}

// FiguresOf returns the figures of a struct, after their JSON names, without slices in it, and without structs other
// than those with the fields of Times.
func FiguresOf(of any) (parts []string) {
	for field, f := range reflect.ValueOf(of).Fields() {
		name := strings.ReplaceAll(strings.TrimSuffix(field.Tag.Get("json"), "_ns"), "_", " ")
		if times := reflect.TypeFor[Times](); f.CanConvert(times) {
			f = f.Convert(times)
		}
		parts = append(parts, Figure(name, f.Interface())...)
	}
	return parts
}

// Figure returns a figure as text, after its name, or nothing if it is zero. An int64, and a uint64 that is named so,
// is a number of bytes.
func Figure(name string, of any) []string {
	text := ""
	switch v := of.(type) {
	case time.Duration:
		text = v.Round(time.Millisecond).String()
	case int:
		text = Count(v)
	case int64:
		text = Size(v)
	case uint64:
		if text = Count(v); strings.Contains(name, "bytes") {
			text = Size(v)
		}
	case float64:
		text = fmt.Sprintf("%.4g", v)
	case Times:
		text = fmt.Sprintf("%s for %v", Plural(v.Count, "time"), v.Duration.Round(time.Millisecond))
	case bool:
	default:
		return nil
	}
	if reflect.ValueOf(of).IsZero() {
		return nil
	}
	return []string{strings.TrimSpace(name + " " + text)}
}
