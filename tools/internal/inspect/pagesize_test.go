package inspect_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// A page with all that it can show is sent by mail and opened on phones.
func TestThePageOfTwentyFiveTablesIsSmall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db, err := bloomkv.Open(dir, &bloomkv.Options{
		TableSize: 1 << 20, MemtableSize: 4 << 20, BaseLevelSize: 8 << 20, Durability: bloomkv.DurabilityNoSync,
		FilterPrefix: bloomkv.PrefixLen(8),
	})
	must(t, err)
	value, random := make([]byte, 100), rand.NewChaCha8([32]byte{1})
	const n = 235_000
	for i := range n {
		_, _ = random.Read(value) // does not fail
		must(t, db.Put(fmt.Appendf(nil, "user/%08d", i*7919%n), value))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	for i := range n {
		_, err := db.Has(fmt.Appendf(nil, "user/%08dx", i))
		must(t, err)
	}
	must(t, errors.Join(db.Close()))
	s, err := inspect.ReadStore(t.Context(), dir, inspect.Options{Full: true})
	must(t, err)
	var page bytes.Buffer
	must(t, s.Page().WriteHTML(&page))
	if tables := len(s.Tables); tables < 25 || tables > 30 || page.Len() > 600_000 {
		t.Errorf("the page of %d tables has %d bytes, want 25 tables and 600,000 bytes at most", tables, page.Len())
	}
}
