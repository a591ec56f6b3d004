package sstable

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

func TestASequenceOfTheManifestCountsAndNotTheFiles(t *testing.T) {
	testkit.Long(t)
	const seq = 1000
	for name, kvs := range shapes() {
		unique := kvs[:0:0]
		for i, v := range kvs {
			if i == 0 || kvs[i-1].key != v.key {
				unique = append(unique, v)
			}
		}
		file, info := buildWith(t, WriterOptions{ID: 1, BlockSize: 1 << 10, Filter: filterParams(t, 0.01)}, unique,
			smallDels)
		want := make([]kv, len(unique))
		for i, v := range unique {
			want[i] = kv{v.key, ikey.MakeTrailer(seq, v.t.Kind()), v.value}
		}
		t.Run(name, func(t *testing.T) {
			r := newReader(file, info, 1<<20)
			r.seq, r.meta.Seq = seq, seq
			for i := 0; i < len(want); i += max(1, len(want)/effortFor(want)) {
				v := want[i]
				if got, ok, err := get(r, v.key, seq); !ok || err != nil || got != v {
					t.Fatalf("Get(%.40q, %d) = %v, %v, %v", v.key, seq, got, ok, err)
				}
				if got, ok, err := get(r, v.key, seq-1); ok || err != nil {
					t.Fatalf("Get(%.40q, %d) = %v, %v, %v", v.key, seq-1, got, ok, err)
				}
			}
			for _, o := range []IterOptions{{}, {Bypass: true}} {
				checkIter(t, r, o, want)
			}
			for _, f := range r.RangeDels().List() {
				if len(f.Seqs) != 1 || f.Seqs[0] != seq {
					t.Fatalf("range delete at %v, want %d", f.Seqs, seq)
				}
			}
			i := 0
			err := r.Verify(t.Context(), func(k ikey.Key, _ []byte) error {
				if string(k.User) != want[i].key || k.Trailer != want[i].t {
					return fmt.Errorf("version %d is %.40q@%d", i, k.User, k.Trailer)
				}
				i++
				return nil
			})
			if err != nil || i != len(want) {
				t.Fatalf("%d versions: %v", i, err)
			}
		})
	}
}

// A lookup whose reader may not see the table's sequence number yet counts as a true positive of the filter.
func TestAVersionTooNewIsPresent(t *testing.T) {
	file, info := build(t, WriterOptions{ID: 1}, []kv{set("a", 0, "v")})
	for _, seq := range []ikey.Seq{0, 7} {
		r := newReader(file, info, 1<<20)
		r.seq, r.meta.Seq = seq, seq
		for at := range ikey.Seq(9) {
			var st Stats
			g := r.domain.Enter()
			hit, ok, err := r.Get([]byte("a"), at, &st)
			g.Leave()
			if err != nil || st.Present != 1 || ok != (at >= seq) || !ok && hit.value != nil {
				t.Errorf("all at %d, Get at %d: %+v, %v, %v, %+v", seq, at, hit, ok, err, st)
			}
		}
	}
}

func TestVerifyRefusesTwoVersionsAtOneSequence(t *testing.T) {
	file, info := build(t, WriterOptions{ID: 1}, []kv{set("a", 2, "v"), set("a", 1, "w")})
	r := newReader(file, info, 1<<20)
	must(t, r.Verify(t.Context(), nil))
	r.seq, r.meta.Seq = 7, 7
	if err := r.Verify(t.Context(), nil); !errors.Is(err, corrupt.Err) || !errors.Is(err, ErrOrder) {
		t.Fatalf("got %v, want %v", err, ErrOrder)
	}
}
