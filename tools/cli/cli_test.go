package cli

import (
	"context"
	"errors"
	"fmt"
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
