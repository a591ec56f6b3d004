package tree

import (
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Config holds the parameters of New.
type Config struct {
	Shared
	FS       vfs.FS
	Dir      string
	Lock     vfs.Lock // of the directory; nil if nobody else may take it
	Filters  manifest.Filters
	Observer Observer
	ReadOnly error // if not nil, the tree never takes writes, for this reason
}

// An Observer is called when a tree stops taking writes.
type Observer interface {
	ReadOnly(cause error)
}
