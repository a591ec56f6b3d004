package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
)

// The input may not consist of lines. If it cannot, that is an error. If it may, it is stored unchanged with a note,
// since load must read everything that dump writes.

var (
	utf8BOM   = []byte("\xef\xbb\xbf")
	utf16BOMs = [][]byte{[]byte("\xff\xfe"), []byte("\xfe\xff")}
	gzipMagic = []byte{0x1f, 0x8b}
	errGzip   = errors.New("compressed with gzip, want lines: decompress it first, for example with gunzip -c")
	errUTF16  = errors.New("text in UTF-16, want UTF-8: convert it first, for example with iconv -f UTF-16 -t UTF-8")
	utf16Note = "it looks like text in UTF-16, whose bytes are stored unchanged; to convert it use iconv -f UTF-16 " +
		"-t UTF-8"
	bomNote = "it begins with a byte order mark (EF BB BF), which becomes part of the first key; to remove it use " +
		"tail -c +4"
	returnNote = "line %d ends with a carriage return, which becomes the last byte of its value; use --crlf if it is " +
		"part of the line end"
)

// open starts to read lines and checks how the input begins.
func (l *loader) open(in io.Reader) (*lineReader, error) {
	r := newLineReader(in, l.format.longest)
	head, err := r.in.Peek(len(utf8BOM))
	if err != nil && !errors.Is(err, io.EOF) {
		return r, nil // reading the first line returns the error
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
	default: // in other formats it is not part of a line
		_, err = r.in.Discard(len(utf8BOM))
		return r, err
	}
	return r, nil
}

func hasUTF16BOM(head []byte) bool {
	return bytes.HasPrefix(head, utf16BOMs[0]) || bytes.HasPrefix(head, utf16BOMs[1])
}

// gzipped reports whether the beginning of the input can be decompressed. A key may begin like a gzip file, but then
// the rest is not compressed data.
func gzipped(r *lineReader) bool {
	head, _ := r.in.Peek(4 << 10) // as much as there is
	z, err := gzip.NewReader(bytes.NewReader(head))
	if err != nil {
		return false
	}
	n, err := z.Read(make([]byte, 1))
	return n > 0 || errors.Is(err, io.EOF)
}

// noteReturn prints a note about the first line of tsv that ends with a carriage return.
func (l *loader) noteReturn(number int, line []byte) {
	if l.returns || l.crlf || l.format.name != "tsv" || !bytes.HasSuffix(line, []byte{'\r'}) {
		return
	}
	l.returns = true
	l.note(fmt.Sprintf(returnNote, number))
}

// note prints advice on the error stream, above a bar.
func (a *app) note(bar cli.Progress, about, text string) {
	bar.End()
	fmt.Fprintf(a.Err, "bloomkv: note: %s: %s\n", words.AppendPrintable(nil, []byte(about)), text)
}
