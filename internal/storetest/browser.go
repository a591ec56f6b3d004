package storetest

import (
	"os/exec"
	"strings"
	"testing"
)

// Browser returns the program of a Chromium. Without one, without a font that is as wide as those that pages name, and
// with -short, it skips the test.
func Browser(tb testing.TB) string {
	tb.Helper()
	if testing.Short() {
		tb.Skip("starting a browser takes seconds")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless_shell"} {
		found, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if font := substitute(); font != "" {
			tb.Skipf("pages are drawn for Arial, and %s would be shown in its place: install fonts-liberation", font)
		}
		return found
	}
	tb.Skip("there is no chromium to look with")
	return ""
}

// substitute returns the font that the system shows in place of Arial if it has another width, or "".
func substitute() string {
	font, err := exec.Command("fc-match", "--format=%{family}", "Arial").Output()
	if err != nil { // a system without fontconfig
		return ""
	}
	for _, alike := range []string{"Arial", "Liberation Sans", "Arimo", "Helvetica", "Nimbus Sans"} {
		if strings.Contains(string(font), alike) {
			return ""
		}
	}
	return string(font)
}
