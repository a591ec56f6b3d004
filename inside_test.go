package bloomkv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/commit"
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

// records is a slog.Handler that keeps levels and messages.
type records struct {
	slog.Handler

	got []string
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }

func (r *records) WithAttrs([]slog.Attr) slog.Handler { return r }

func (r *records) Handle(_ context.Context, record slog.Record) error {
	r.got = append(r.got, fmt.Sprint(record.Level, " ", record.Message))
	return nil
}

func TestEventsAreLoggedAtTheirLevels(t *testing.T) {
	var logged records
	r := reporter{log: slog.New(&logged)}
	r.Stalled(commit.Stall{Duration: shortStall - 1})
	r.Stalled(commit.Stall{Duration: shortStall})
	kept := budget.Promises{Whole: 1}
	r.Promise(kept)
	kept.Full.Passed = 2
	r.Promise(kept)
	r.to.WorkFailed = func(f FailureInfo) {
		if f.Work != "filters" || f.Attempt != 1 {
			t.Errorf("%s failed in attempt %d", f.Work, f.Attempt)
		}
	}
	r.WorkFailed("filters", 1, errors.New("disk"))
	unknown := errors.New("unknown kind of filter")
	r.Damaged(unknown)
	r.Damaged(unknown) // without a place it is told again
	want := []string{
		"DEBUG writes stalled", "INFO writes stalled", "INFO memory suffices for FilterFPR again",
		"WARN memory is too short for FilterFPR", "WARN background work failed", "ERROR damage", "ERROR damage",
	}
	if !slices.Equal(logged.got, want) {
		t.Errorf("logged %q, want %q", logged.got, want)
	}
}
