package bloomkv_test

import (
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// must ends the test with an error that is not nil.
func must(tb testing.TB, err error) { //nolint:thelper // Helper takes longer than most calls
	if err != nil {
		tb.Helper()
		tb.Fatal(err)
	}
}

// atRest waits until all background work of the store is done, after a Sync.
func atRest(t *testing.T, db *bloomkv.DB) {
	t.Helper()
	storetest.AtRest(t, db, db.Options().FS, db.Dir())
}
