//go:build unix

package mutants

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A binary is the tests of one package.
type binary struct{ name, pkg, dir string }

// A test is one test function, and what it reached when it ran alone without a mutant.
type test struct {
	bin     *binary
	Name    string
	Passes  bool
	Takes   time.Duration
	Reaches []int
	kills   int
}

// A judge finds out which mutants are noticed by a test.
type judge struct {
	root, dir, kept string // of the repository; for files; for what tests reached, in later runs as well
	tags            string
	slow            time.Duration // tests that take longer run only for mutants that no other test reaches
	most            time.Duration // of the tests that run for one mutant; 0 for any
	spare           time.Duration // that a test has beyond five times what it takes
	tests           []*test       // cheapest first
	progress        func(format string, args ...any)
}

// build compiles the test binaries that link one of the packages and records what their tests reach.
func (j *judge) build(all []mutant, overlay string, patterns []string) error {
	type testPackage struct {
		ImportPath, Dir, BuildID string
		Deps                     []string
	}
	packages, err := list[testPackage](j.root, append([]string{
		"-test", "-deps", "-export", "-overlay=" + overlay, "-tags=" + j.tags, "-json=ImportPath,Dir,BuildID,Deps",
	}, patterns...)...)
	if err != nil {
		return err
	}
	mutated, builds := map[string]bool{}, map[string]string{}
	for _, m := range all {
		mutated[m.pkg] = m.pkg != ""
	}
	for _, p := range packages {
		builds[p.ImportPath] = p.BuildID
	}
	for i, p := range packages {
		pkg, is := strings.CutSuffix(p.ImportPath, ".test")
		if !is || !slices.ContainsFunc(p.Deps, func(dep string) bool {
			path, _, _ := strings.Cut(dep, " ")
			return mutated[path]
		}) {
			continue
		}
		h := sha256.New()
		fmt.Fprintln(h, p.BuildID, j.slow)
		for _, dep := range p.Deps {
			fmt.Fprintln(h, dep, builds[dep])
		}
		b := &binary{filepath.Join(j.kept, fmt.Sprintf("%x.test", h.Sum(nil))), pkg, p.Dir}
		if _, err := os.Stat(b.name); err != nil {
			j.progress("%d/%d: link the tests of %s", i, len(packages), pkg)
			build := exec.Command("go", "test", "-c", "-vet=off", "-tags="+j.tags, "-overlay="+overlay, "-o", b.name)
			build.Args = append(build.Args, pkg)
			build.Dir = j.root
			if out, err := build.CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
		}
		tests, err := j.record(b, len(all))
		if err != nil {
			return err
		}
		j.tests = append(j.tests, tests...)
	}
	slices.SortFunc(j.tests, func(a, b *test) int { return cmp.Compare(a.Takes, b.Takes) })
	return nil
}

// record runs each test of a binary alone. The same binary is not run again.
func (j *judge) record(b *binary, mutants int) (tests []*test, err error) {
	keep := strings.TrimSuffix(b.name, ".test") + ".json"
	if known, err := os.ReadFile(keep); err == nil {
		if err := json.Unmarshal(known, &tests); err != nil {
			return nil, err
		}
	} else {
		names := exec.Command(b.name, "-test.list", ".")
		names.Dir = b.dir
		out, err := names.Output()
		if err != nil {
			return nil, err
		}
		for _, name := range regexp.MustCompile(`(?m)^(Test|Example|Fuzz).*$`).FindAllString(string(out), -1) {
			t := &test{bin: b, Name: name}
			j.progress("record %s %s", b.pkg, name)
			if err := j.reach(t, mutants, j.slow); err != nil {
				return nil, err
			}
			tests = append(tests, t)
		}
		known, err := json.Marshal(tests)
		if err := errors.Join(err, os.WriteFile(keep, known, 0o600)); err != nil {
			return nil, err
		}
	}
	for _, t := range tests {
		t.bin = b
	}
	return tests, nil
}

// reach runs a test without a mutant. If the time is too short, what it reached counts, and Takes is more than that.
func (j *judge) reach(t *test, mutants int, within time.Duration) error {
	seen := filepath.Join(j.dir, "seen")
	if err := os.WriteFile(seen, make([]byte, mutants), 0o600); err != nil {
		return err
	}
	began := time.Now()
	failed, _ := j.run(t.bin, []string{t.Name}, within, "MUTANTS_SEEN="+seen)
	t.Takes = time.Since(began)
	t.Passes = !failed || t.Takes > within
	b, err := os.ReadFile(seen)
	t.Reaches = nil
	for i, s := range b {
		if s != 0 {
			t.Reaches = append(t.Reaches, i)
		}
	}
	return err
}

// run runs tests, and reports whether one failed or did not end, and which one.
func (j *judge) run(b *binary, names []string, within time.Duration, env string) (failed bool, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	tmp, err := os.MkdirTemp(j.dir, "run")
	if err != nil {
		return true, err.Error()
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	// A mutant may take all memory, or fill the disk.
	cmd := exec.CommandContext(ctx, "sh", "-c", `ulimit -d 4000000; ulimit -f 8000000; exec "$@"`, "sh", b.name,
		"-test.run=^("+strings.Join(names, "|")+")$", "-test.short", "-test.v", "-test.failfast", "-test.timeout=0")
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), "TMPDIR="+tmp, env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out tail
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err == nil {
		return false, ""
	}
	for _, m := range regexp.MustCompile(`(?m)^(?:=== RUN   |--- FAIL: )(\w+)`).FindAllSubmatch(out.Bytes(), -1) {
		name = string(m[1])
	}
	return true, name
}

// A tail keeps the end of what is written.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	if t.Len() > 1<<20 {
		t.Next(t.Len() - 1<<16)
	}
	return t.Buffer.Write(p)
}

// A verdict says what came of a mutant.
type verdict struct {
	killer  string // the test that noticed it, or ""
	reached int    // by how many tests
}

// try runs the tests that reach a mutant until one fails, in growing portions, those first that are cheap or have often
// noticed another one.
func (j *judge) try(id, mutants int) (v verdict, err error) {
	var all, slow []*test
	for _, t := range j.tests {
		if _, ok := slices.BinarySearch(t.Reaches, id); !ok || !t.Passes {
			continue
		}
		if v.reached++; t.Takes > j.slow {
			slow = append(slow, t)
		} else {
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		for _, t := range slow {
			if err := j.reach(t, mutants, time.Hour); err != nil {
				return v, err
			}
			t.Takes = max(t.Takes, j.slow+1)
			if t.Passes {
				all = append(all, t)
			}
		}
	}
	cost := func(t *test) float64 { return t.Takes.Seconds() / float64(1+t.kills) }
	slices.SortStableFunc(all, func(a, b *test) int { return cmp.Compare(cost(a), cost(b)) })
	sum := time.Duration(0)
	for i, t := range all {
		if sum += t.Takes; j.most > 0 && sum > j.most && i > 0 {
			all = all[:i]
			break
		}
	}
	for portion := 300 * time.Millisecond; len(all) > 0; portion *= 3 {
		n, sum := 0, time.Duration(0)
		for n < len(all) && (n == 0 || sum < portion) {
			sum += all[n].Takes
			n++
		}
		byBinary, order := map[*binary][]*test{}, []*binary{}
		for _, t := range all[:n] {
			if byBinary[t.bin] == nil {
				order = append(order, t.bin)
			}
			byBinary[t.bin] = append(byBinary[t.bin], t)
		}
		all = all[n:]
		for _, b := range order {
			names, within := []string{}, j.spare
			for _, t := range byBinary[b] {
				names = append(names, t.Name)
				within += 5 * t.Takes
			}
			failed, name := j.run(b, names, within, fmt.Sprintf("MUTANT=%d", id))
			if !failed {
				continue
			}
			for _, t := range byBinary[b] {
				if t.Name == name {
					t.kills++
				}
			}
			v.killer = cmp.Or(name, "before any test")
			return v, nil
		}
	}
	return v, nil
}
