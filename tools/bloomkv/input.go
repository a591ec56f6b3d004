package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
)

const formatHelp = `Formats, one pair per line, which ends with a line feed:
  tsv   key TAB value. The key must not contain a TAB, neither may contain a line feed; the value may contain TABs.
  hex   the same with key and value in hexadecimal digits, for any bytes.
  json  {"key":"…","value":"…"}, or "key_base64" and "value_base64" for bytes that are not UTF-8.`

const crlfHelp = `

In tsv, a carriage return before the line feed is the last byte of the value, because dump must print exactly what load
has read. With --crlf it is part of the line end, and every line must have one. In hex and json it is ignored, and so is
a byte order mark before the first line. Input compressed with gzip is an error. A note on standard error reports when a
carriage return or a byte order mark becomes part of a pair.`

// addFormat adds --format to a command.
func addFormat(c *cobra.Command, name *string) {
	c.Flags().StringVar(name, "format", "tsv", "`FORMAT` of the lines: tsv, hex or json")
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.name
	}
	if err := c.RegisterFlagCompletionFunc("format",
		cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is there
	}
}

// lineFlags define how the lines of an input are read.
type lineFlags struct {
	format string
	crlf   bool
}

func (l *lineFlags) add(c *cobra.Command) {
	addFormat(c, &l.format)
	c.Flags().BoolVar(&l.crlf, "crlf", false, "lines of tsv end with a carriage return and a line feed")
}

func (l *lineFlags) loader() (*loader, error) {
	f, err := findFormat(l.format)
	if err != nil {
		return nil, fmt.Errorf("--format: %w", err)
	}
	if l.crlf && f.name != "tsv" {
		return nil, fmt.Errorf("--crlf is for tsv; in %s a carriage return is ignored", f.name)
	}
	if l.crlf {
		f.longest++ // the carriage return
	}
	return &loader{format: f, crlf: l.crlf}, nil
}

// input is the source of the lines of a command.
type input struct {
	in    io.Reader
	name  string // for errors
	size  int64  // in bytes, or below 0 where it is unknown
	close func()
}

// openInput opens the file that the last argument names, or standard input without an argument or with "-".
func (a *app) openInput(ctx context.Context, args []string) (*input, error) {
	if len(args) == 0 || args[0] == "-" {
		return &input{in: a.In, name: "standard input", size: -1, close: func() {}}, nil
	}
	file, err := cli.Open(ctx, args[0])
	if err != nil {
		return nil, cli.PathError(args[0], err)
	}
	i := &input{in: file, name: args[0], size: -1, close: func() { _ = file.Close() }} // only read
	info, err := file.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = fmt.Errorf("%s is a directory, want a file of lines", args[0])
	case info.Mode().IsRegular():
		i.size = info.Size()
	}
	if err != nil {
		i.close()
		return nil, err
	}
	return i, nil
}

// read returns a reader of the input that ends with ctx and moves a bar.
func (i *input) read(ctx context.Context, bar cli.Progress) io.Reader {
	return io.TeeReader(cli.UntilDone(ctx, i.in), bar)
}

// named adds the name of the input to an error.
func (i *input) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", i.name, err)
}

// loader turns lines into pairs and stores them.
type loader struct {
	format  format
	crlf    bool
	note    func(text string) // prints advice about the input
	returns bool              // the note about carriage returns was printed
	number  int               // of the line that was read last
	lines   int               // stored
	bytes   int64             // of their keys and values
}

// pairs returns the pairs of all lines. A pair is valid until the next one. The last element may be an error, which
// includes the line number.
func (l *loader) pairs(in io.Reader) iter.Seq2[bloomkv.KV, error] {
	return func(yield func(bloomkv.KV, error) bool) {
		lines, err := l.open(in)
		for err == nil {
			var line []byte
			if line, err = lines.next(); errors.Is(err, io.EOF) {
				return
			}
			if err != nil { // it includes the line number
				break
			}
			var kv bloomkv.KV
			l.number = lines.number
			if kv.Key, kv.Value, err = l.parse(line); err != nil {
				err = fmt.Errorf("line %d: %w", l.number, err)
			} else if !yield(kv, nil) {
				return
			}
		}
		yield(bloomkv.KV{}, err)
	}
}

// parse parses one line.
func (l *loader) parse(line []byte) (key, value []byte, err error) {
	l.noteReturn(line)
	if l.crlf {
		n := len(line) - 1
		if n < 0 || line[n] != '\r' {
			return nil, nil, errors.New("ends without a carriage return, want one with --crlf")
		}
		line = line[:n]
	}
	key, value, err = l.format.parse(line)
	if err == nil {
		err = checkSizes(key, value)
	}
	return key, value, err
}

// lineReader splits input into lines and counts them. Its memory is limited by longest, the maximum length of a line.
type lineReader struct {
	in      *bufio.Reader
	longest int
	number  int // of the line that next returned, from 1
}

func newLineReader(in io.Reader, longest int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 256<<10), longest: longest}
}

// next returns the next line without its line feed, valid until the next call. After the last line it returns io.EOF.
// Other errors, of reading and of a line that is too long, include the line number.
func (l *lineReader) next() ([]byte, error) {
	l.number++
	var parts [][]byte // of a line that does not fit the buffer
	for n := 0; ; {
		part, err := l.in.ReadSlice('\n')
		end := err == nil
		if end {
			part = part[:len(part)-1]
		}
		if n += len(part); n > l.longest {
			return nil, fmt.Errorf("line %d: longer than %d bytes", l.number, l.longest)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // a buffer that grew would be copied several times
			parts = append(parts, bytes.Clone(part))
		case errors.Is(err, io.EOF) && n == 0:
			l.number--
			return nil, io.EOF
		case end || errors.Is(err, io.EOF):
			if parts == nil {
				return part, nil
			}
			return bytes.Join(append(parts, part), nil), nil
		default:
			return nil, fmt.Errorf("line %d: %w", l.number, err)
		}
	}
}

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
func (l *loader) noteReturn(line []byte) {
	if l.returns || l.crlf || l.format.name != "tsv" || !bytes.HasSuffix(line, []byte{'\r'}) {
		return
	}
	l.returns = true
	l.note(fmt.Sprintf(returnNote, l.number))
}

// note prints advice on the error stream, above a bar.
func (a *app) note(bar cli.Progress, about, text string) {
	bar.End()
	fmt.Fprintf(a.Err, "bloomkv: note: %s: %s\n", words.AppendPrintable(nil, []byte(about)), text)
}
