package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	console  = regexp.MustCompile("(?s)```console\n(.*?)```")
	flagName = regexp.MustCompile(`FlagName += "([a-z-]+)"`)
	seqInput = regexp.MustCompile(`^seq -f '([^']+)' (\d+) \| sed 's/\$/\\t(\w+)/' \| (.*)$`)
)

// TestADocumentShowsWhatTheToolPrints runs each command of docs/filter-block.md and compares its output with the
// document, where "…" stands for omitted lines.
func TestADocumentShowsWhatTheToolPrints(t *testing.T) {
	text := readFile(t, filepath.Join("..", "..", "docs", "filter-block.md"))
	t.Chdir(t.TempDir())
	commands := 0
	for _, block := range console.FindAllStringSubmatch(string(text), -1) {
		for part := range strings.SplitSeq(block[1], "$ ") {
			command, shown, _ := strings.Cut(part, "\n")
			if command == "" {
				continue
			}
			commands++
			var run tool
			if m := seqInput.FindStringSubmatch(command); m != nil {
				n, err := strconv.Atoi(m[2])
				must(t, err)
				form := strings.Replace(m[1], "g", "d", 1) // of seq, whose numbers are not whole
				for i := range n {
					run.in += fmt.Sprintf(form+"\t%s\n", i+1, m[3])
				}
				command = m[4]
			}
			var args []string
			for _, arg := range strings.Fields(command)[1:] {
				found, err := filepath.Glob(arg)
				if err != nil || !strings.Contains(arg, "*") {
					found = []string{arg}
				}
				args = append(args, found...)
			}
			if printed := run.must(t, args...); !showsPart(printed, shown) {
				t.Errorf("%s prints\n%s\nnot\n%s", command, printed, shown)
			}
		}
	}
	if commands < 9 {
		t.Errorf("%d commands", commands)
	}
}

// TestEveryFlagIsDocumented compares the names of flags in the sources with the tables of docs/filter-block.md.
func TestEveryFlagIsDocumented(t *testing.T) {
	root := filepath.Join("..", "..")
	text := string(readFile(t, filepath.Join(root, "docs", "filter-block.md")))
	rows := strings.Count(text, "\n| `")
	for _, name := range []string{
		filepath.Join("bloomblock", "exam_flags.go"), filepath.Join("internal", "inspect", "tree.go"),
	} {
		found := flagName.FindAllStringSubmatch(string(readFile(t, filepath.Join(root, name))), -1)
		for _, m := range found {
			if row := "\n| `" + m[1] + "` |"; strings.Count(text, row) != 1 {
				t.Errorf("%d rows of %s, want one", strings.Count(text, row), m[1])
			}
		}
		rows -= len(found)
	}
	if rows != 0 {
		t.Errorf("%d more rows than flags", rows)
	}
}

// showsPart reports whether shown is what was printed, where "…" stands for omitted lines.
func showsPart(printed, shown string) bool {
	parts := strings.Split(shown, "…\n")
	if !strings.HasPrefix(printed, parts[0]) {
		return false
	}
	rest := printed[len(parts[0]):]
	for _, part := range parts[1:] {
		at := strings.Index("\n"+rest, "\n"+part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return rest == "" || strings.HasSuffix(shown, "…\n")
}
