package debug_test

import (
	"testing"

	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
)

func TestMain(m *testing.M) { storetest.Main(m) }

var must = testkit.Must

// Filters are measured exactly in the tests of filterexam.
func init() { filterexam.MostProbes = 1 << 19 }
