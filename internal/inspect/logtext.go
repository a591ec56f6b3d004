package inspect

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/bloomkv/bloomkv/internal/words"
)

// String is a line about the log.
func (f *Log) String() string {
	s := fmt.Sprintf("%s: %s, %s up to %d, says it is durable up to %d", words.Escaped([]byte(f.File), 64), words.Plural(f.Bytes, "byte"), words.Plural(f.Records, "record"), f.End, f.Promise)
	if f.Error != "" && f.Break == nil {
		return fmt.Sprintf("%s: %s", f.File, words.AppendPrintable(nil, []byte(f.Error)))
	}
	if f.OlderDurable {
		s += ", and all older logs"
	}
	if f.Operations > 0 {
		s += fmt.Sprintf("; %s, sequences %d to %d", words.Plural(f.Operations, "operation"), f.FirstSeq, f.LastSeq)
	}
	if f.Reserved > 0 {
		s += fmt.Sprintf("; %s of zeros behind, reserved", words.Plural(f.Reserved, "byte"))
	}
	if f.Torn != "" {
		s += "; torn there: " + string(words.AppendPrintable(nil, []byte(f.Torn)))
	}
	return s
}

// String is what a break means.
func (b *Break) String() string {
	s := fmt.Sprintf("at offset %d: %s; %s from there on", b.Offset, words.AppendPrintable(nil, []byte(b.Reason)), words.Plural(b.Unread, "byte"))
	switch b.Behind {
	case 0:
		s += ", without a record behind"
	case 1:
		s += fmt.Sprintf(", with a record behind, at %d", b.Next)
	default:
		s += fmt.Sprintf(", with %d records behind, the first at %d", b.Behind, b.Next)
	}
	if b.Opening == openingRefused {
		return s + "; they would be lost, and opening the store is refused"
	}
	return s + "; nobody was promised them, and opening the store cuts them off"
}

// writeBreak writes what is broken of a log, if anything is.
func (f *Log) writeBreak(w io.Writer) {
	if f.Break == nil {
		return
	}
	what := "torn"
	if f.Break.Opening == openingRefused {
		what = "damaged"
	}
	words.Wrapped(w, fmt.Sprintf("! %s %s", what, f.Break))
}

// WriteText writes a line about the log, and one for each record; with --entries one for each operation.
func (l *RecordLog) WriteText(w io.Writer) {
	words.Wrapped(w, fmt.Sprintf("log %s", &l.Log))
	l.writeBreak(w)
	for i := range l.List {
		r := &l.List[i]
		fmt.Fprintf(w, "  record %d: %s at %d, %s\n", i+1, words.Plural(r.Bytes, "byte"), r.Offset, r.holds())
		for _, o := range r.Ops {
			fmt.Fprintf(w, "    %d %s\n", o.Seq, o.String())
		}
		if n := int(r.Operations) - len(r.Ops); n > 0 && len(r.Ops) > 0 {
			fmt.Fprintf(w, "    and %s\n", words.Plural(n, "operation"))
		}
	}
	if l.LeftOut > 0 {
		fmt.Fprintf(w, "  and %s\n", words.Plural(l.LeftOut, "record"))
	}
}

// holds puts what is in a record into words.
func (r *Record) holds() string {
	if r.Error != "" {
		return "no batch: " + string(words.AppendPrintable(nil, []byte(r.Error)))
	}
	var parts []string
	for _, p := range []struct {
		n    int
		noun string
	}{{r.Puts, "put"}, {r.Deletes, "delete"}, {r.Ranges, "range delete"}} {
		if p.n > 0 {
			parts = append(parts, words.Plural(p.n, p.noun))
		}
	}
	return fmt.Sprintf("from sequence %d: %s", r.FirstSeq, strings.Join(parts, ", "))
}

// String is a line about an operation.
func (o *Op) String() string {
	switch o.Kind {
	case "put":
		return fmt.Sprintf("put %s, %s", o.Key, words.Plural(o.Value, "byte"))
	case "delete":
		return "delete " + o.Key
	default:
		to := "before " + o.To
		if o.NoEnd {
			to = "the end"
		}
		return fmt.Sprintf("range delete %s … %s", cmp.Or(o.Key, "the first key"), to)
	}
}
