package read

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/step"
)

// iterators are the open cursors, in stripes so that goroutines on different processors do not share memory. Close
// lists those left open, and Metrics counts them.
type iterators [iteratorStripes]struct {
	mu     step.Mutex
	open   []*Cursor // guarded by mu
	sought uint64    // guarded by mu: looks of closed cursors that Config.Sought was not told yet
	_      [24]byte
}

const iteratorStripes = 64

// toldSought is the number of looks into runs of level 0 after which Config.Sought is called.
const toldSought = 1000

// opened is the position of a cursor among the open ones, and its origin.
type opened struct {
	stripe, at int
	// by has the program counters of the callers that opened the cursor. It is set only if leaks are reported, as it
	// costs 0.2 µs.
	by  [4]uintptr
	byN int
}

func (l *iterators) add(c *Cursor) {
	stripe := epoch.Stripe(iteratorStripes)
	s := &l[stripe]
	s.mu.Lock()
	defer s.mu.Unlock()
	c.opened.stripe, c.opened.at = stripe, len(s.open)
	s.open = append(s.open, c)
}

// remove removes a cursor that is closed. It returns the number of looks to call Config.Sought with, or 0.
func (l *iterators) remove(c *Cursor) (sought uint64) {
	s := &l[c.opened.stripe]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sought += c.sought; s.sought >= toldSought {
		sought, s.sought = s.sought, 0
	}
	at, last := c.opened.at, len(s.open)-1
	s.open[at] = s.open[last]
	s.open[at].opened.at = at
	s.open[last] = nil
	s.open = s.open[:last]
	return sought
}

// Cursors returns the number of open cursors.
func (l *iterators) Cursors() (n int) {
	for i := range l {
		s := &l[i]
		s.mu.Lock()
		n += len(s.open)
		s.mu.Unlock()
	}
	return n
}

// Leaked returns the callers that opened the cursors which are still open: "file.go:12 (package.function)".
func (l *iterators) Leaked() (by []string) {
	for i := range l {
		s := &l[i]
		s.mu.Lock()
		for _, c := range s.open {
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
