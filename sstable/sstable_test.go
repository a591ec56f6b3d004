package sstable_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/sstable"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func build(t *testing.T, o sstable.WriterOptions, keys int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := sstable.NewWriter(&b, o)
	for i := range keys {
		if err := w.Add(key(i), fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	size := w.Size()
	if err := w.Finish(); err != nil || size == 0 || size > uint64(b.Len()) {
		t.Fatalf("%v, estimated at %d bytes of %d", err, size, b.Len())
	}
	return b.Bytes()
}

func key(i int) []byte { return fmt.Appendf(nil, "%06d", 2*i) }

func open(t *testing.T, file []byte) *sstable.Reader {
	t.Helper()
	r, err := sstable.Open(bytes.NewReader(file), int64(len(file)), "table")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func params(t *testing.T, rate float64) bloomblock.Params {
	t.Helper()
	p, err := bloomblock.ParamsFor(rate)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestATableIsReadAsItWasWritten(t *testing.T) {
	const n = 3000
	for _, o := range []sstable.WriterOptions{
		{},
		{Codec: sstable.CodecS2, Filter: params(t, 0.01)},
		{Codec: sstable.CodecZstd, BlockSize: 700, Seed: 7, ID: 9, Filter: params(t, 0.0001)},
	} {
		r := open(t, build(t, o, n))
		for i := range n {
			v, found, err := r.Get(key(i))
			want := sstable.Version{Key: key(i), Value: []byte(strconv.Itoa(i))}
			if err != nil || !found || !reflect.DeepEqual(v, want) {
				t.Fatalf("key %d: %+v %v %v, want %+v", i, v, found, err, want)
			}
			if _, found, err := r.Get(append(key(i), '.')); found || err != nil {
				t.Fatalf("after key %d: %v %v", i, found, err)
			}
		}
		i := 0
		for v, err := range r.All() {
			if err != nil || !bytes.Equal(v.Key, key(i)) {
				t.Fatalf("version %d: %+v, %v", i, v, err)
			}
			i++
		}
		if i != n {
			t.Errorf("%d versions, want %d", i, n)
		}
		if err := r.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		for v, err := range r.All() {
			if err != nil || !bytes.Equal(v.Key, key(0)) {
				t.Errorf("%+v, %v", v, err)
			}
			break
		}
	}
}

func TestVersionsOfAStore(t *testing.T) {
	mem := vfstest.NewMem()
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(db.Put([]byte("a"), []byte("old")))
	snap, err := db.Snapshot()
	must(err)
	must(db.Put([]byte("a"), []byte("new")))
	must(db.DeleteRange(bloomkv.KeyRange{Lower: []byte("b"), Upper: []byte("d")}))
	must(db.Flush(t.Context()))
	snap.Close()
	must(db.Close())

	names, err := mem.List("db")
	must(err)
	for _, name := range names {
		if filepath.Ext(name) != ".sst" {
			continue
		}
		f, err := mem.Open("db/" + name)
		must(err)
		size, err := f.Size()
		must(err)
		r, err := sstable.Open(f, size, name)
		must(err)
		var all []string
		for v, err := range r.All() {
			must(err)
			all = append(all, fmt.Sprintf("%s=%s@%d", v.Key, v.Value, v.Seq))
		}
		if got := strings.Join(all, " "); got != "a=new@2 a=old@1" {
			t.Errorf("versions %s", got)
		}
		v, found, err := r.Get([]byte("a"))
		if string(v.Value) != "new" || !found || err != nil {
			t.Errorf("got %+v %v %v", v, found, err)
		}
		r.Close()
		must(f.Close())
		return
	}
	t.Errorf("no table among %v", names)
}

func TestDamageIsAnErrorOrAnUnusedFilter(t *testing.T) {
	file := build(t, sstable.WriterOptions{ID: 1, Filter: params(t, 0.01)}, 300)
	for at := range file {
		damaged := bytes.Clone(file)
		damaged[at] ^= 0x10
		r, err := sstable.Open(bytes.NewReader(damaged), int64(len(damaged)), "table")
		if err != nil {
			if !errors.Is(err, sstable.ErrCorrupt) && !errors.Is(err, sstable.ErrVersion) {
				t.Errorf("byte %d: %v", at, err)
			}
			continue
		}
		if err := r.Verify(t.Context()); !errors.Is(err, sstable.ErrCorrupt) {
			t.Errorf("byte %d: verify: %v", at, err)
		}
		v, found, err := r.Get(key(150))
		if err == nil && (!found || string(v.Value) != "150") || err != nil && !errors.Is(err, sstable.ErrCorrupt) {
			t.Errorf("byte %d: %+v %v %v", at, v, found, err)
		}
	}
}
