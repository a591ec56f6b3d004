//go:build unix

package cli

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestTheEndOfTheTerminalIsAnInterrupt(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("the tests run by nohup")
	}
	waits := filepath.Join(t.TempDir(), "waits")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "wait", waits)
	cmd.Env = append(os.Environ(), AgainVariable+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, err := os.Stat(waits); err != nil && t.Context().Err() == nil; _, err = os.Stat(waits) {
		time.Sleep(time.Millisecond)
	}
	err := errors.Join(cmd.Process.Signal(syscall.SIGHUP), cmd.Wait())
	if code := cmd.ProcessState.ExitCode(); code != ExitInterrupted {
		t.Errorf("exit code %d, %v; want %d", code, err, ExitInterrupted)
	}
}
