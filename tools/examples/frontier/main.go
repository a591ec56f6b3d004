// Command frontier crawls the source of Go with a queue of URLs that survives a kill at any moment, visits each page
// once, and asks a Bloom filter before it asks the store.
//
//	go run ./tools/examples/frontier STORE
//
// Interrupt it, or kill it, and run it again: it continues. README.md has the arithmetic for a billion URLs.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"go/build"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloom"
	"github.com/bloomkv/bloomkv/tools/cli"
)

func main() {
	log.SetFlags(0)
	src := flag.String("src", sourceOfGo(), "the directory src of a Go installation")
	urls := flag.Int("urls", 10_000, "the number of URLs that the filter is made for")
	rate := flag.Float64("rate", 0.01, "the filter's rate of false positives")
	workers := flag.Int("workers", 2, "the number of pages that are visited at the same time")
	list := flag.Bool("list", false, "print the URL of each page that is visited")
	flag.Parse()
	if flag.NArg() != 1 || *workers < 1 {
		log.Fatal("usage: frontier [FLAGS] STORE; -help lists the flags")
	}
	c := crawler{site: site{os.DirFS(*src)}, visited: io.Discard}
	if *list {
		c.visited = os.Stdout
	}
	if err := c.run(flag.Arg(0), bloom.Options{Keys: *urls, Rate: *rate}, *workers); err != nil {
		log.Fatal(err)
	}
}

func sourceOfGo() string { return filepath.Join(build.Default.GOROOT, "src") }

// A crawler visits all pages of a site that can be reached from its home.
type crawler struct {
	site    site
	visited io.Writer    // receives a line for each page, from all workers at once
	dead    atomic.Int64 // pages that could not be read
}

// run crawls with a queue in the given directory, shows its progress, and prints the figures.
func (c *crawler) run(dir string, filter bloom.Options, workers int) error {
	// No write is synced alone. A kill loses none of them; a power cut may lose the newest, whose pages are then
	// visited again.
	db, err := bloomkv.Open(dir, &bloomkv.Options{Durability: bloomkv.DurabilityNoSync})
	if err != nil {
		return err
	}
	q, err := openQueue(db, filter)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	begin := time.Now()
	terminal := cli.Standard()
	bar := terminal.Progress("pages", -1, false)
	stop := func() {}
	if terminal.ErrTerminal {
		stop = cli.Every(100*time.Millisecond, func() {
			f := q.figures()
			bar.Set(f.done, f.done+f.waiting+1)
		})
	}
	err = c.crawl(q, workers)
	stop()
	bar.End()
	if err := errors.Join(err, q.close()); err != nil {
		return err
	}
	return c.printFigures(os.Stderr, q, dir, time.Since(begin))
}

// crawl visits all pages that the queue has, and those that it finds on the way.
func (c *crawler) crawl(q *queue, workers int) error {
	if err := q.push(home); err != nil {
		return err
	}
	errs := make([]error, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for errs[w] == nil {
				errs[w] = c.visit(q)
			}
			if errors.Is(errs[w], errFinished) {
				errs[w] = nil
			} else {
				q.stop(errs[w])
			}
		})
	}
	group.Wait()
	return cmp.Or(errs...) // the others only repeat it
}

// visit takes a page from the queue, visits it and pushes its links.
func (c *crawler) visit(q *queue) error {
	p, err := q.pop()
	if err != nil {
		return err
	}
	links, err := c.site.links(p.url)
	if err != nil {
		c.dead.Add(1) // it is visited all the same
	}
	if _, err := fmt.Fprintln(c.visited, p.url); err != nil {
		return err
	}
	for _, url := range links {
		if err := q.push(url); err != nil && !errors.Is(err, bloomkv.ErrTooLarge) {
			return err
		}
	}
	return q.done(p)
}

// printFigures prints what a crawl has done and what it cost, after the queue was closed.
func (c *crawler) printFigures(out io.Writer, q *queue, dir string, took time.Duration) error {
	stored := int64(0)
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			stored += info.Size()
		}
		return err
	})
	f := q.figures()
	fresh := f.sure + f.wrong
	fmt.Fprintf(out, "%d pages visited (%d of them dead links), %d links, %.1f s\n",
		f.done, c.dead.Load(), fresh+f.known, took.Seconds())
	fmt.Fprintf(out, "%d URLs were new; the filter knew it of %d, which saved as many lookups\n", fresh, f.sure)
	fmt.Fprintf(out, "%d lookups confirmed a \"maybe\", %d found that it was false: %.2f %% of the new URLs\n",
		f.known, f.wrong, 100*float64(f.wrong)/float64(max(fresh, 1)))
	fmt.Fprintf(out, "filter: %d bytes in memory; store: %d bytes on disk\n", q.filter.Bytes(), stored)
	return err
}
