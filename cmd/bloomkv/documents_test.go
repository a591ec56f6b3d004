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
