package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
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
		err := s.Run(ctx, &cobra.Command{Use: "tool", RunE: func(*cobra.Command, []string) error {
			cancel()
			return c.err
		}}, nil)
		if !Interrupted(err) || !errors.Is(err, context.Canceled) || err.Error() != c.want {
			t.Errorf("%v: %q, want %q", c.err, err, c.want)
		}
		cancel()
	}
	s := Streams{}
	canceled := &cobra.Command{Use: "tool", RunE: func(*cobra.Command, []string) error { return context.Canceled }}
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

// unread has no reader.
type unread struct{}

func (unread) Write([]byte) (int, error) { return 0, fmt.Errorf("write: %w", syscall.EPIPE) }

func TestAClosedPipeEndsACommandSilently(t *testing.T) {
	var errs strings.Builder
	s := Streams{Out: unread{}, Err: &errs}
	prints := &cobra.Command{Use: "tool", RunE: func(c *cobra.Command, _ []string) error {
		fmt.Fprintln(s.Out, "a line") // the error is not looked at
		<-c.Context().Done()
		return c.Context().Err()
	}}
	if code := s.Main(t.Context(), "tool", prints, nil); code != exitClosedPipe || errs.Len() > 0 {
		t.Errorf("exit code %d, %q; want %d and nothing printed", code, errs.String(), exitClosedPipe)
	}
	s.Out = io.Discard
	sends := &cobra.Command{Use: "tool", RunE: func(*cobra.Command, []string) error { return syscall.EPIPE }}
	if code := s.Main(t.Context(), "tool", sends, nil); code != ExitTrouble || errs.Len() == 0 {
		t.Errorf("another pipe: exit code %d, %q; want %d and its error", code, errs.String(), ExitTrouble)
	}
}
