//go:build unix

// Package mutants changes the source of packages in one place at a time and looks whether a test of any package
// notices: go test ./tests/mutants -pkg ./internal/tree, or make mutants PKG=./internal/tree.
package mutants

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

var (
	pkgs  = flag.String("pkg", "", "the packages to change, as go list names them in the root of the repository")
	only  = flag.String("only", "", "beginnings of files, as in internal/tree/s: a group each instead of a package")
	count = flag.Int("n", 200, "how many mutants of each group")
	seed  = flag.Uint64("seed", 1, "draws the mutants")
	by    = flag.String("by", "work", "the packages whose tests judge")
	tags  = flag.String("tags", "", "build tags")
	most  = flag.Duration("most", 0, "how much time the tests of one mutant take at most, 0 for all tests")
	slow  = flag.Duration("slow", 5*time.Second, "tests that take longer run only for mutants that no other reaches")
)

// newJudge returns a judge that keeps its files in memory, if the system has a place for them.
func newJudge(t *testing.T) *judge {
	t.Helper()
	base := "/dev/shm"
	if _, err := os.Stat(base); err != nil {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "mutants") //nolint:usetesting // not on the disk
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	root, err := filepath.Abs("../..")
	must(t, err)
	quiet := func(string, ...any) {}
	return &judge{
		root: root, dir: dir, kept: dir,
		tags: *tags, slow: *slow, spare: time.Second, progress: quiet,
	}
}

var must = testkit.Must

func TestMutantsAreNoticed(t *testing.T) {
	if *pkgs == "" {
		t.Skip("needs -pkg")
	}
	j := newJudge(t)
	j.spare, j.most = 5*time.Second, *most
	j.kept = filepath.Join(j.root, "bin", "mutants")
	must(t, os.MkdirAll(j.kept, 0o700))
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		j.progress = func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, "\r\x1b[K%.110s", fmt.Sprintf(format, args...))
		}
	}
	listed, err := os.ReadFile("equivalent.txt")
	must(t, err)
	before := gitStatus(t, j.root)
	_, err = j.judge(os.Stdout, strings.Fields(*pkgs), strings.Fields(*by), string(listed))
	must(t, err)
	if after := gitStatus(t, j.root); after != before {
		t.Errorf("mutants have left files, or the source has changed meanwhile:\n%s", after)
	}
}

// gitStatus returns what differs from the last commit. Tests run in the directory of their package, and a mutant may
// leave files there.
func gitStatus(t *testing.T, root string) string {
	t.Helper()
	out, err := exec.Command("git", "-C", root, "status", "--porcelain", "--untracked-files=all").Output()
	must(t, err)
	return string(out)
}

// TestMutantsOfASampleAreJudgedRight has the survivors of a small package. One is listed as equivalent.
func TestMutantsOfASampleAreJudgedRight(t *testing.T) {
	const file = "tests/mutants/testdata/sample/sample.go"
	listed := file + "\tfor (r+1)*(r+1) <= n && r < 1<<20 {\tr < 1<<20 → r <= 1<<20\n" + file + "\tnone\t*\n"
	var report strings.Builder
	alive, err := newJudge(t).judge(&report, []string{"./tests/mutants/testdata/sample"},
		[]string{"./tests/mutants/testdata/sample", "./tests/mutants/testdata/sample/use"}, listed)
	must(t, err)
	var got []string
	for _, m := range alive {
		got = append(got, m.from+" → "+m.to)
	}
	want := []string{
		"n < 0 → n < 1", "n < 0 → n <= 0", "r+1 → r+0", "r+1 → r+0", "(r+1)*(r+1) <= n → (r+1)*(r+1) < n",
		"n - 2 → n - 3", "n - 2 → n - 1", "n - 2 → n + 2", // no test calls it
	}
	if !slices.Equal(got, want) {
		t.Errorf("alive are %q, want %q", got, want)
	}
	for _, line := range []string{
		"31 of 31 mutants: 23 killed (74.2 %), 8 alive, of which 3 are reached by no test; 1 more are equivalent",
		"equivalent.txt names no mutant: " + file + "\tnone\t*\n",
	} {
		if !strings.Contains(report.String(), line) {
			t.Errorf("%q is not in\n%s", line, &report)
		}
	}
}

// judge draws mutants of the packages and tries them. It reports and returns those that no test notices.
func (j *judge) judge(w io.Writer, patterns, tests []string, listed string) (alive []mutant, err error) {
	all, overlay, err := rewrite(j.root, j.dir, j.tags, patterns)
	if err != nil {
		return nil, err
	}
	if err := j.build(all, overlay, tests); err != nil {
		return nil, err
	}
	equivalent, stale := parseListed(listed, all)
	for _, s := range stale {
		fmt.Fprintf(w, "equivalent.txt names no mutant: %s\n", s)
	}
	groups, drawn, same := strings.Fields(*only), map[string][]int{}, map[string]int{}
	for id, m := range all {
		group := m.pkg
		if *only != "" {
			i := slices.IndexFunc(groups, func(g string) bool { return m.pkg != "" && strings.HasPrefix(m.file, g) })
			group = append([]string{""}, groups...)[i+1]
		} else if drawn[group] == nil && same[group] == 0 && group != "" {
			groups = append(groups, group)
		}
		if equivalent(m) {
			same[group]++
		} else {
			drawn[group] = append(drawn[group], id)
		}
	}
	for _, group := range groups {
		ids, began, before, unreached := drawn[group], time.Now(), len(alive), 0
		rng := rand.New(rand.NewPCG(*seed, 0))
		rng.Shuffle(len(ids), func(i, k int) { ids[i], ids[k] = ids[k], ids[i] })
		ids = ids[:min(len(ids), *count)]
		slices.Sort(ids)
		for i, id := range ids {
			m := all[id]
			j.progress("%s: %d/%d, %d alive: %s", group, i, len(ids), len(alive)-before, m)
			v, err := j.try(id, len(all))
			if err != nil {
				return nil, err
			}
			if v.killer == "" {
				alive = append(alive, m)
				if v.reached == 0 {
					unreached++
				}
				j.progress("")
				fmt.Fprintf(w, "%s\t(reached by %d tests)\n\t%s\n", m, v.reached, m.text)
			}
		}
		j.progress("")
		survived := len(alive) - before
		fmt.Fprintf(w, "%s: %d of %d mutants: %d killed (%.1f %%), %d alive, of which %d are reached by no test; "+
			"%d more are equivalent; %.2f s for each\n", group, len(ids), len(drawn[group]), len(ids)-survived,
			100-100*float64(survived)/float64(len(ids)), survived, unreached, same[group],
			time.Since(began).Seconds()/float64(len(ids)))
	}
	return alive, nil
}

// parseListed reads the list of equivalent mutants. A line has a file, the text of the line in it, and the mutant as
// survivors are printed, with tabs between; * is any mutant of the line. Lines before that begin with # say why.
func parseListed(listed string, all []mutant) (equivalent func(mutant) bool, stale []string) {
	keys, files, used := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(listed) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			keys[line] = true
		}
	}
	equivalent = func(m mutant) bool {
		found := false
		for _, change := range []string{m.from + " → " + m.to, "*"} {
			key := m.file + "\t" + m.text + "\t" + change
			found = found || keys[key]
			used[key] = true
		}
		return found
	}
	for _, m := range all {
		files[m.file] = true
		equivalent(m)
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if file, _, _ := strings.Cut(key, "\t"); files[file] && !used[key] {
			stale = append(stale, key)
		}
	}
	return equivalent, stale
}

// TestTheSameSourceIsWrittenAgain lets later runs find the binaries of earlier ones.
func TestTheSameSourceIsWrittenAgain(t *testing.T) {
	first := switchSource("p")
	for range 10 {
		if switchSource("p") != first {
			t.Fatal("the source that is added to a package differs")
		}
	}
}
