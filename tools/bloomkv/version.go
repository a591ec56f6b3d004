package main

import (
	"fmt"
	"runtime"

	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// version returns the text of --version: the version of the module, and the versions of the formats.
func version() string {
	return fmt.Sprintf("bloomkv %s, %s %s/%s\nformats: %s\n", inspect.Version(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH, inspect.Formats())
}
