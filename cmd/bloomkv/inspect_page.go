package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/vfs"
)

// pageFlags are where the page and the pictures of what was inspected go; "" is nowhere.
type pageFlags struct {
	html string // a file, or "-" for the output
	plot string // a directory
}

// toOutput is the page instead of the text.
const toOutput = "-"

func (f *pageFlags) asked() bool { return f.html != "" || f.plot != "" }

// check refuses what would write over a store: a page under the name of one of its files.
func (f *pageFlags) check() error {
	if f.html == "" || f.html == toOutput {
		return nil
	}
	if kind, _ := filename.Parse(filepath.Base(f.html)); kind != filename.Unknown {
		return fmt.Errorf("--html %s: that is the name of a file of a store, want another", f.html)
	}
	return nil
}

// A page is written, and its pictures are saved.
type page interface {
	WriteHTML(w io.Writer) error
	Save(dir string) error
}

// write writes the page and the pictures, as far as they are asked for. A file is replaced as a whole, or stays as it was.
func (f *pageFlags) write(a *app, p page) error {
	var errs []error
	switch f.html {
	case "":
	case toOutput:
		errs = append(errs, p.WriteHTML(a.out))
	default:
		var b bytes.Buffer
		err := p.WriteHTML(&b)
		if err == nil {
			dir, name := filepath.Split(f.html)
			err = vfs.WriteFileAtomic(vfs.OS, filepath.Clean(dir), name+".tmp", name, b.Bytes())
		}
		errs = append(errs, err)
	}
	if f.plot != "" {
		errs = append(errs, p.Save(f.plot))
	}
	return errors.Join(errs...)
}
