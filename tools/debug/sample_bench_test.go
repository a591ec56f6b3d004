package debug

import (
	"encoding/binary"
	"path/filepath"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// BenchmarkSample measures what all viewers together cost a store, once in Options.Interval: one sample.
func BenchmarkSample(b *testing.B) {
	db, err := bloomkv.Open(filepath.Join(b.TempDir(), "store"), &bloomkv.Options{Durability: bloomkv.DurabilityNoSync})
	testkit.Must(b, err)
	defer db.Close()
	value := make([]byte, 100)
	for i := range uint64(200_000) {
		testkit.Must(b, db.Put(binary.BigEndian.AppendUint64(nil, i*0x9e3779b97f4a7c15), value))
	}
	s := newSampler(db, time.Second)
	b.ReportAllocs()
	for b.Loop() {
		if m := s.sample(0); isClosed(&m) {
			b.Fatal("closed")
		}
	}
}
