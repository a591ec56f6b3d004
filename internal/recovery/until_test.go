package recovery

import (
	"cmp"
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
	calls := func(f vfs.File) (vfs.File, map[string]error) {
		_, list := fsys.List("db")
		_, stat := fsys.Stat("db/a")
		opened, open := fsys.Open("db/a")
		_, read := cmp.Or(f, opened).ReadAt(nil, 0)
		return opened, map[string]error{"List": list, "Stat": stat, "Open": open, "ReadAt": read}
	}
	f, before := calls(nil)
	cancel()
	_, after := calls(f)
	for call, err := range after {
		if before[call] != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, then %v; want no error, then %v", call, before[call], err, context.Canceled)
		}
	}
	must(t, f.Close())
}
