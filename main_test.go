package bloomkv_test

import (
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

func TestMain(m *testing.M) { storetest.Main(m) }

var must = testkit.Must

// atRest waits until all background work of the store is done, after a Sync.
func atRest(t *testing.T, db *bloomkv.DB) {
	t.Helper()
	storetest.AtRest(t, db, db.Options().FS, db.Dir())
}
