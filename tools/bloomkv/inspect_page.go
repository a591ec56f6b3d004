package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/bloomkv/bloomkv/tools/internal/inspect"
	"github.com/bloomkv/bloomkv/tools/outfile"
	"github.com/bloomkv/bloomkv/tools/picture"
	"github.com/bloomkv/bloomkv/tools/picture/save"
)

// pageFlags name the files for the page and the charts; "" means none.
type pageFlags struct {
	html string // a file, or "-" for the output
	plot string // a directory
}

// toOutput prints the page instead of the text.
const toOutput = "-"

func (f *pageFlags) asked() bool { return f.html != "" || f.plot != "" }

// check returns an error if the page cannot be written, before anything is inspected.
func (f *pageFlags) check() error {
	if f.html == "" || f.html == toOutput {
		return nil
	}
	if err := outfile.Check(f.html); err != nil {
		return fmt.Errorf("--html %w", err)
	}
	return nil
}

// spares returns an error if the page would replace what is inspected, or a table of another store, whose name says
// less than that of a file of bloomkv.
func (f *pageFlags) spares(inspected string) error {
	if f.html == "" || f.html == toOutput {
		return nil
	}
	old, _ := os.Stat(f.html) // nil if there is none
	info, err := os.Stat(inspected)
	if err == nil && os.SameFile(old, info) || inspect.IsForeignTable(f.html) {
		return fmt.Errorf("--html %s: is a table, want another file", f.html)
	}
	return err
}

// write writes the page and the charts that are requested.
func (f *pageFlags) write(ctx context.Context, a *app, p *picture.Page) error {
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
		errs = append(errs, save.Charts(ctx, f.plot, p.Charts()))
	}
	return errors.Join(errs...)
}
