package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestAnInterruptIsReportedWithItsPlaceOnly(t *testing.T) {
	other := errors.New("close: no space")
	for _, c := range []struct {
		err  error
		want string
	}{
		{context.Canceled, "interrupted"},
		{fmt.Errorf("bloomkv: flush: %w", context.Canceled), "interrupted: flush"},
		{
			errors.Join(fmt.Errorf("load: %w", context.Canceled), context.Canceled, other),
			"interrupted: load\nclose: no space",
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		s := Streams{}
		err := s.Run(ctx, &cobra.Command{RunE: func(*cobra.Command, []string) error {
			cancel()
			return c.err
		}}, nil)
		if !Interrupted(err) || !errors.Is(err, context.Canceled) || err.Error() != c.want {
			t.Errorf("%v: %q, want %q", c.err, err, c.want)
		}
		cancel()
	}
	s := Streams{}
	canceled := &cobra.Command{RunE: func(*cobra.Command, []string) error { return context.Canceled }}
	err := s.Run(t.Context(), canceled, nil)
	if Interrupted(err) || err.Error() != "context canceled" {
		t.Errorf("without an interrupt: %q", err)
	}
}

func TestAnErrorHasOneName(t *testing.T) {
	var out strings.Builder
	s := Streams{Err: &out}
	s.PrintError("tool", errors.New("bloomkv: open s: locked"))
	s.PrintError("tool", errors.New("in.export: bloomkv: import s: not an empty directory"))
	want := "tool: open s: locked\ntool: in.export: import s: not an empty directory\n"
	if got := out.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
