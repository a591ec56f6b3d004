package debug_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/debug"
)

// BenchmarkLookupsBesideViewers measures 95 lookups, half of them of absent keys, and 5 puts of a hundred operations,
// while viewers watch the live figures.
func BenchmarkLookupsBesideViewers(b *testing.B) {
	for _, viewers := range []int{0, 10} {
		b.Run(fmt.Sprintf("viewers=%d", viewers), func(b *testing.B) { lookUpBeside(b, viewers) })
	}
}

func lookUpBeside(b *testing.B, viewers int) {
	b.Helper()
	const keys = 200_000
	db, err := bloomkv.Open(filepath.Join(b.TempDir(), "store"), &bloomkv.Options{Durability: bloomkv.NoSync})
	must(b, err)
	defer db.Close()
	value := make([]byte, 100)
	key := func(i uint64) []byte { return binary.BigEndian.AppendUint64(nil, i*0x9e3779b97f4a7c15) }
	for i := range uint64(keys) {
		must(b, db.Put(key(2*i), value))
	}
	must(b, db.Compact(b.Context(), nil, nil))
	server := httptest.NewServer(debug.Handler(db, debug.Options{}))
	defer server.Close()
	defer server.CloseClientConnections()
	for range viewers {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL+"/events", http.NoBody)
		must(b, err)
		answer, err := http.DefaultClient.Do(r)
		must(b, err)
		defer answer.Body.Close()
		go func() {
			for lines := bufio.NewScanner(answer.Body); lines.Scan(); { // until the body is closed
			}
		}()
	}
	n := uint64(0)
	for b.Loop() {
		n++
		if n%20 == 0 {
			must(b, db.Put(key(2*(n%keys)), value))
			continue
		}
		if _, err := db.Get(key(n % (2 * keys))); err != nil && !errors.Is(err, bloomkv.ErrNotFound) {
			b.Fatal(err)
		}
	}
}
