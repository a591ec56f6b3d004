package history

import (
	"testing"

	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// TestMain runs the tests. The indexes of tables of some ten blocks and more are in parts, as in package tests.
func TestMain(m *testing.M) {
	sstable.SetPartSize(200)
	storetest.Main(m)
}

var must = testkit.Must
