package read

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/bloomkv/bloomkv/internal/epoch"
)

// iterators are the open cursors, in stripes so that goroutines on different processors do not share memory. Close
// lists those left open, and Metrics counts them.
type iterators [iteratorStripes]struct {
	mu    sync.Mutex
	first *Cursor // guarded by mu; a list
	open  int     // guarded by mu
	_     [40]byte
}

const iteratorStripes = 64

// opened is the position of a cursor in the list of open ones, and its origin.
type opened struct {
	stripe       int
	newer, older *Cursor
	// by has the program counters of the callers that opened the cursor. It is set only if leaks are reported, as it
	// costs 0.2 µs.
	by  [4]uintptr
	byN int
}

func (l *iterators) add(c *Cursor) {
	o := &c.opened
	o.stripe = epoch.Stripe(iteratorStripes)
	s := &l[o.stripe]
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.older = s.first; o.older != nil {
		o.older.opened.newer = c
	}
	s.first = c
	s.open++
}

func (l *iterators) remove(c *Cursor) {
	o := &c.opened
	s := &l[o.stripe]
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.newer != nil {
		o.newer.opened.older = o.older
	} else {
		s.first = o.older
	}
	if o.older != nil {
		o.older.opened.newer = o.newer
	}
	o.newer, o.older = nil, nil
	s.open--
}

func (l *iterators) count() (n int) {
	for i := range l {
		s := &l[i]
		s.mu.Lock()
		n += s.open
		s.mu.Unlock()
	}
	return n
}

// leaked returns the callers that opened the cursors which are still open: "file.go:12 (package.function)".
func (l *iterators) leaked() (by []string) {
	for i := range l {
		s := &l[i]
		s.mu.Lock()
		for c := s.first; c != nil; c = c.opened.older {
			by = append(by, c.opened.String())
		}
		s.mu.Unlock()
	}
	return by
}

// String returns the first caller outside the methods that open iterators. Those are recognized by their file: if the
// compiler inlines their bodies, as it does with Scan's, it gives them the function name of the caller.
func (o *opened) String() string {
	frames := runtime.CallersFrames(o.by[:o.byN])
	for {
		f, more := frames.Next()
		if !more || !ours(f.File) || strings.HasSuffix(f.File, "_test.go") {
			return fmt.Sprintf("%s:%d (%s)", filepath.Base(f.File), f.Line, filepath.Base(f.Function))
		}
	}
}

// ours reports whether a file belongs to this package or to the root package.
func ours(file string) bool {
	dir := filepath.Dir(file)
	return dir == home || dir == filepath.Dir(filepath.Dir(home))
}

// home is the directory of this package's files, as recorded by the compiler.
var home = func() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}()
