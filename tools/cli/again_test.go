package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain runs a program instead of the tests if Again has started the test binary.
func TestMain(m *testing.M) {
	if os.Getenv(AgainVariable) == "" {
		os.Exit(m.Run())
	}
	switch ctx := Context(); os.Args[1] {
	case "echo":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "fail":
		fmt.Fprintln(os.Stderr, "broken")
		os.Exit(ExitTrouble)
	case "wait": // a file tells that it does
		if err := os.WriteFile(os.Args[2], nil, 0o600); err != nil {
			os.Exit(ExitTrouble)
		}
		<-ctx.Done()
		fmt.Fprintln(os.Stderr, "cleaned")
		os.Exit(ExitInterrupted)
	}
}

func TestAProgramIsStartedAgainAndEndsCleanly(t *testing.T) {
	var got []int
	if err := Again(t.Context(), []string{"echo"}, []int{1, 2}, &got); err != nil || fmt.Sprint(got) != "[1 2]" {
		t.Errorf("echo: %v, %v, want [1 2]", got, err)
	}
	if err := Again(t.Context(), []string{"fail"}, nil, &got); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("fail: %v, want what the process printed", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := filepath.Join(t.TempDir(), "waits")
	go func() {
		defer cancel()
		for _, err := os.Stat(waits); err != nil && t.Context().Err() == nil; _, err = os.Stat(waits) {
			time.Sleep(time.Millisecond)
		}
	}()
	if err := Again(ctx, []string{"wait", waits}, nil, &got); !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "cleaned") {
		t.Errorf("wait: %v, want the end of the context and what the process printed", err)
	}
}
