package foreign_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/dgraph-io/ristretto/v2/z"

	"github.com/bloomkv/bloomkv/tools/internal/foreign"
)

// badgerTable returns a table with the given keys.
func badgerTable(all [][]byte, o table.Options) []byte {
	o.TableSize, o.AllocPool = 64<<20, z.NewAllocatorPool(1)
	defer o.AllocPool.Release()
	b := table.NewTableBuilder(o)
	defer b.Close()
	for _, key := range all {
		b.Add(y.KeyWithTs(key, 7), y.ValueStruct{Value: value(key)}, 0)
	}
	return b.Finish()
}

func TestBadgerAgrees(t *testing.T) {
	for _, c := range []options.CompressionType{options.None, options.Snappy, options.ZSTD} {
		for _, rate := range []float64{0.01, 0.001} {
			t.Run(fmt.Sprintf("compression %d, rate %g", c, rate), func(t *testing.T) {
				all := keys(*presents)
				o := table.Options{
					BlockSize: 4 << 10, BloomFalsePositive: rate, Compression: c, ZSTDCompressionLevel: 1,
				}
				b := badgerTable(all, o)
				f := open(t, b, "000001.sst", all)
				if f.Store != foreign.Badger || f.Entries != uint64(len(all)) {
					t.Errorf("store %s, %d entries, want %s and %d", f.Store, f.Entries, foreign.Badger, len(all))
				}
				own, err := table.OpenInMemoryTable(b, 1, &o)
				must(t, err)
				r := compare(t, f, all, *absents, func(key []byte) bool { return !own.DoesNotHave(y.Hash(key)) })
				results[fmt.Sprintf("Badger, rate %g", rate)] = r
			})
		}
		o := table.Options{BlockSize: 512, BloomFalsePositive: 0.01, Compression: c, ZSTDCompressionLevel: 1}
		sample(t, fmt.Sprintf("badger%d.sst", c), badgerTable(keys(sampleKeys), o))
	}
}

func TestAnEncryptedTableOfBadgerIsNamed(t *testing.T) {
	o := table.Options{
		BlockSize: 512, BloomFalsePositive: 0.01,
		DataKey: &pb.DataKey{KeyId: 1, Data: []byte("0123456789abcdef"), Iv: make([]byte, 16)},
	}
	b := badgerTable(keys(sampleKeys), o)
	if _, err := foreign.Open(bytes.NewReader(b), int64(len(b)), "000001.sst"); !errors.Is(err, foreign.ErrUnknown) {
		t.Errorf("error %v, want %v", err, foreign.ErrUnknown)
	} else {
		t.Log(err)
	}
	sample(t, "badger-encrypted.sst", b)
}
