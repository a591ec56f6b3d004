// Package inspect reads the files of a store, in particular its filter blocks. The result is a set of facts, which JSON
// has under names that do not change, and which are written as text or as a page. The package takes no lock and changes
// nothing, so the facts of a store in use may be inconsistent. Keys in the facts are escaped (words.Escaped). For any
// file the result is a value or an error with file and offset, in bounded memory.
package inspect

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/internal/words"
)

// Options select what is inspected.
type Options struct {
	Verify  bool     // rebuild filters from the keys of their tables and compare
	Entries bool     // list each operation of a log
	Keys    [][]byte // to follow through the tables
	Full    bool     // read the complete filter blocks of some tables of a store: those with problems, and the largest
	Served  bool     // the page has a server, which asks the filters for it
	WhatIf  []Question
	Workers int // tables of a store that are read at the same time; 0 means one for each processor
	// bytes of Options.MemoryBudget that the store is opened with; 0 means 64 MiB, or twice the FilterMemory that it
	// was last written with
	Budget int64
	Memory uint64 // bytes of filters and indexes of a store that are kept to compare tables; 0 means 1 GiB
	Path   string // that pages show; by default the name that was given
	// Progress, if not nil, is called with the number of tables that have been read and that of all tables, one call at
	// a time.
	Progress func(done, of int)
}

// each calls do with 0 to n-1, as many at a time as Workers allows, until ctx is done, whose error it returns.
func (o *Options) each(ctx context.Context, n int, do func(i int)) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(cmp.Or(o.Workers, runtime.GOMAXPROCS(0)), n) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}

// ParseKey parses a key in the form in which inspect prints keys.
func ParseKey(text string) ([]byte, error) {
	key, err := words.Unescaped(text)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w; want it as inspect prints keys", words.Quoted(text), err)
	}
	if key == nil {
		key = []byte{}
	}
	return key, nil
}

// Version returns the version of the store in the program, and its revision if the build has one. The programs of this
// module have the store's version.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return versionIn(info)
	}
	return "(unknown)"
}

const (
	module = "github.com/bloomkv/bloomkv"
	tools  = module + "/tools"
)

// versionIn returns the version of the store in a program.
func versionIn(info *debug.BuildInfo) string {
	if info.Main.Path != tools {
		for _, d := range info.Deps {
			if d.Path == module {
				return d.Version
			}
		}
		return "(unknown)"
	}
	v, revision, modified := cmp.Or(info.Main.Version, "(devel)"), "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = ", revision " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ", modified"
		}
	}
	return v + revision + modified
}

// Formats returns the versions of the files that this program writes and reads.
func Formats() string {
	return fmt.Sprintf("table %d, log %d, manifest %d", sstable.FormatVersion, wal.FormatVersion,
		manifest.FormatVersion)
}

// A Style defines how text is written.
type Style struct {
	Color bool // use escape sequences of a terminal
	Hex   bool // also write the bytes of the filter blocks of a table

	Tables bool // write all that is known of each table of a store, not a line
	Width  int  // of a line of a table of figures; 0 means words.Width
}

// A Damage describes what is damaged in JSON.
type Damage struct {
	Error string `json:"error"`
	err   error
}

func damageOf(err error) *Damage {
	if err == nil {
		return nil
	}
	return &Damage{err.Error(), err}
}
