package bloomkv

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// TestDamageIsReportedOncePerOffsetUpToALimit reports more damage than is remembered, three times.
func TestDamageIsReportedOncePerOffsetUpToALimit(t *testing.T) {
	calls := map[int64]int{}
	r := reporter{log: slog.New(slog.DiscardHandler), to: Events{Damaged: func(err error) {
		if c, ok := errors.AsType[*CorruptionError](err); ok {
			calls[c.Offset]++
		}
	}}}
	const more = 10
	for range 3 {
		for offset := range int64(maxPlaces + more) {
			r.Damaged(corrupt.At("000007.sst", offset, errors.New("damaged")))
		}
	}
	for offset, n := range calls {
		if want := 1 + 2*min(1, int(offset)/maxPlaces); n != want {
			t.Errorf("offset %d was reported %d times, want %d", offset, n, want)
		}
	}
	if len(calls) != maxPlaces+more || len(r.places) != maxPlaces {
		t.Errorf("%d offsets were reported, %d are remembered", len(calls), len(r.places))
	}
}
