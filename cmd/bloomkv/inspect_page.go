package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/bloomkv/bloomkv/internal/outfile"
)

// pageFlags are where the page and the pictures of what was inspected go; "" is nowhere.
type pageFlags struct {
	html string // a file, or "-" for the output
	plot string // a directory
}

// toOutput is the page instead of the text.
const toOutput = "-"

func (f *pageFlags) asked() bool { return f.html != "" || f.plot != "" }

// check refuses a page that cannot be written, before anything is looked at.
func (f *pageFlags) check() error {
	if f.html == "" || f.html == toOutput {
		return nil
	}
	if err := outfile.Check(f.html); err != nil {
		return fmt.Errorf("--html %w", err)
	}
	return nil
}

// A page is written, and its pictures are saved.
type page interface {
	WriteHTML(w io.Writer) error
	Save(ctx context.Context, dir string) error
}

// write writes the page and the pictures, as far as they are asked for.
func (f *pageFlags) write(ctx context.Context, a *app, p page) error {
	var errs []error
	switch f.html {
	case "":
	case toOutput:
		errs = append(errs, p.WriteHTML(a.Out))
	default:
		var b bytes.Buffer
		err := p.WriteHTML(&b)
		if err == nil {
			err = outfile.Write(ctx, f.html, b.Bytes())
		}
		errs = append(errs, err)
	}
	if f.plot != "" {
		errs = append(errs, p.Save(ctx, f.plot))
	}
	return errors.Join(errs...)
}
