package sstable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

func TestFilterOfAnotherTableIsNotBelieved(t *testing.T) {
	var a, b []kv
	for i := range 500 {
		a, b = append(a, set(fmt.Sprintf("a%04d", i), 0, "v")), append(b, set(fmt.Sprintf("b%04d", i), 0, "v"))
	}
	o := WriterOptions{ID: 1, Filter: filterParams(t, 0.001)}
	fa, ia := build(t, o, a)
	fb, ib := build(t, o, b)
	if ia.FilterLen != ib.FilterLen {
		t.Fatal("filters of different size")
	}
	copy(fa[ia.filterOff():ia.filterOff()+ia.FilterLen], fb[ib.filterOff():])
	if !mustBeHonest(t, "foreign filter", fa, ia, a, nil) {
		t.Fatal("foreign filter is not seen")
	}
}

func TestLoadTakesAsManyUnitsAsTheRateNeeds(t *testing.T) {
	var kvs []kv
	for i := range 2000 {
		kvs = append(kvs, set(fmt.Sprintf("a%04d", i), 0, "v"))
	}
	o := WriterOptions{ID: 1, partSize: defaultPartSize, Filter: filterParams(t, 0.1, 0.01, 0.0001)}
	file, info := build(t, o, kvs)
	r := newReader(file, info, 0)
	for _, c := range []struct {
		rate  float64
		units int
	}{{1, 0}, {2, 0}, {0.1, 1}, {0.5, 1}, {0.01, 2}, {0.05, 2}, {0.0001, 3}, {0, 3}} {
		must(t, r.Load(c.rate))
		s := r.Keys.State()
		if s.Units != c.units || s.Damage != nil || s.Form.Bytes != r.Keys.Bytes() ||
			c.units > 0 && s.Form.Rate > max(c.rate, 0.0001) {
			t.Fatalf("Load(%v): %+v, want %d units", c.rate, s, c.units)
		}
		if _, probed := r.Keys.MayContain(1); probed != (c.units > 0) {
			t.Fatalf("Load(%v): probed %v", c.rate, probed)
		}
	}
	forms := r.Keys.Forms(0)
	for i, form := range slices.Backward(forms) {
		r.Keys.Reduce(forms[:i+1])
		if got := r.Keys.State().Form; got.Bytes > form.Bytes || got.Bytes == 0 && i > 1 {
			t.Fatalf("form %+v of %d bytes after reducing to %+v", got, r.Keys.Bytes(), form)
		}
		if _, err := r.Keys.Set(form); err != nil || r.Keys.Bytes() != form.Bytes {
			t.Fatalf("%d bytes, %v after loading form %+v", r.Keys.Bytes(), err, form)
		}
		for _, v := range kvs {
			if maybe, _ := r.Keys.MayContain(bloomblock.HashKey([]byte(v.key))); !maybe {
				t.Fatalf("form %+v denies %q", form, v.key)
			}
		}
	}
	if err := r.Load(0.01); err != nil || r.Keys.State().Units != 2 {
		t.Fatalf("after dropping: %+v, %v", r.Keys.State(), err)
	}
	dropIndex(r)
	if n, _ := r.Parts(); n != 0 || r.IndexBytes() != r.TopBytes() {
		t.Fatal("index was not dropped")
	}
	if got, ok, err := get(r, kvs[7].key, 0); !ok || err != nil || got != kvs[7] {
		t.Fatalf("after dropping the index: %v, %v, %v", got, ok, err)
	}
}

func TestLoadDropsTheUnitsThatARateDoesNotNeed(t *testing.T) {
	params, err := bloomblock.ParamsNested(0.01, 0.001)
	must(t, err)
	var file bytes.Buffer
	w := NewWriter(&file, WriterOptions{ID: 7, Filter: params})
	for i := range 2000 {
		must(t, w.Add(ikey.Key{User: fmt.Appendf(nil, "%06d", i), Trailer: ikey.MakeTrailer(1, ikey.Set)},
			nil))
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(bytes.NewReader(file.Bytes()), int64(file.Len()), "x")
	must(t, err)
	must(t, r.Load(0.001))
	for _, c := range []struct {
		rate float64
		want int
	}{{0.001, 2}, {0.005, 2}, {0.01, 1}, {0.001, 2}, {1, 0}} {
		must(t, r.Load(c.rate))
		if got := r.Keys.State().Units; got != c.want {
			t.Errorf("after Load(%g): %d units, want %d", c.rate, got, c.want)
		}
	}
	if err := r.Load(0.001); err != nil || r.Keys.State().Units != 2 {
		t.Errorf("loaded again: %d units, %v", r.Keys.State().Units, err)
	}
}

func TestUnitsBeforeADamagedOneAreUsed(t *testing.T) {
	var kvs []kv
	for i := range 2000 {
		kvs = append(kvs, set(fmt.Sprintf("a%04d", i), 0, "v"))
	}
	params := filterParams(t, 0.1, 0.01, 0.0001)
	file, info := build(t, WriterOptions{ID: 1, Filter: params}, kvs)
	h, err := bloomblock.ParseHeader(file[info.filterOff():])
	must(t, err)
	for i, u := range h.Units {
		file[info.filterOff()+u.Offset+7] ^= 4
		r := newReader(file, info, 0)
		must(t, r.Load(0))
		if s := r.Keys.State(); s.Units != i || !errors.Is(s.Damage, corrupt.Err) {
			t.Errorf("unit %d damaged: %+v", i, s)
		}
		if h, known := r.Keys.Header(); len(h.Units) != i || !known {
			t.Errorf("unit %d damaged: the header is %+v, known %v", i, h, known)
		}
		reads := &counting{r.file, 0}
		r.file = reads
		if err := r.Load(0); err != nil || reads.n > 0 {
			t.Errorf("unit %d damaged: loaded again with %d reads: %v", i, reads.n, err)
		}
		file[info.filterOff()+u.Offset+7] ^= 4
	}
}

type counting struct {
	io.ReaderAt
	n int
}

func (c *counting) ReadAt(b []byte, off int64) (int, error) {
	c.n++
	return c.ReaderAt.ReadAt(b, off)
}

type unreadable struct{}

func (unreadable) ReadAt([]byte, int64) (int, error) { return 0, syscall.EIO }

func TestUnitsThatCannotBeReadAreAnError(t *testing.T) {
	f := &tableFile{file: unreadable{}, meta: Meta{Size: 1 << 20}}
	if b, err := f.readUnits(filterPlace{}, 64); !errors.Is(err, syscall.EIO) {
		t.Errorf("%x, %v, want %v", b, err, syscall.EIO)
	}
}
