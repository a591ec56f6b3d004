package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/vfs"
)

// A report describes a copy.
type report struct {
	From string `json:"from"`
	Path string `json:"path"`
	Dir  string `json:"dir"`

	figures
	Lost losses `json:"not_kept"`
}

// copyStore copies the store in path into a new store in dir. The store is built and read again in a directory beside
// dir, which is then renamed to dir. After an error nothing is left.
func (a *app) copyStore(ctx context.Context, s store, path, dir string) (r report, err error) {
	dir = filepath.Clean(dir)
	r = report{From: s.name, Path: path, Dir: dir}
	if err := isNew(dir, path); err != nil {
		return r, err
	}
	unfinished, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".unfinished-*")
	if err != nil {
		return r, cli.PathError(filepath.Dir(dir), err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(unfinished))
		}
	}()
	if err := a.fill(ctx, s, unfinished, &r); err != nil {
		return r, err
	}
	got, err := a.readAgain(ctx, unfinished, r.KeyBytes+r.ValueBytes)
	if err != nil {
		return r, err
	}
	if got != r.figures {
		return r, fmt.Errorf("the new store differs: it has %d pairs with SHA-256 %s, want %d with %s",
			got.Pairs, got.SHA256, r.Pairs, r.SHA256)
	}
	if err := vfs.OS.Rename(unfinished, dir); err != nil {
		return r, cli.PathError(dir, err)
	}
	return r, vfs.OS.SyncDir(filepath.Dir(dir))
}

// isNew returns an error unless dir can be created, outside of the source.
func isNew(dir, source string) error {
	_, err := os.Lstat(dir)
	switch {
	case err == nil:
		return fmt.Errorf("%s exists already, want the name of a new directory", dir)
	case !errors.Is(err, fs.ErrNotExist):
		return cli.PathError(dir, err)
	}
	if inside, err := vfs.Inside(vfs.OS, filepath.Dir(dir), source); err == nil && inside {
		return fmt.Errorf("%s lies inside %s, want a directory outside of it", dir, source)
	}
	return nil // what opens the source, or creates the directory, returns the other errors
}

// fill copies a store into an empty directory, and its figures into r.
func (a *app) fill(ctx context.Context, s store, dir string, r *report) (err error) {
	reading, cancel := context.WithCancel(ctx)
	from, err := startReader(reading, s, r.Path)
	if err != nil {
		cancel()
		return err
	}
	defer func() {
		cancel()
		_ = from.process.Wait() // pairs has returned its error
	}()
	db, err := bloomkv.Open(dir, &bloomkv.Options{ErrorIfExists: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	bar := a.Progress("copying", -1, true)
	defer bar.End()
	err = db.Ingest(ctx, from.pairs(bar), bloomkv.IngestOptions{})
	if err == nil {
		// It moves the tables into the last level, where filters need half the memory.
		err = db.Compact(ctx, bloomkv.CompactOptions{})
	}
	if ctx.Err() != nil {
		return ctx.Err() // which has ended the reader
	}
	r.figures, r.Lost = from.end.Figures, from.end.Lost
	return err
}

// readAgain opens a store, reads every pair, and returns their figures. size is the expected number of bytes.
func (a *app) readAgain(ctx context.Context, dir string, size uint64) (f figures, err error) {
	db, err := bloomkv.OpenContext(ctx, dir, &bloomkv.Options{ReadOnly: true})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	bar := a.Progress("reading again", int64(min(size, 1<<62)), true)
	defer bar.End()
	c := newCounter(io.Discard)
	for kv, err := range db.Scan(bloomkv.IterOptions{}) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return f, err
		}
		_ = c.add(kv)
		_, _ = bar.Write(kv.Key) // never fails
		_, _ = bar.Write(kv.Value)
	}
	return c.figures(), nil
}

// figures describe a sequence of pairs. Two sequences are equal if their figures are.
type figures struct {
	Pairs      uint64 `json:"pairs"`
	KeyBytes   uint64 `json:"key_bytes"`
	ValueBytes uint64 `json:"value_bytes"`
	// SHA256 is the hash of each pair in order, in hexadecimal digits: the length of the key as a varint
	// (encoding/binary), the key, the length of the value, the value.
	SHA256 string `json:"sha256"`
}

// A counter makes the figures of a sequence, and writes what it hashes to another writer too.
type counter struct {
	so   figures // without the hash
	hash hash.Hash
	both *bufio.Writer // to hash, which never fails, and to the other writer
}

func newCounter(out io.Writer) *counter {
	h := sha256.New()
	return &counter{hash: h, both: bufio.NewWriterSize(io.MultiWriter(h, out), 64<<10)}
}

func (c *counter) add(kv bloomkv.KV) (err error) {
	c.so.Pairs++
	c.so.KeyBytes += uint64(len(kv.Key))
	c.so.ValueBytes += uint64(len(kv.Value))
	for _, b := range [...][]byte{kv.Key, kv.Value} {
		_, _ = c.both.Write(binary.AppendUvarint(c.both.AvailableBuffer(), uint64(len(b))))
		_, err = c.both.Write(b) // also the error of a Write before
	}
	return err
}

// figures returns the figures of all pairs, which then have been written.
func (c *counter) figures() figures {
	_ = c.both.Flush() // after an error, what is written next to the other writer fails too
	f := c.so
	f.SHA256 = hex.EncodeToString(c.hash.Sum(nil))
	return f
}
