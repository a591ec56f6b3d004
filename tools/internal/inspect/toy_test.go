package inspect_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

func TestTheToyInDocsIsTheOneThatIsServed(t *testing.T) {
	var page bytes.Buffer
	must(t, inspect.Toy("").WriteHTML(&page))
	testkit.Golden(t, filepath.Join("..", "..", "..", "docs", "filter.html"), page.String())
}
