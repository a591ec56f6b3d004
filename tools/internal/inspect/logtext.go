package inspect

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/bloomkv/bloomkv/internal/words"
)

// String describes the log in a line.
func (f *Log) String() string {
	s := fmt.Sprintf("%s: %s, %s up to %d, durable up to %d", words.Escaped([]byte(f.File), 64),
		words.Plural(f.Bytes, "byte"), words.Plural(f.Records, "record"), f.End, f.Promise)
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
		s += fmt.Sprintf("; then %s of reserved zeros", words.Plural(f.Reserved, "byte"))
	}
	if f.Torn != "" {
		s += "; torn there: " + string(words.AppendPrintable(nil, []byte(f.Torn)))
	}
	return s
}

// String describes the break.
func (b *Break) String() string {
	s := fmt.Sprintf("at offset %d: %s; %s from there on", b.Offset, words.AppendPrintable(nil, []byte(b.Reason)),
		words.Plural(b.Unread, "byte"))
	switch b.Behind {
	case 0:
		s += ", with no record after it"
	case 1:
		s += fmt.Sprintf(", with a record after it, at %d", b.Next)
	default:
		s += fmt.Sprintf(", with %d records after it, the first at %d", b.Behind, b.Next)
	}
	if b.Opening == openingRefused {
		return s + "; they would be lost, so opening the store is refused"
	}
	return s + "; they were never acknowledged, and opening the store cuts them off"
}

// writeBreak writes the break, if there is one.
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

// WriteText writes a line for the log and for each record, and with Options.Entries for each operation.
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

// holds describes the contents of a record.
func (r *Record) holds() string {
	if r.Error != "" {
		return "not a batch: " + string(words.AppendPrintable(nil, []byte(r.Error)))
	}
	var parts []string
	for _, p := range []struct {
		n    int
		noun string
	}{{r.Puts, "put"}, {r.Deletes, "delete"}, {r.Ranges, "range delete"}, {r.Marks, "mark"}} {
		if p.n > 0 {
			parts = append(parts, words.Plural(p.n, p.noun))
		}
	}
	return fmt.Sprintf("from sequence %d: %s", r.FirstSeq, strings.Join(parts, ", "))
}

// String describes the operation in a line.
func (o *Op) String() string {
	switch o.Kind {
	case "put":
		return fmt.Sprintf("put %s, %s", o.Key, words.Plural(o.Value, "byte"))
	case "delete", "mark":
		return o.Kind + " " + o.Key
	default:
		to := "before " + o.To
		if o.NoEnd {
			to = "the end"
		}
		return fmt.Sprintf("range delete %s … %s", cmp.Or(o.Key, "the first key"), to)
	}
}
