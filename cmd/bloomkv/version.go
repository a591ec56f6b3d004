package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/bloomkv/bloomkv/internal/inspect"
)

// version returns the text of --version: the version of the module or its revision, and the versions of the formats.
func version() string {
	v := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok {
		v = moduleVersion(info)
	}
	return fmt.Sprintf("bloomkv %s, %s %s/%s\nformats: %s\n", v, runtime.Version(), runtime.GOOS, runtime.GOARCH,
		inspect.Formats())
}

// moduleVersion returns the version of the main module, and its revision if the build has one.
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
