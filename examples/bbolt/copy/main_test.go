package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/examples/bbolt/bucket"
)

// place formats the buckets and the name of a key.
func place(buckets [][]byte, name []byte) string { return fmt.Sprintf("%q %q", buckets, name) }

// file creates a bbolt file with nested buckets among its keys, and returns its path and contents.
func file(t *testing.T) (name string, want map[string]string) {
	t.Helper()
	name, want = filepath.Join(t.TempDir(), "file.db"), make(map[string]string)
	db, err := bbolt.Open(name, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	names := []string{"\x00", "\x00\x01", "a", "a\x00", "a\x00\x01", "ab", "\xff"}
	err = db.Update(func(tx *bbolt.Tx) error {
		if _, err := tx.CreateBucket([]byte("empty")); err != nil {
			return err
		}
		for _, outer := range names {
			b, err := tx.CreateBucket([]byte(outer))
			if err != nil {
				return err
			}
			if err := fill(b, [][]byte{[]byte(outer)}, names, want); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return name, want
}

// fill puts keys into a bucket, with further buckets between them, at most three deep.
func fill(b *bbolt.Bucket, path [][]byte, names []string, want map[string]string) error {
	for i := range 100 {
		key := fmt.Appendf(nil, "key %d", i)
		value := bytes.Repeat(key, i)
		want[place(path, key)] = string(value)
		if err := b.Put(key, value); err != nil {
			return err
		}
	}
	if len(path) == 3 {
		return nil
	}
	for i, name := range names {
		if i%2 == len(path)%2 {
			want[place(path, []byte(name))] = ""
			if err := b.Put([]byte(name), nil); err != nil {
				return err
			}
			continue
		}
		inner, err := b.CreateBucket([]byte(name))
		if err != nil {
			return err
		}
		if err := fill(inner, append(slices.Clip(path), []byte(name)), names, want); err != nil {
			return err
		}
	}
	return nil
}

func TestTheCopyHoldsWhatTheFileHolds(t *testing.T) {
	from, want := file(t)
	before, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "store")
	if err := copyFile(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(from); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed, or %v", err)
	}
	db, err := bloomkv.Open(to, &bloomkv.Options{ErrorIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	got := make(map[string]string)
	for kv, err := range db.Scan(bloomkv.IterOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		got[place(bucket.Split(kv.Key))] = string(kv.Value)
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %d keys, want %d, or some differ", len(got), len(want))
	}
	keys := 0
	inner := bucket.Prefix(bucket.Prefix(nil, []byte("a")), []byte("a\x00\x01"))
	for kv, err := range db.Scan(bloomkv.IterOptions{Prefix: inner, KeysOnly: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if where := place(bucket.Split(kv.Key)); !strings.HasPrefix(where, `["a" "a\x00\x01"`) {
			t.Errorf("%s is not in the bucket", where)
		}
		keys++
	}
	if keys == 0 {
		t.Error("no keys under the prefix of a bucket")
	}
}

func TestACopyThatFailsMayBeMadeAgain(t *testing.T) {
	from, _ := file(t)
	dir := t.TempDir()
	to := filepath.Join(dir, "store")
	if err := copyFile(t.Context(), filepath.Join(dir, "nothing"), to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v, want fs.ErrNotExist", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i, step := range []struct {
		ctx  context.Context
		want error
	}{{ctx, context.Canceled}, {t.Context(), nil}, {t.Context(), errNotEmpty}} {
		if err := copyFile(step.ctx, from, to); !errors.Is(err, step.want) {
			t.Errorf("copy %d: got %v, want %v", i+1, err, step.want)
		}
	}
}
