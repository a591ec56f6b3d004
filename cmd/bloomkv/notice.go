package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/bloomkv/bloomkv/internal/cli"
	"github.com/bloomkv/bloomkv/internal/words"
)

// Input may be something else than the lines that it is taken for. What no line can be is an error; what a line can be, as
// load must read all that dump writes, is stored as it is, with a note.

var (
	utf8BOM    = []byte("\xef\xbb\xbf")
	utf16BOMs  = [][]byte{[]byte("\xff\xfe"), []byte("\xfe\xff")}
	gzipMagic  = []byte{0x1f, 0x8b}
	errGzip    = errors.New("compressed with gzip, want lines: unpack it first, for example with gunzip -c")
	errUTF16   = errors.New("text in UTF-16, want UTF-8: convert it first, for example with iconv -f UTF-16 -t UTF-8")
	utf16Note  = "it begins like text in UTF-16, whose bytes are stored as they are; iconv -f UTF-16 -t UTF-8 makes lines of such text"
	bomNote    = "it begins with a byte order mark (EF BB BF), which is stored as a part of the first key; tail -c +4 leaves it out"
	returnNote = "line %d ends with a carriage return, which is stored as the last byte of its value; with --crlf it is a part of the line's end"
)

// open begins to read lines, and looks at how they begin.
func (l *loader) open(in io.Reader) (*lineReader, error) {
	r := newLineReader(in, l.format.longest)
	head, err := r.in.Peek(len(utf8BOM))
	if err != nil && !errors.Is(err, io.EOF) {
		return r, nil // the first line has the error
	}
	tsv := l.format.name == "tsv"
	switch {
	case bytes.HasPrefix(head, gzipMagic) && gzipped(r):
		return nil, errGzip
	case !tsv && hasUTF16BOM(head):
		return nil, errUTF16
	case hasUTF16BOM(head):
		l.note(utf16Note)
	case !bytes.HasPrefix(head, utf8BOM):
	case tsv:
		l.note(bomNote)
	default: // no other format has it in a line
		_, err = r.in.Discard(len(utf8BOM))
		return r, err
	}
	return r, nil
}

func hasUTF16BOM(head []byte) bool {
	return bytes.HasPrefix(head, utf16BOMs[0]) || bytes.HasPrefix(head, utf16BOMs[1])
}

// gzipped reports whether the beginning of the lines can be unpacked. A key may well begin as a gzip file does, but then
// what follows is no packed data.
func gzipped(r *lineReader) bool {
	head, _ := r.in.Peek(4 << 10) // what there is of it
	z, err := gzip.NewReader(bytes.NewReader(head))
	if err != nil {
		return false
	}
	n, err := z.Read(make([]byte, 1))
	return n > 0 || errors.Is(err, io.EOF)
}

// noteReturn notes the first line of tsv that ends with a carriage return.
func (l *loader) noteReturn(number int, line []byte) {
	if l.returns || l.crlf || l.format.name != "tsv" || !bytes.HasSuffix(line, []byte{'\r'}) {
		return
	}
	l.returns = true
	l.note(fmt.Sprintf(returnNote, number))
}

// note prints advice on the error stream that ends nothing, above a bar.
func (a *app) note(bar cli.Progress, about, text string) {
	bar.End()
	fmt.Fprintf(a.Err, "bloomkv: note: %s: %s\n", words.AppendPrintable(nil, []byte(about)), text)
}
