package tree

import (
	"errors"
	"io/fs"

	"github.com/bloomkv/bloomkv/internal/step"
)

// removals are the files that nothing needs any more and that could not be removed: another program may have one open,
// for example a scanner of viruses. The next Open removes what is left of them.
type removals struct {
	mu   step.Mutex
	left []string // guarded by mu; paths
}

// Remove removes a file that nothing needs. If that fails, RemoveLeft tries again.
func (t *Tree) Remove(path string) error {
	err := t.FS.Remove(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.removals.mu.Lock()
		defer t.removals.mu.Unlock()
		t.left = append(t.left, path)
	}
	return err
}

// RemoveLeft tries once more to remove the files that Remove could not remove.
func (t *Tree) RemoveLeft() {
	t.removals.mu.Lock()
	paths := t.left
	t.left = nil
	t.removals.mu.Unlock()
	for _, path := range paths {
		_ = t.Remove(path) // which notes it again
	}
}
