// Package inspect says what the files of a store hold, filter blocks above all: first as facts, which are also what JSON has, with
// names that do not change, then the same facts as text. It takes no lock and changes nothing, so that of a store in use it may see
// a state that was never on disk as a whole. Keys in the facts are escaped (words.Escaped). Whatever the files are, an answer is a
// value or an error with file and offset, in bounded memory.
package inspect

import (
	"fmt"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/internal/words"
)

// Options say what is looked at beside what the files say of themselves.
type Options struct {
	Verify  bool     // build filters again from the keys of their tables, and compare
	Entries bool     // of a log each operation
	Keys    [][]byte // follow them through the tables
	Full    bool     // of a store, read all of the filter blocks of some tables: those with something wrong, and the largest
	WhatIf  []Question
	// Progress, if not nil, is told of how many tables of a store how many have been read, one call at a time.
	Progress func(done, of int)
}

// ParseKey reads a key as inspect prints keys.
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

// Formats is the versions of the files that this program writes and reads.
func Formats() string {
	return fmt.Sprintf("table %d, log %d, manifest %d", sstable.FormatVersion, wal.FormatVersion, manifest.FormatVersion)
}

// A Style says how text is written.
type Style struct {
	Color bool // with escape sequences, for a terminal
	Hex   bool // of a table also the bytes of its filter blocks
}

// A Damage is what is damaged, as JSON has it.
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
