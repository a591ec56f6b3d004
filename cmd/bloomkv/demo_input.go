package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/internal/cli"
	"github.com/bloomkv/bloomkv/internal/workload"
)

// goRoot is the directory of the Go installation: as "go env GOROOT" says, or else as this program was built with. Without
// one the error says what to do.
func goRoot(ctx context.Context) (string, error) {
	var tried []string
	if out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output(); err == nil {
		tried = append(tried, strings.TrimSpace(string(out)))
	}
	tried = append(tried, runtime.GOROOT()) //nolint:staticcheck // deprecated in favour of the command, which may be missing
	for _, root := range tried {
		if info, err := os.Stat(filepath.Join(root, "src")); root != "" && err == nil && info.IsDir() {
			return root, nil
		}
	}
	return "", errors.New("no Go source tree on this machine; give a file of key TAB value lines with --data")
}

// firstLine bounds the part of a file that is kept as its first line.
const firstLine = 120

// readTree makes a pair of each regular file of a source tree: its path below root, with slashes, and "size hash first-line",
// where hash is the first half of its SHA-256 in hexadecimal digits. Programs and what was built from the sources (bin and
// pkg) are left out. Links are not followed, other than root and the directories in it, which some installations link.
// Progress is called with the number of files read.
func readTree(ctx context.Context, root string, progress func(files int)) ([]workload.Pair, error) {
	tops, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var pairs []workload.Pair
	buf := make([]byte, 64<<10)
	for _, top := range tops {
		if top.Name() == "bin" || top.Name() == "pkg" {
			continue
		}
		base, err := filepath.EvalSymlinks(filepath.Join(root, top.Name()))
		if err != nil {
			continue // a link that leads nowhere
		}
		err = filepath.WalkDir(base, func(name string, d fs.DirEntry, err error) error {
			if err != nil || ctx.Err() != nil || !d.Type().IsRegular() {
				return errors.Join(err, ctx.Err())
			}
			rel, err := filepath.Rel(base, name)
			if err != nil {
				return err
			}
			value, err := describeFile(name, buf)
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

// describeFile is "size hash first-line" of a file. buf is scratch.
func describeFile(name string, buf []byte) (value []byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	hash := sha256.New()
	var size int64
	var line []byte
	for {
		n, err := f.Read(buf)
		if size == 0 {
			line, _, _ = bytes.Cut(buf[:n], []byte{'\n'})
			line = slices.Clone(line[:min(len(line), firstLine)])
		}
		size += int64(n)
		hash.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	sum := hash.Sum(nil)
	return append(fmt.Appendf(nil, "%d %x ", size, sum[:len(sum)/2]), line...), nil
}

// readPairs reads the lines of a file in the format of load, tsv. Of lines with equal keys the last one counts, as there.
func (a *app) readPairs(ctx context.Context, name string) (pairs []workload.Pair, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	l := loader{format: formats[0], note: func(text string) { a.note(cli.Progress{}, name, text) }}
	lines, err := l.open(cli.UntilDone(ctx, f))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	at := make(map[string]int)
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return pairs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		key, value, err := l.parse(lines.number, line)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, lines.number, err)
		}
		p := workload.Pair{Key: bytes.Clone(key), Value: bytes.Clone(value)}
		if i, ok := at[string(key)]; ok {
			pairs[i] = p
			continue
		}
		at[string(key)] = len(pairs)
		pairs = append(pairs, p)
	}
}
