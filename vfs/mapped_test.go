package vfs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestAMappedFileHasTheContent(t *testing.T) {
	for name, make := range everyFS() {
		t.Run(name, func(t *testing.T) {
			fsys, dir := make(t)
			file := filepath.Join(dir, "a")
			content := strings.Repeat("0123456789abcdef", 5000)
			put(t, fsys, file, content)
			f, err := fsys.Open(file)
			must(t, err)
			m, ok := f.(vfs.Mapper)
			if !ok {
				must(t, f.Close())
				return
			}
			mapping, err := m.Map(len(content))
			if errors.Is(err, errors.ErrUnsupported) {
				t.Skip(err)
			}
			must(t, err)
			if _, err := m.Map(len(content) + 1); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("a mapping longer than the file: %v, want an invalid argument", err)
			}
			if _, err := m.Map(0); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("an empty mapping: %v, want an invalid argument", err)
			}
			must(t, f.Close()) // the mapping does not need the file
			var got []byte
			must(t, vfs.ReadMapped(func() { got = bytes.Clone(mapping.Bytes()) }))
			if string(got) != content {
				t.Errorf("the mapped file differs from what was written: %d and %d bytes", len(got), len(content))
			}
			for _, r := range [][2]int{{0, 1}, {0, len(content)}, {4095, 4097}, {len(content) - 1, len(content)}} {
				if !mapping.InMemory(r[0], r[1]) {
					t.Errorf("bytes %d to %d, which were just read, are not in memory", r[0], r[1])
				}
			}
			must(t, mapping.Close())
			if _, err := m.Map(1); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("mapping a closed file: %v, want %v", err, fs.ErrClosed)
			}
		})
	}
}

func TestReadMappedReturnsRuntimeErrorsAndNoOtherPanics(t *testing.T) {
	ran := false
	must(t, vfs.ReadMapped(func() { ran = true }))
	if !ran {
		t.Error("the function was not called")
	}
	changed := []byte{200}
	err := vfs.ReadMapped(func() { _ = changed[changed[0]] })
	if !errors.Is(err, vfs.ErrMapped) || !strings.Contains(err.Error(), "index out of range [200]") {
		t.Errorf("an index from a file that changed: %v, want that index as the reason", err)
	}
	defer func() {
		if r := recover(); r != "broken" {
			t.Errorf("a panic of the function became %v", r)
		}
	}()
	_ = vfs.ReadMapped(func() { panic("broken") })
}

func TestAMappingOfMemoryIsOverwrittenAtItsEnd(t *testing.T) {
	m := vfstest.NewMem()
	put(t, m, "a", "content")
	f, err := m.Open("a")
	must(t, err)
	mapping, err := f.(vfs.Mapper).Map(7) //nolint:errcheck,forcetypeassert // what Mem makes
	must(t, err)
	b := mapping.Bytes()
	must(t, mapping.Close())
	if slices.Equal(b, []byte("content")) {
		t.Error("the memory still has the content, so that a late read is not noticed")
	}
}
