// Package inspect reads the files of a store, in particular its filter blocks. The result is a set of facts, which JSON
// has under names that do not change, and which are written as text or as a page. The package takes no lock and changes
// nothing, so the facts of a store in use may be inconsistent. Keys in the facts are escaped (words.Escaped). For any
// file the result is a value or an error with file and offset, in bounded memory.
package inspect

import (
	"cmp"
	"fmt"
	"runtime"

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
	WhatIf  []Question
	Workers int // tables of a store that are read at the same time; 0 means one for each processor
	// Progress, if not nil, is called with the number of tables that have been read and that of all tables, one call at
	// a time.
	Progress func(done, of int)
}

// workers returns the number of tables that are read at the same time.
func (o *Options) workers() int { return cmp.Or(o.Workers, runtime.GOMAXPROCS(0)) }

// ParseKey parses a key in the form in which inspect prints keys.
func ParseKey(text string) ([]byte, error) {
	key, err := words.Unescaped(text)
	if err != nil {
		return nil, fmt.Errorf("key %q: %w; want it as inspect prints keys", text, err)
	}
	if key == nil {
		key = []byte{}
	}
	return key, nil
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
