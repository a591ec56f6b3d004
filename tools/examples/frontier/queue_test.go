package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloom"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// small is a filter with space for a few hundred URLs.
var small = bloom.Options{Keys: 300, Rate: 0.01}

func open(t *testing.T, files vfs.FS, o bloom.Options) *queue {
	t.Helper()
	db, err := bloomkv.Open("store", &bloomkv.Options{FS: files, Durability: bloomkv.DurabilityNoSync})
	if err != nil {
		t.Fatal(err)
	}
	q, err := openQueue(db, o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func push(t *testing.T, q *queue, urls ...string) {
	t.Helper()
	for _, url := range urls {
		if err := q.push(url); err != nil {
			t.Fatal(err)
		}
	}
}

func pop(t *testing.T, q *queue, want string) page {
	t.Helper()
	p, err := q.pop()
	if err != nil || p.url != want {
		t.Fatalf("pop: got %q, %v, want %q", p.url, err, want)
	}
	return p
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestURLsComeOutInTheOrderOfTheirFirstPush(t *testing.T) {
	files := vfstest.NewMem()
	q := open(t, files, small)
	push(t, q, "z", "a", "z", "", "m", "a")
	do(t, q.done(pop(t, q, "z")))
	inFlight := pop(t, q, "a")
	do(t, q.done(pop(t, q, "")))
	do(t, q.close())
	if err := q.done(inFlight); !errors.Is(err, errClosed) {
		t.Errorf("done after close: got %v, want %v", err, errClosed)
	}

	q = open(t, files, small) // "a" was in flight
	push(t, q, "m", "z", "b", "")
	for _, want := range []string{"a", "m", "b"} {
		do(t, q.done(pop(t, q, want)))
	}
	if _, err := q.pop(); !errors.Is(err, errFinished) {
		t.Errorf("pop of an empty queue: got %v, want %v", err, errFinished)
	}
	do(t, q.close())

	q = open(t, files, small)
	if err := q.push(strings.Repeat("x", bloomkv.MaxKeySize)); !errors.Is(err, bloomkv.ErrTooLarge) {
		t.Errorf("a URL that is too long: got %v, want %v", err, bloomkv.ErrTooLarge)
	}
	push(t, q, "a", "b", "c")
	do(t, q.done(pop(t, q, "c")))
	do(t, q.close())
}

// TestPopWaitsForPagesInFlight checks that a worker does not end while another may still push.
func TestAQueueWhoseFirstEntryCannotBeReadIsNotOpened(t *testing.T) {
	mem := vfstest.NewMem()
	q := open(t, mem, small)
	for i := range 100 {
		push(t, q, fmt.Sprintf("%0500d", i))
	}
	do(t, errors.Join(q.db.Flush(t.Context()), q.db.Close()))
	db, err := bloomkv.Open("store", &bloomkv.Options{FS: vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpReadAt && strings.HasSuffix(op.Name, ".sst") && op.Offset == 0 { // its first block
			return io.ErrClosedPipe
		}
		return nil
	})})
	do(t, err)
	if _, err := openQueue(db, small); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v, want %v", err, io.ErrClosedPipe)
	}
	do(t, db.Close())
}

func TestPopWaitsForPagesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(t, vfstest.NewMem(), small)
		push(t, q, "a")
		a := pop(t, q, "a")
		answer := make(chan error, 1)
		popElsewhere := func(want string) {
			t.Helper()
			go func() {
				p, err := q.pop()
				if p.url != want {
					t.Errorf("got %q, want %q", p.url, want)
				}
				answer <- err
			}()
			synctest.Wait()
			if len(answer) > 0 {
				t.Fatalf("pop did not wait: %v", <-answer)
			}
		}
		popElsewhere("b")
		push(t, q, "b")
		do(t, <-answer)
		do(t, q.done(a))
		popElsewhere("")
		q.stop(io.ErrClosedPipe)
		if err := <-answer; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("after stop: got %v, want %v", err, io.ErrClosedPipe)
		}
		do(t, q.close())
	})
}

// TestAFilterOfAnyKindLosesNoURL crawls with filters that are right, lost, damaged, of another size and full.
func TestAFilterOfAnyKindLosesNoURL(t *testing.T) {
	full := bloom.Options{Keys: 1, Rate: 0.5}
	for _, test := range []struct {
		name   string
		filter bloom.Options // of the second crawl
		change func(db *bloomkv.DB) error
		kept   bool // the second crawl uses the filter that the first one saved
	}{
		{"the saved filter", small, func(*bloomkv.DB) error { return nil }, true},
		{"a lost filter", small, func(db *bloomkv.DB) error { return db.Delete(filterKey) }, false},
		{"a damaged filter", small, func(db *bloomkv.DB) error { return db.Put(filterKey, []byte("damaged")) }, false},
		{"a larger filter", bloom.Options{Keys: 2000}, func(*bloomkv.DB) error { return nil }, false},
		{"a full filter", full, func(*bloomkv.DB) error { return nil }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			files := vfstest.NewMem()
			var visited strings.Builder
			c := crawler{site: web(400), visited: &visited}
			q := open(t, files, small)
			push(t, q, home)
			for range 40 {
				do(t, c.visit(q))
			}
			seed := q.filter.Options().Seed
			do(t, q.close())

			db, err := bloomkv.Open("store", &bloomkv.Options{FS: files})
			if err == nil {
				err = errors.Join(test.change(db), db.Close())
			}
			do(t, err)
			q = open(t, files, test.filter)
			if kept := q.filter.Options().Seed == seed; kept != test.kept {
				t.Errorf("the saved filter is used: %t, want %t", kept, test.kept)
			}
			if _, err := q.db.Get(filterKey); !errors.Is(err, bloomkv.ErrNotFound) {
				t.Errorf("the saved filter is still in the store: %v", err)
			}
			do(t, c.crawl(q, 1))
			if test.filter == full && q.figures().wrong < 100 {
				t.Errorf("%d false maybes, want many", q.figures().wrong)
			}
			do(t, q.close())
			eachOnce(t, c.site, visited.String())
		})
	}
}

func TestWorkersShareAQueue(t *testing.T) {
	for _, workers := range []int{2, 16} {
		var visited lockedBuilder
		c := crawler{site: web(400), visited: &visited}
		q := open(t, vfstest.NewMem(), small)
		do(t, c.crawl(q, workers))
		do(t, q.close())
		eachOnce(t, c.site, visited.String())
	}
}

func TestAWorkerThatFailsEndsTheCrawl(t *testing.T) {
	c := crawler{site: web(400), visited: failing{}}
	q := open(t, vfstest.NewMem(), small)
	if err := c.crawl(q, 4); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v, want %v", err, io.ErrClosedPipe)
	}
	do(t, q.close())
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

type lockedBuilder struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuilder) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuilder) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestASiteHasTheLinksOfGo checks the links of each kind of page.
func TestASiteHasTheLinksOfGo(t *testing.T) {
	s := site{fstest.MapFS{
		"net/http/a.go": {Data: []byte(`package http; import ("C"; "fmt"; "net/url"; ""; "golang.org/x/net"); broken`)},
		"net/http/b.s":  {},
	}}
	for page, want := range map[string]string{
		"":              "|net/",
		"net/":          "|net/http/",
		"net/http/":     "|net/|net/http/a.go",
		"net/http/a.go": "|net/|net/http/|fmt/|net/url/",
	} {
		links, err := s.links(home + page)
		got := strings.ReplaceAll(strings.Join(links, "|"), home, "")
		if err != nil || got != want {
			t.Errorf("%q: got %s, %v, want %s", page, got, err, want)
		}
	}
	for _, page := range []string{"fmt/", "fmt/print.go", "a//b/", "../"} {
		if links, err := s.links(home + page); err == nil {
			t.Errorf("%q: got %q, want an error", page, links)
		}
	}
}

// web returns a site of files that import one another, and packages that do not exist.
func web(files int) site {
	m := fstest.MapFS{}
	for i := range files {
		m[fmt.Sprintf("p%d/a%d.go", i/7, i)] = &fstest.MapFile{
			Data: fmt.Appendf(nil, "package p\nimport (\"p%d\"; \"p%d\"; \"missing%d\")", i*i%97, i/3, i%11),
		}
	}
	return site{m}
}

// pages returns all pages of a site that can be reached, as a plain program finds them.
func pages(s site) map[string]bool {
	seen := map[string]bool{home: true}
	for todo := []string{home}; len(todo) > 0; todo = todo[1:] {
		links, _ := s.links(todo[0]) // a dead link is a page, too
		for _, url := range links {
			if !seen[url] {
				seen[url] = true
				todo = append(todo, url)
			}
		}
	}
	return seen
}

// eachOnce checks that each page of a site was visited once.
func eachOnce(t *testing.T, s site, visited string) {
	t.Helper()
	lines := strings.Fields(visited)
	slices.Sort(lines)
	if want := slices.Sorted(maps.Keys(pages(s))); !slices.Equal(lines, want) {
		t.Errorf("%d pages visited, %d of them different, want %d", len(lines), len(slices.Compact(lines)), len(want))
	}
}
