package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/bloomkv/bloomkv/internal/inspect"
)

// version returns the text of --version: the module's version or the revision it was built from, and the versions of the
// formats that it writes.
func version() string {
	v := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok {
		v = moduleVersion(info)
	}
	return fmt.Sprintf("bloomkv %s, %s %s/%s\nformats: %s\n", v, runtime.Version(), runtime.GOOS, runtime.GOARCH, inspect.Formats())
}

// moduleVersion is the version of the main module, and the revision where the build knows it.
func moduleVersion(info *debug.BuildInfo) string {
	v, revision, modified := info.Main.Version, "", ""
	if v == "" {
		v = "(devel)"
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = ", revision " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ", modified"
		}
	}
	return v + revision + modified
}
