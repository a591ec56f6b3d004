package sstable

import (
	"bytes"
	"io"
	"testing"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/epoch"
)

// gate is a file whose reads wait while gate.closed is not nil.
type gate struct {
	io.ReaderAt

	entered chan struct{}
	closed  chan struct{}
}

func (g *gate) ReadAt(p []byte, off int64) (int, error) {
	if g.closed != nil {
		g.entered <- struct{}{}
		<-g.closed
	}
	return g.ReaderAt.ReadAt(p, off)
}

func TestShedNeverWaitsForALoad(t *testing.T) {
	kvs := sorted([]kv{set("a", 1, "1"), set("b", 2, "2"), set("c", 3, "3")})
	file, info := build(t, WriterOptions{Filter: filterParams(t, 0.01)}, kvs)
	d := new(epoch.Domain)
	f := &gate{ReaderAt: bytes.NewReader(file)}
	r := NewReader(f, metaOf(info), cache.New(1<<20, d), d)
	must(t, r.Load(0))
	if _, ok, err := get(r, "b", 9); !ok || err != nil {
		t.Fatalf("get: %v, %v", ok, err)
	}
	blocks := func() int { return r.cache.Stats().Blocks }
	if !r.Shed(0, false) || r.FilterBytes() != 0 || r.IndexBytes() == 0 || blocks() != 1 {
		t.Errorf("the filter alone: %d bytes of filter, %d of index, %d blocks",
			r.FilterBytes(), r.IndexBytes(), blocks())
	}
	if !r.Shed(0, true) || r.IndexBytes() != 0 || blocks() != 0 {
		t.Errorf("all: %d bytes of filter, %d of index, %d blocks", r.FilterBytes(), r.IndexBytes(), blocks())
	}
	f.entered, f.closed = make(chan struct{}, 10), make(chan struct{})
	loaded := make(chan error)
	go func() { loaded <- r.Load(1) }()
	<-f.entered
	if r.Shed(0, true) {
		t.Error("shed beside a load, which holds the lock")
	}
	close(f.closed)
	if err := <-loaded; err != nil || r.IndexBytes() == 0 {
		t.Errorf("load: %v, %d bytes of index", err, r.IndexBytes())
	}
	if got, ok, err := get(r, "b", 9); !ok || err != nil || got.value != "2" {
		t.Errorf("get: %v, %v, %v", got, ok, err)
	}
}
