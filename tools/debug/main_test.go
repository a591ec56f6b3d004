package debug_test

import (
	"testing"

	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

func TestMain(m *testing.M) { storetest.Main(m) }

var must = testkit.Must
