package filterplan

import (
	"cmp"
	"fmt"

	"github.com/bloomkv/bloomkv/internal/manifest"
)

// A Kind is Options.FilterKind of the root package.
type Kind uint8

const (
	Auto   Kind = iota // Bloom filters, or Ribbon filters where memory is short
	Ribbon             // Ribbon filters in the last levels
	Bloom              // Bloom filters, which are cut into units where memory is short
)

// String returns the kind in a word, "auto", "ribbon" or "bloom".
func (k Kind) String() string {
	if names := [...]string{Auto: "auto", Ribbon: "ribbon", Bloom: "bloom"}; int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k)) // from a later version
}

// ParseKind returns the kind that String returns text for.
func ParseKind(text string) (k Kind, ok bool) {
	for k <= Bloom && k.String() != text {
		k++
	}
	return k, k <= Bloom
}

// Options are the options of a store that its filters depend on. The zero value means the defaults.
type Options struct {
	FPR    float64 // Options.FilterFPR of the root package
	Memory int64   // FilterMemory
	Kind   Kind    // FilterKind
	Ratio  int     // LevelRatio
}

const (
	// Level0Runs is the largest number of runs that level 0 of a store may have: then writers wait. Other levels have
	// one run.
	Level0Runs = 16

	// DefaultBudget is the default of Options.MemoryBudget of the root package, in bytes, and MinBudget the smallest.
	DefaultBudget = 64 << 20
	MinBudget     = 8 << 20

	minMemory = 64 << 10 // the smallest Memory
	maxMemory = 1 << 49  // the largest: half of the largest memory of a store
)

// WithDefaults returns the options with their defaults.
func (o Options) WithDefaults() Options {
	if o.Memory == 0 {
		o.FPR = cmp.Or(o.FPR, 0.01)
	}
	o.Ratio = cmp.Or(o.Ratio, 10)
	return o
}

// Check returns an error if an option is invalid for a store with the given memory. The options have their defaults.
func (o Options) Check(memory int64) error {
	switch most := memory / 2; {
	case o.Ratio < 2 || o.Ratio > 100:
		return fmt.Errorf("option LevelRatio: %d, want 2 to 100", o.Ratio)
	case o.Kind > Bloom:
		return fmt.Errorf("option FilterKind: %v, want %v, %v or %v", o.Kind, Auto, Ribbon, Bloom)
	case o.Memory != 0 && o.FPR != 0:
		return fmt.Errorf("option FilterMemory: %d, want 0 with FilterFPR, which is %v", o.Memory, o.FPR)
	case o.Memory != 0 && (o.Memory < minMemory || o.Memory > most):
		return fmt.Errorf("option FilterMemory: %d, want %d to %d, half of the available memory",
			o.Memory, minMemory, most)
	case o.Memory == 0 && !(o.FPR > 0 && o.FPR <= 1): // also NaN
		return fmt.Errorf("option FilterFPR: %v, want more than 0, at most 1", o.FPR)
	}
	return nil
}

// Checked returns the options with their defaults, or an error if one is invalid for every store.
func (o Options) Checked() (Options, error) {
	o = o.WithDefaults()
	return o, o.Check(2 * maxMemory)
}

// Recorded returns the options as the manifest records them, with the text of the rule of prefix filters.
func (o Options) Recorded(prefix string) manifest.Filters {
	//nolint:gosec // checked: not negative, and at most 100
	return manifest.Filters{
		FPR: o.FPR, Memory: uint64(o.Memory), Kind: uint8(o.Kind), Ratio: uint32(o.Ratio), Prefix: prefix,
	}
}

// Planner returns the planner of a store with these options.
func (o Options) Planner() Planner { return Planner{Ratio: o.Ratio, Kind: o.Kind, Memory: o.Memory} }
