package history

import (
	"testing"

	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/storetest"
)

// TestMain runs the tests. The indexes of tables of some ten blocks and more are in parts, as in package tests.
func TestMain(m *testing.M) {
	sstable.SetPartSize(200)
	storetest.Main(m)
}

// must ends the test with an error that is not nil.
func must(tb testing.TB, err error) { //nolint:thelper // Helper takes longer than most calls
	if err != nil {
		tb.Helper()
		tb.Fatal(err)
	}
}
