package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
)

// The source is read in a process of its own, which writes the pairs to its standard output: some of the libraries
// panic in goroutines of their own, or end the process, when a file is damaged. The output:
//
//	+-------------+-----+---------------+-------+
//	| len(key) uv | key | len(value) uv | value |      of each pair, in order: what figures.SHA256 is the hash of
//	+-------------+-----+---------------+-------+
//	+------------+-------------+
//	| endMark uv | end as JSON |                       at the end, also after an error
//	+------------+-------------+
//
// uv is a varint of package encoding/binary.

// endMark is in place of the length of a key, and longer than any.
const endMark = bloomkv.MaxKeySize + 1

// readerArg is the first argument of the process that reads. The name of a store and a path follow.
const readerArg = "--internal-reader"

// An ending is what the process that reads reports at the end.
type ending struct {
	Figures figures
	Lost    losses
	Error   string // empty if all pairs were read
}

// serve writes the pairs of a store to out.
func serve(name, path string, out io.Writer) error {
	s, err := findStore(name)
	if err != nil {
		return err
	}
	c := newCounter(out)
	var e ending
	if err := s.serve(path, c, &e.Lost); err != nil {
		e.Error = err.Error()
	}
	e.Figures = c.figures()
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = out.Write(append(binary.AppendUvarint(nil, endMark), b...))
	return err
}

// serve writes the pairs of a store to what c writes to.
func (s store) serve(path string, c *counter, lost *losses) (err error) {
	from, err := s.open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	var last []byte
	return from.each(lost, func(kv bloomkv.KV) error {
		if err := checkSizes(kv); err != nil {
			return err
		}
		if c.so.Pairs > 0 && bytes.Compare(last, kv.Key) >= 0 {
			return fmt.Errorf("damaged: key %.64q comes after key %.64q", kv.Key, last)
		}
		last = append(last[:0], kv.Key...)
		return c.add(kv)
	})
}

func checkSizes(kv bloomkv.KV) error {
	switch {
	case len(kv.Key) > bloomkv.MaxKeySize:
		return fmt.Errorf("key %s, bloomkv stores keys of at most %d bytes",
			words.Quoted(kv.Key), bloomkv.MaxKeySize)
	case len(kv.Value) > bloomkv.MaxValueSize:
		return fmt.Errorf("key %s: the value has %d bytes, bloomkv stores at most %d",
			words.Quoted(kv.Key), len(kv.Value), bloomkv.MaxValueSize)
	default:
		return nil
	}
}

// A reader is the process that reads a source, seen from the one that stores the pairs.
type reader struct {
	path    string // of the source
	process *exec.Cmd
	out     *bufio.Reader
	errs    firstBytes // what the process has printed to standard error
	end     ending     // once pairs has ended without an error
}

// startReader starts the process. It ends when ctx does.
func startReader(ctx context.Context, s store, path string) (*reader, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &reader{path: path, process: exec.CommandContext(ctx, program, readerArg, s.name, path)}
	r.process.Stderr = &r.errs
	out, err := r.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.out = bufio.NewReaderSize(out, 256<<10)
	return r, r.process.Start()
}

// pairs returns the pairs of the source and moves a bar by their bytes. Slices are valid until the next pair. The last
// element is an error unless the process has read all pairs and reported success.
func (r *reader) pairs(bar cli.Progress) iter.Seq2[bloomkv.KV, error] {
	return func(yield func(bloomkv.KV, error) bool) {
		var kv bloomkv.KV
		for {
			n, err := binary.ReadUvarint(r.out)
			if err == nil && n == endMark {
				if err = json.NewDecoder(r.out).Decode(&r.end); err == nil {
					if r.end.Error != "" {
						yield(bloomkv.KV{}, fmt.Errorf("%s: %s", r.path, r.end.Error))
					}
					return
				}
			}
			if err == nil {
				kv.Key, err = r.read(kv.Key, n, bloomkv.MaxKeySize)
			}
			if err == nil {
				if n, err = binary.ReadUvarint(r.out); err == nil {
					kv.Value, err = r.read(kv.Value, n, bloomkv.MaxValueSize)
				}
			}
			if err != nil {
				yield(bloomkv.KV{}, r.died(err))
				return
			}
			_, _ = bar.Write(kv.Key) // never fails
			_, _ = bar.Write(kv.Value)
			if !yield(kv, nil) {
				return
			}
		}
	}
}

// read reads n bytes, at most most, into buf.
func (r *reader) read(buf []byte, n, most uint64) ([]byte, error) {
	if n > most {
		return buf, fmt.Errorf("%d bytes follow, want at most %d", n, most)
	}
	if n > uint64(cap(buf)) {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	_, err := io.ReadFull(r.out, buf)
	return buf, err
}

// died returns the error for a process that has ended too early, for which err is what reading its output returned.
func (r *reader) died(err error) error {
	_ = r.process.Wait() // waits for all of standard error
	if line, _, _ := bytes.Cut(r.errs.b, []byte{'\n'}); len(line) > 0 {
		err = errors.New(string(line))
	}
	return fmt.Errorf("%s: damaged, or written by a later version: its library gave up: %w", r.path, err)
}

// firstBytes keeps the first bytes that are written to it.
type firstBytes struct{ b []byte }

func (f *firstBytes) Write(b []byte) (int, error) {
	f.b = append(f.b, b[:min(len(b), 1000-len(f.b))]...)
	return len(b), nil
}
