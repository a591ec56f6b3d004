package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/bloomkv/bloomkv"
)

type badgerSource struct {
	*badger.DB

	log *badgerLog
}

// errBadgerUnclosed is the error for a store that Badger would change before reading it.
var errBadgerUnclosed = errors.New("it was not closed: open and close it once with its own program")

func openBadger(path string) (source, error) {
	if err := isStore(path, badger.ManifestFilename); err != nil {
		return nil, err
	}
	s := &badgerSource{log: new(badgerLog)}
	o := badger.DefaultOptions(path).WithReadOnly(true).WithLogger(s.log).WithMetricsEnabled(false).
		WithChecksumVerificationMode(options.OnBlockRead).WithVerifyValueChecksum(true)
	if err := checkManifest(path, o); err != nil {
		return nil, err
	}
	db, err := badger.Open(o)
	switch {
	case err == nil:
		s.DB = db
		if err := s.log.err(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	case strings.Contains(err.Error(), "Cannot acquire directory lock"): // its cause is not wrapped
		err = errInUse
	case strings.Contains(err.Error(), badger.ErrTruncateNeeded.Error()):
		err = errBadgerUnclosed
	}
	return nil, err
}

// checkManifest returns an error if a table of the store is not in its manifest, or if the manifest ends in the middle
// of a record. Even when opened for reading only, Badger ignores such an end, and removes such tables.
func checkManifest(path string, o badger.Options) (err error) {
	f, err := os.Open(filepath.Join(path, badger.ManifestFilename))
	if err != nil {
		return withoutPath(err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	manifest, end, err := badger.ReplayManifestFile(f, 0, o)
	if err != nil {
		return err
	}
	if end != info.Size() {
		return errBadgerUnclosed
	}
	other, err := find(path, func(name string) bool {
		number, isTable := strings.CutSuffix(name, ".sst")
		id, err := strconv.ParseUint(number, 10, 64)
		_, known := manifest.Tables[id]
		return isTable && err == nil && !known
	})
	if other != "" {
		err = errBadgerUnclosed
	}
	return err
}

// A badgerLog keeps the first error that Badger logs. It logs, and does not return, that a table is ignored or that a
// value cannot be read.
type badgerLog struct {
	mu    sync.Mutex
	first error // guarded by mu
}

func (l *badgerLog) Errorf(format string, values ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = errors.New(strings.TrimSpace(fmt.Sprintf(format, values...)))
	}
}

func (*badgerLog) Warningf(string, ...any) {}
func (*badgerLog) Infof(string, ...any)    {}
func (*badgerLog) Debugf(string, ...any)   {}

func (l *badgerLog) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

// each walks all versions, to count entries that have expired. Badger's iterators end silently at a damaged block, so
// all blocks are verified before.
func (s *badgerSource) each(lost *losses, f func(bloomkv.KV) error) error {
	if err := s.VerifyChecksum(); err != nil {
		return err
	}
	txn := s.NewTransaction(false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{AllVersions: true})
	defer it.Close()
	var last []byte
	for it.Rewind(); it.Valid(); it.Next() {
		item := it.Item()
		if bytes.Equal(item.Key(), last) { // an older version; no key is empty
			continue
		}
		last = append(last[:0], item.Key()...)
		if !lost.count(item) {
			continue
		}
		err := item.Value(func(value []byte) error {
			if err := s.log.err(); err != nil {
				return err
			}
			return f(bloomkv.KV{Key: last, Value: value})
		})
		if err != nil {
			return err
		}
	}
	return s.log.err()
}

// count counts what is lost of the newest version of a key, and reports whether it has a value.
func (l *losses) count(item *badger.Item) bool {
	expires := item.ExpiresAt() > 0
	if item.IsDeletedOrExpired() {
		if expires {
			l.Expired++
		}
		return false
	}
	if expires {
		l.TTLs++
	}
	if item.UserMeta() != 0 {
		l.UserMeta++
	}
	return true
}
