package bloomkv_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/backup"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestTheRootOfAVolumeTakesAStore makes stores in directories that hold nothing but a lost+found, in each way.
func TestTheRootOfAVolumeTakesAStore(t *testing.T) {
	ctx, base := t.Context(), t.TempDir()
	source := filepath.Join(base, "source")
	db, err := bloomkv.Open(source, usual(bloomkv.DurabilityNoSync, func(vfstest.Op) {}))
	must(t, err)
	keys, err := usualWork(db, "key")
	must(t, err)
	target, err := backup.OpenDir(nil, filepath.Join(base, "backup"))
	must(t, err)
	report, err := backup.Make(ctx, db, target)
	must(t, err)
	var stream bytes.Buffer
	export, err := db.Export(ctx, bloomkv.ExportOptions{})
	must(t, err)
	_, err = export.WriteTo(&stream)
	must(t, errors.Join(err, export.Close()))
	for name, make := range map[string]func(dir string) error{
		"checkpoint": func(dir string) error { return db.Checkpoint(ctx, dir) },
		"restore": func(dir string) error {
			return backup.Restore(ctx, target, report.Generation, dir, bloomkv.NewStoreOptions{})
		},
		"import": func(dir string) error { return bloomkv.Import(ctx, &stream, dir, bloomkv.NewStoreOptions{}) },
	} {
		dir := filepath.Join(base, name)
		must(t, os.MkdirAll(filepath.Join(dir, "lost+found"), 0o700))
		if err := errors.Join(make(dir), have(t, dir, keys)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, errors.Join(target.Close(), db.Close()))
	salvaged := filepath.Join(base, "salvaged")
	must(t, os.MkdirAll(filepath.Join(salvaged, "lost+found"), 0o700))
	if _, err := salvage.Run(ctx, source, salvaged, salvage.Options{}); err != nil {
		t.Errorf("salvage: %v", err)
	}
	must(t, have(t, salvaged, keys))
}
