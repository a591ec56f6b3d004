package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv"
)

// Churn flushes, compacts and ingests other keys until stop is called, which waits for it.
func Churn(t *testing.T, db *bloomkv.DB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			var err error
			switch i % 4 {
			case 0, 1:
				err = db.Flush(ctx)
			case 2:
				err = db.Compact(ctx, bloomkv.CompactOptions{})
			default:
				other := map[string]string{fmt.Sprintf("~other%d", i%7): "ingested"}
				err = db.Ingest(ctx, PairsOf(other), bloomkv.IngestOptions{})
			}
			if err != nil && ctx.Err() == nil {
				t.Errorf("background: %v", err)
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
