package debug_test

import (
	"testing"

	"github.com/bloomkv/bloomkv/internal/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// must ends the test with an error that is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
