package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bloomkv/bloomkv"
)

// A store is a kind of store that can be copied.
type store struct {
	name   string
	module string // of the library that reads it
	open   func(path string) (source, error)
}

var stores = []store{
	{"goleveldb", "github.com/syndtr/goleveldb", openGoleveldb},
	{"pebble", "github.com/cockroachdb/pebble/v2", openPebble},
	{"badger", "github.com/dgraph-io/badger/v4", openBadger},
	{"bbolt", "go.etcd.io/bbolt", openBbolt},
}

// A source is a store of another library, opened for reading.
type source interface {
	// each calls f for every pair that the store has now, in ascending order of keys, until f returns an error. Slices
	// are valid until f returns. What is not copied is counted in lost.
	each(lost *losses, f func(bloomkv.KV) error) error
	io.Closer
}

// losses counts what a bloomkv store has no place for.
type losses struct {
	Expired      uint64 `json:"expired"`       // Badger: newest versions whose time to live is over
	TTLs         uint64 `json:"ttls"`          // Badger: pairs that would have expired later
	UserMeta     uint64 `json:"user_meta"`     // Badger: pairs with user metadata other than 0
	EmptyBuckets uint64 `json:"empty_buckets"` // bbolt
	Sequences    uint64 `json:"sequences"`     // bbolt: buckets with a sequence number other than 0
}

// errInUse is the error for a store that another process has open.
var errInUse = errors.New("in use by another process")

// isStore returns an error unless path is a directory with a file whose name matches one of the patterns. Some of the
// libraries would create files in a directory that is no store.
func isStore(path string, patterns ...string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return errors.New("a file, want the directory of a store")
	}
	if err != nil {
		return withoutPath(err)
	}
	for _, pattern := range patterns {
		found, err := find(path, func(name string) bool {
			ok, _ := filepath.Match(pattern, name) // the patterns are well-formed
			return ok
		})
		if err != nil || found != "" {
			return err
		}
	}
	return fmt.Errorf("no such store here: there is no file %s", patterns[0])
}

// find returns the first name of a file in a directory for which is returns true, or "".
func find(dir string, is func(name string) bool) (string, error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if is(e.Name()) {
			return e.Name(), nil
		}
	}
	return "", withoutPath(err)
}

// withoutPath returns an error of package os without its operation and path.
func withoutPath(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}
