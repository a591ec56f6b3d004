package vfs_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// foreign is an FS of another package, with only the methods of the interface.
type foreign struct{ vfs.FS }

func TestInsideFollowsLinksOnTheSystem(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"store/sub/deep", "store2", "beside"} {
		must(t, os.MkdirAll(filepath.FromSlash(dir), 0o700))
	}
	for link, to := range map[string]string{
		"to-store": "store", "to-sub": "store/sub", "store/out": "../beside", "beside/back": "../store/sub",
	} {
		if err := os.Symlink(filepath.FromSlash(to), filepath.FromSlash(link)); err != nil {
			if runtime.GOOS == "windows" {
				t.Skip("links need a privilege here: ", err)
			}
			t.Fatal(err)
		}
	}
	wd, err := os.Getwd()
	must(t, err)
	hooked := vfstest.NewHook(vfs.OS, func(vfstest.Op) error { return nil })
	for _, c := range []struct {
		dir, outer string
		want       bool
	}{
		{"store", "store", true},
		{"store/sub", "store", true},
		{"store/sub/deep", "store", true},
		{"store2", "store", false},
		{"beside", "store", false},
		{".", "store", false},
		{"store", ".", true},
		{"beside/../store/sub", "store", true},
		{"store/sub/../../beside", "store", false},
		{"to-store", "store", true},
		{"to-sub/deep", "store", true},
		{"store/sub", "to-store", true},
		{"store/out", "store", false},
		{"beside/back/deep", "store", true},
		{filepath.Join(wd, "store", "sub"), "store", true},
		{"store/sub", filepath.Join(wd, "to-store"), true},
		{"/", "store", false},
	} {
		for _, fsys := range []vfs.FS{vfs.OS, hooked} {
			got, err := vfs.Inside(fsys, filepath.FromSlash(c.dir), filepath.FromSlash(c.outer))
			if err != nil || got != c.want {
				t.Errorf("%s inside %s: %v, %v, want %v", c.dir, c.outer, got, err, c.want)
			}
		}
	}
	for _, c := range [][2]string{{"none", "store"}, {"store", "none"}} {
		if _, err := vfs.Inside(vfs.OS, c[0], c[1]); !os.IsNotExist(err) || !strings.Contains(err.Error(), "none") {
			t.Errorf("%q: got %v, want that it does not exist", c, err)
		}
	}
}

func TestInsideByNames(t *testing.T) {
	for _, c := range []struct {
		dir, outer string
		want       bool
	}{
		{"a", "a", true},
		{"a/b", "a", true},
		{"a/../a/b", "a", true},
		{"a/b/..", "a/b", false},
		{"ab", "a", false},
		{"..a", ".", true},
		{"b", "a", false},
	} {
		for _, fsys := range []vfs.FS{vfstest.NewMem(), foreign{vfstest.NewMem()}} {
			got, err := vfs.Inside(fsys, filepath.FromSlash(c.dir), filepath.FromSlash(c.outer))
			if err != nil || got != c.want {
				t.Errorf("%T: %s inside %s: %v, %v, want %v", fsys, c.dir, c.outer, got, err, c.want)
			}
		}
	}
	if got, err := vfs.Inside(vfstest.NewMem(), filepath.FromSlash("/a/b"), "a"); err != nil || !got {
		t.Errorf("a relative name begins at the root: %v, %v", got, err)
	}
}
