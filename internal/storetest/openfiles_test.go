package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestAFileThatIsClosedTwiceIsNotCalledOpen(t *testing.T) {
	fsys := TrackOpen(vfstest.NewMem())
	f, err := fsys.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"map[a:1]", "<nil>", "map[a:-1]"} {
		if got := fmt.Sprint(fsys.Left()); !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		_ = f.Close()
	}
}
