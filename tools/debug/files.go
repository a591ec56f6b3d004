package debug

import (
	"bytes"
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bloomkv/bloomkv/tools/internal/inspect"
	"github.com/bloomkv/bloomkv/tools/picture"
)

// Limits of one inspection.
const (
	mostReading = time.Minute
	mostMemory  = 64 << 20 // bytes of filters and indexes that are kept to compare tables
)

// files holds what the files of a store contained when they were read: a page with gaps for the tiles and for the live
// section.
type files struct {
	head, middle, tail []byte

	stamp string        // of the files, before they were read
	facts facts         // nil if the store is open in this process, or if nothing is known
	rain  *inspect.Rain // nil if nothing is known
	err   error         // why the files could not be read
}

// facts are those that inspect finds out about a directory.
type facts interface {
	Page() *picture.Page
}

// gap marks where the tiles and the live section are. No text of a page can contain it.
const gap = "<!--live-->"

// readFiles reads the files of the store, unless that was done lately. It returns the error of ctx if ctx is done
// before its turn comes. Once begun, reading ends even if the viewer leaves, since others may wait for the result.
func (h *handler) readFiles(ctx context.Context) (files, error) {
	return h.files.get(ctx, func() (files, time.Duration) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mostReading)
		defer cancel()
		f := h.inspect(ctx, time.Now())
		if f.rain == nil { // of a store without tables, or that cannot be read, there will soon be more
			return f, min(h.options.Reread, h.options.Interval)
		}
		return f, h.options.Reread
	})
}

// inspect reads the files and makes the page of what they show.
func (h *handler) inspect(ctx context.Context, at time.Time) (f files) {
	page := &picture.Page{}
	if h.store == nil {
		f.stamp = h.stamp(h.dir)
	}
	switch s, err := h.read(ctx); {
	case err != nil:
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("reading them took more than %v: use bloomkv inspect", mostReading)
		}
		f.err = err
		page.Sections = []picture.Section{{ID: "unread", Heading: "The files", Notes: []picture.Note{
			{Wrong: true, Title: "the files of the store could not be read", Text: err.Error()},
		}}}
	case s != nil:
		page = s.Page()
		if s, ours := s.(*inspect.Store); ours {
			f.rain = s.Rain()
			h.shown.Store(new(s.Shown()))
		}
		if h.store == nil {
			f.facts = s
		}
	}
	if err := h.lay(page, at, &f); err != nil { // too large, for example
		f.err = errors.Join(f.err, err)
		page.Sections = []picture.Section{{ID: "unread", Heading: "The files", Notes: []picture.Note{
			{Wrong: true, Title: "the page of the files cannot be shown", Text: err.Error()},
		}}}
		f.err = errors.Join(f.err, h.lay(page, at, &f))
	}
	return f
}

// readStore inspects the store, one table at a time. It returns nil if the files cannot be seen.
func (h *handler) readStore(ctx context.Context) (facts, error) {
	if h.dir == "" {
		return nil, nil // there is nothing to read, which is no error
	}
	o := inspect.Options{Full: true, Served: true, Workers: 1, Memory: mostMemory}
	if h.store != nil {
		o.Budget = h.store.db.Metrics().Memory.Budget
	}
	return inspect.ReadStore(ctx, h.dir, o)
}

// lay writes the page into f, with gaps: the tree leads, and then comes the live section.
func (h *handler) lay(page *picture.Page, at time.Time, f *files) error {
	p := *page
	frame := h.page()
	p.Title, p.Scripts, p.Connect = h.options.Title, frame.Scripts, frame.Connect
	clock := at.UTC().Format("15:04:05")
	now := picture.Section{ID: "now", Heading: "Now", HTML: gap}
	switch {
	case h.store == nil:
		now.Heading = "Files only"
		now.Text = fmt.Sprintf("This page shows what the files of the store showed at %s UTC. It has no live figures: "+
			"the store is not open in this process. Reload it to read the files again.", clock)
		now.HTML = picture.Format("<p id=\"files-state\" role=\"status\" data-shown=\"%s\" data-reread=\"%v\"></p>\n",
			f.stamp, h.options.Reread) + gap
	case h.dir == "":
		p.Intro = "The store is not on the file system of the operating system, so its files are not shown."
	default:
		p.Intro += fmt.Sprintf("\n\nThe tiles, the picture of the tree and the section Now are of the running store, "+
			"all others of its files, as they were at %s UTC.", clock)
	}
	if h.dir != "" && !h.foreign {
		now.HTML += "<p><a href=\"film\">Play how the tree became what it is</a>: the flushes and compactions since " +
			"the manifest began.</p>\n"
	}
	now.HTML += "<p><a href=\"toy\">How a filter answers</a>: a filter of 64 cells to try.</p>\n"
	p.Sections = slices.Clone(page.Sections)
	if len(p.Sections) == 0 || !p.Sections[0].Lead {
		lead := picture.Section{ID: "tree", Heading: "The tree", Lead: true}
		p.Sections = slices.Insert(p.Sections, 0, lead)
	}
	p.Sections[0].HTML = gap
	if h.store != nil {
		p.Sections[0].Charts = nil // the picture is of the running store
		p.Figures = figuresOf(new(h.store.sample(h.options.Interval)))
	}
	p.Sections = slices.Insert(p.Sections, 1, now)
	var b bytes.Buffer
	if err := p.WriteHTML(&b); err != nil {
		return err
	}
	all := bytes.Split(b.Bytes(), []byte(gap))
	if len(all) != 3 {
		return errors.New("the page has no live parts") // broken logic
	}
	f.head, f.middle, f.tail = all[0], all[1], all[2]
	return nil
}

//go:embed files.js
var filesScript string

// page returns a page without sections, with the scripts of every page of the handler.
func (h *handler) page() *picture.Page {
	p := &picture.Page{Connect: true}
	if !h.foreign {
		p.Scripts = inspect.PageScripts()
	}
	if h.store == nil {
		p.Scripts = append(p.Scripts, filesScript)
	} else {
		p.Scripts = append(p.Scripts, liveScript)
	}
	return p
}

// A cached value is made by one request at a time, and shown to all until it is too old. It is safe for concurrent use.
type cached[T any] struct {
	turn chan *made[T] // has the value while no request uses it
}

type made[T any] struct {
	value T
	until time.Time
}

func newCached[T any]() cached[T] {
	c := cached[T]{turn: make(chan *made[T], 1)}
	c.turn <- &made[T]{}
	return c
}

// get returns the value. If it is too old, get calls fresh for another one, and for the time for which that is shown:
// that or, if it is longer, 20 times as long as making it has taken. It returns the error of ctx if ctx is done before
// its turn comes.
func (c *cached[T]) get(ctx context.Context, fresh func() (T, time.Duration)) (T, error) {
	select {
	case m := <-c.turn:
		defer func() { c.turn <- m }()
		if began := time.Now(); began.After(m.until) {
			value, least := fresh()
			m.value, m.until = value, time.Now().Add(max(least, 20*time.Since(began)))
		}
		return m.value, nil
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
