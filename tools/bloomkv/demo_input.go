package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// goRoot returns the directory of the Go installation: that of "go env GOROOT", or the one this program was built
// with.
func goRoot(ctx context.Context) (string, error) {
	var tried []string
	if out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output(); err == nil {
		tried = append(tried, strings.TrimSpace(string(out)))
	}
	tried = append(tried, runtime.GOROOT()) //nolint:staticcheck // deprecated, but the go command may be missing
	for _, root := range tried {
		if info, err := os.Stat(filepath.Join(root, "src")); root != "" && err == nil && info.IsDir() {
			return root, nil
		}
	}
	return "", errors.New("no Go source tree on this machine: name a file of key TAB value lines with --data")
}

// firstLine is the maximum length of the stored first line of a file.
const firstLine = 120

// readTree returns a pair for each regular file of a source tree. The key is the path below root, with slashes. The
// value is "size hash first-line", where hash is the first half of the SHA-256 in hexadecimal digits. The directories
// bin and pkg are left out. Links are not followed, except for root and the directories in it, which are links in
// some installations. readTree calls progress with the number of files read.
func readTree(ctx context.Context, root string, progress func(files int)) ([]workload.Pair, error) {
	tops, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var pairs []workload.Pair
	for _, top := range tops {
		if top.Name() == "bin" || top.Name() == "pkg" {
			continue
		}
		base, err := filepath.EvalSymlinks(filepath.Join(root, top.Name()))
		if err != nil {
			continue // a dangling link
		}
		err = filepath.WalkDir(base, func(name string, d fs.DirEntry, err error) error {
			if err != nil || ctx.Err() != nil || !d.Type().IsRegular() {
				return errors.Join(err, ctx.Err())
			}
			rel, err := filepath.Rel(base, name)
			if err != nil {
				return err
			}
			value, err := describeFile(name)
			if err != nil {
				return err
			}
			key := filepath.ToSlash(filepath.Join(top.Name(), rel))
			pairs = append(pairs, workload.Pair{Key: []byte(key), Value: value})
			progress(len(pairs))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return pairs, nil
}

// describeFile returns "size hash first-line" of a file.
func describeFile(name string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	line, _, _ := bytes.Cut(b, []byte{'\n'})
	return append(fmt.Appendf(nil, "%d %x ", len(b), sum[:len(sum)/2]), line[:min(len(line), firstLine)]...), nil
}

// readPairs reads the lines of a file in the format tsv. The last of several lines with the same key counts, as in
// load.
func (a *app) readPairs(ctx context.Context, name string) (pairs []workload.Pair, err error) {
	f, err := cli.Open(ctx, name)
	if err != nil {
		return nil, cli.PathError(name, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	l := loader{format: formats[0], note: func(text string) { a.note(cli.Progress{}, name, text) }}
	at := make(map[string]int)
	for kv, err := range l.pairs(cli.UntilDone(ctx, f)) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		p := workload.Pair{Key: bytes.Clone(kv.Key), Value: bytes.Clone(kv.Value)}
		if i, ok := at[string(kv.Key)]; ok {
			pairs[i] = p
			continue
		}
		at[string(kv.Key)] = len(pairs)
		pairs = append(pairs, p)
	}
	return pairs, nil
}
