package main

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/dgraph-io/badger/v4"
	"github.com/syndtr/goleveldb/leveldb"
	"go.etcd.io/bbolt"

	"github.com/bloomkv/bloomkv/examples/bucket"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// A fixture is a store that its own library has written.
type fixture struct {
	from  string
	path  string
	pairs map[string]string // what a copy must hold
	lost  losses
}

// writers create a store of each kind in path and return what a copy of it must hold. With keepOpen, the store is not
// closed before the test ends.
var writers = map[string]func(t *testing.T, path string, keepOpen bool) fixture{
	"goleveldb": writeGoleveldb, "pebble": writePebble, "badger": writeBadger, "bbolt": writeBbolt,
}

// write creates a store of a kind in a new directory and closes it.
func write(t *testing.T, from string) fixture {
	t.Helper()
	f := writers[from](t, filepath.Join(t.TempDir(), "source"), false)
	f.from = from
	return f
}

var must = testkit.Must

const rounds = 5000

// script calls put and del with binary keys and values, among them large ones, and returns what is left in the end.
func script(t *testing.T, put func(key, value []byte) error, del func(key []byte) error) map[string]string {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func(most int) []byte {
		b := make([]byte, rnd.IntN(most+1))
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return b
	}
	want := make(map[string]string)
	for i := range rounds {
		key := fmt.Appendf(nil, "%x", rnd.Uint64N(rounds))
		switch i % 10 {
		case 0:
			key = append([]byte{0, 0xff}, random(40)...)
		case 1, 2:
			must(t, del(key))
			delete(want, string(key))
			continue
		}
		value := random(300)
		if i%500 == 3 {
			value = bytes.Repeat(random(1000), 300)
		}
		if i%100 == 4 {
			value = nil
		}
		must(t, put(key, value))
		want[string(key)] = string(value)
	}
	return want
}

// end closes a store now, or when the test ends.
func end(t *testing.T, keepOpen bool, closeStore func() error) {
	t.Helper()
	if !keepOpen {
		must(t, closeStore())
		return
	}
	t.Cleanup(func() { _ = closeStore() })
}

func writeGoleveldb(t *testing.T, path string, keepOpen bool) fixture {
	t.Helper()
	db, err := leveldb.OpenFile(path, nil)
	must(t, err)
	want := script(t,
		func(key, value []byte) error { return db.Put(key, value, nil) },
		func(key []byte) error { return db.Delete(key, nil) })
	must(t, db.Put(nil, []byte("the empty key"), nil))
	want[""] = "the empty key"
	end(t, keepOpen, db.Close)
	return fixture{path: path, pairs: want}
}

func writePebble(t *testing.T, path string, keepOpen bool) fixture {
	t.Helper()
	memtable := uint64(256 << 10)
	if keepOpen { // no flush begins before the memtables have half of this
		memtable = 64 << 20
	}
	db, err := pebble.Open(path, &pebble.Options{
		MemTableSize: memtable, Logger: silent{}, FormatMajorVersion: pebble.FormatNewest,
	})
	must(t, err)
	want := script(t,
		func(key, value []byte) error { return db.Set(key, value, pebble.NoSync) },
		func(key []byte) error { return db.Delete(key, pebble.NoSync) })
	must(t, db.DeleteRange([]byte("3"), []byte("4"), pebble.NoSync))
	maps.DeleteFunc(want, func(key, _ string) bool { return "3" <= key && key < "4" })
	for _, operand := range []string{"merged", " by", " Pebble"} {
		must(t, db.Merge([]byte("merge"), []byte(operand), pebble.NoSync))
	}
	must(t, db.Set(nil, []byte("the empty key"), pebble.Sync))
	want["merge"], want[""] = "merged by Pebble", "the empty key"
	end(t, keepOpen, db.Close)
	return fixture{path: path, pairs: want}
}

func writeBadger(t *testing.T, path string, keepOpen bool) fixture {
	t.Helper()
	db, err := badger.Open(badger.DefaultOptions(path).WithLogger(nil).WithMemTableSize(1 << 20).
		WithValueThreshold(1 << 10).WithValueLogFileSize(1 << 20).WithMetricsEnabled(false))
	must(t, err)
	set := func(e *badger.Entry) {
		must(t, db.Update(func(txn *badger.Txn) error { return txn.SetEntry(e) }))
	}
	want := script(t,
		func(key, value []byte) error {
			return db.Update(func(txn *badger.Txn) error { return txn.Set(key, value) })
		},
		func(key []byte) error { return db.Update(func(txn *badger.Txn) error { return txn.Delete(key) }) })
	past := badger.NewEntry([]byte("expired"), []byte("1"))
	past.ExpiresAt = 1 // second of 1970
	again := badger.NewEntry([]byte("lives again"), []byte("1"))
	again.ExpiresAt = 1
	set(badger.NewEntry([]byte("expired"), []byte("an older version without an end")))
	set(past)
	set(again)
	set(badger.NewEntry([]byte("lives again"), []byte("2")))
	set(badger.NewEntry([]byte("lives"), []byte("3")).WithTTL(24 * time.Hour))
	set(badger.NewEntry([]byte("meta"), []byte("4")).WithMeta(7))
	want["lives again"], want["lives"], want["meta"] = "2", "3", "4"
	end(t, keepOpen, db.Close)
	return fixture{path: path, pairs: want, lost: losses{Expired: 1, TTLs: 1, UserMeta: 1}}
}

func writeBbolt(t *testing.T, path string, keepOpen bool) fixture {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	must(t, err)
	want := make(map[string]string)
	names := []string{"\x00", "\x00\x01", "a", "a\x00", "a\x00\x01", "ab", "\xff"}
	tx, err := db.Begin(true)
	must(t, err)
	_, err = tx.CreateBucket([]byte("empty"))
	must(t, err)
	for _, name := range names {
		b, err := tx.CreateBucket([]byte(name))
		must(t, err)
		fillBucket(t, b, bucket.Prefix(nil, []byte(name)), 1, names, want)
	}
	b, err := tx.CreateBucket([]byte("script"))
	must(t, err)
	must(t, b.SetSequence(3))
	prefix := string(bucket.Prefix(nil, []byte("script")))
	for key, value := range script(t, b.Put, b.Delete) {
		want[prefix+string(bucket.Key(nil, []byte(key)))] = value
	}
	must(t, tx.Commit())
	end(t, keepOpen, db.Close)
	return fixture{path: path, pairs: want, lost: losses{EmptyBuckets: 1, Sequences: 1}}
}

// fillBucket puts keys into a bucket, with further buckets between them, at most three deep.
func fillBucket(t *testing.T, b *bbolt.Bucket, prefix []byte, depth int, names []string, want map[string]string) {
	t.Helper()
	put := func(key, value []byte) {
		must(t, b.Put(key, value))
		want[string(bucket.Key(prefix, key))] = string(value)
	}
	for i := range 20 {
		key := fmt.Appendf(nil, "key %d", i)
		put(key, bytes.Repeat(key, i))
	}
	if depth == 3 {
		return
	}
	for i, name := range names {
		if i%2 == depth%2 {
			put([]byte(name), nil)
			continue
		}
		inner, err := b.CreateBucket([]byte(name))
		must(t, err)
		fillBucket(t, inner, bucket.Prefix(slices.Clone(prefix), []byte(name)), depth+1, names, want)
	}
}

// contents returns the contents of a file, or of all files in a directory, except those of locks.
func contents(t *testing.T, path string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	must(t, filepath.WalkDir(path, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "LOCK" {
			return err
		}
		b, err := os.ReadFile(name)
		rel, _ := filepath.Rel(path, name)
		all[rel] = string(b)
		return err
	}))
	return all
}

// clone copies a file, or a directory of files, as they are now. It returns the copy's path.
func clone(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "clone")
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		must(t, os.Mkdir(to, 0o700))
	}
	for name, content := range contents(t, path) {
		name = filepath.Join(to, name)
		must(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must(t, os.WriteFile(name, []byte(content), 0o600))
	}
	return to
}
