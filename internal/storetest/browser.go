package storetest

import (
	"os/exec"
	"testing"
)

// Browser returns the program of a Chromium. Without one, and with -short, it skips the test.
func Browser(tb testing.TB) string {
	tb.Helper()
	if testing.Short() {
		tb.Skip("starting a browser takes seconds")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless_shell"} {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	tb.Skip("there is no chromium to look with")
	return ""
}
