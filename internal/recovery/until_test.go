package recovery

import (
	"context"
	"errors"
	"testing"

	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestNothingIsReadOnceTheContextHasEnded(t *testing.T) {
	mem := vfstest.NewMem()
	must(t, mem.Mkdir("db"))
	w, err := mem.Create("db/a")
	must(t, err)
	must(t, w.Close())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fsys := Until(ctx, mem)
	held, err := vfs.Hold(fsys, "db")
	must(t, err)
	for _, ended := range []bool{false, true} {
		for name, fsys := range map[string]vfs.FS{"the whole": fsys, "a held directory": held} {
			_, list := fsys.List("db")
			_, stat := fsys.Stat("db/a")
			f, open := fsys.Open("db/a")
			for call, err := range map[string]error{"List": list, "Stat": stat, "Open": open} {
				if errors.Is(err, context.Canceled) != ended {
					t.Errorf("%s of %s: %v, the context has ended: %v", call, name, err, ended)
				}
			}
			if ended {
				continue
			}
			defer func() {
				if _, err := f.ReadAt(nil, 0); !errors.Is(err, context.Canceled) {
					t.Errorf("ReadAt: %v, want that the context has ended", err)
				}
				must(t, f.Close())
			}()
		}
		cancel()
	}
	must(t, held.Close())
}
