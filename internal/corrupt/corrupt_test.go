package corrupt

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
)

// other has the fields of Error, but is not of the root package.
type other Error

func (*other) Error() string { return "other" }

var errReason = errors.New("0 probes, want 1..30")

func TestDamageHasAnAddressAndAReason(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"a reason", At("000007.sst", 8192, errReason), "000007.sst: offset 8192: 0 probes, want 1..30"},
		{
			"a path", At(filepath.Join("a", "b", "000007.sst"), 0, errReason),
			"000007.sst: offset 0: 0 probes, want 1..30",
		},
		{
			"a formatted reason", Newf("x", 1<<40, "filter %d: %w", 3, errReason),
			"x: offset 1099511627776: filter 3: 0 probes, want 1..30",
		},
		{"wrapped again", fmt.Errorf("open: %w", At("x", 5, errReason)), "open: x: offset 5: 0 probes, want 1..30"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.err.Error(); got != test.want {
				t.Errorf("error is %q, want %q", got, test.want)
			}
			var e *Error
			if !errors.Is(test.err, Err) || !errors.Is(test.err, errReason) || !errors.As(test.err, &e) {
				t.Errorf("%v is not found to be damage for that reason", test.err)
			}
		})
	}
	if errors.Is(errReason, Err) {
		t.Error("a reason alone is damage")
	}
	later := At(filepath.Join("a", "x"), 5, fmt.Errorf("%w 9, want 1", ErrUnsupportedVersion))
	if errors.Is(later, Err) || later.Error() != "x: offset 5: unsupported format version 9, want 1" {
		t.Errorf("a later version is %q, and damage %v", later, errors.Is(later, Err))
	}
	if err := At("x", 5, nil); err != nil {
		t.Errorf("without a reason: %v", err)
	}
	if found, ok := errors.AsType[*other](At("x", 5, errReason)); ok {
		t.Errorf("an unrelated type is found as %v", found)
	}
}
