package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/forecast"
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
		filepath.Join("tools", "internal", "filterexam", "flags.go"),
		filepath.Join("tools", "internal", "inspect", "tree.go"),
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

// TestDocumentsSayWhatABudgetHolds compares the numbers in README.md and in the comment of Options.MemoryBudget with
// those of the planner.
func TestDocumentsSayWhatABudgetHolds(t *testing.T) {
	readme := string(readFile(t, filepath.Join("..", "..", "README.md")))
	holds := func(kind filterplan.Kind, budget int64, u forecast.Use) float64 {
		t.Helper()
		keys, err := forecast.Holds(filterplan.Options{Kind: kind}, budget, u)
		must(t, err)
		return float64(keys) / 1e6
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) ([MG])iB[^|]*\| (\S+) million \| (\S+) million \| (\S+) million \| `+
		`(\S+) million \|$`).FindAllStringSubmatch(readme, -1)
	if len(rows) != 4 {
		t.Errorf("%d rows of budgets, want 4", len(rows))
	}
	for _, row := range rows {
		size, err := strconv.ParseInt(row[1], 10, 64)
		must(t, err)
		budget := size << 20
		if row[2] == "G" {
			budget <<= 10
		}
		for i, want := range []float64{
			holds(filterplan.Auto, budget, forecast.Writing), holds(filterplan.Bloom, budget, forecast.Writing),
			holds(filterplan.Auto, budget, forecast.Idle), holds(filterplan.Bloom, budget, forecast.Idle),
		} {
			got, err := strconv.ParseFloat(row[3+i], 64)
			if must(t, err); math.Abs(got-want) > 0.005*want {
				t.Errorf("%s: column %d: %v, want %.3g", row[0], 1+i, got, want)
			}
		}
	}
	for _, keys := range []uint64{20_000_000, 40_000_000, 100_000_000} {
		f, err := forecast.Of(filterplan.Options{}, keys, 0, filterplan.DefaultBudget)
		must(t, err)
		row := fmt.Sprintf("| %d million | %.2g | %.2g | %.2g | %.2g | %d MiB | %d MiB |\n", keys/1_000_000,
			f.Writing.FPR, f.Writing.Pages, f.Idle.FPR, f.Idle.Pages, f.Writing.Budget>>20, f.Idle.Budget>>20)
		if !strings.Contains(readme, row) {
			t.Errorf("README.md lacks %s", row)
		}
	}
	ribbon, err := forecast.Of(filterplan.Options{}, 100_000_000, 0, filterplan.DefaultBudget)
	must(t, err)
	bloom, err := forecast.Of(filterplan.Options{Kind: filterplan.Bloom}, 100_000_000, 0, 1<<30)
	must(t, err)
	want := fmt.Sprintf("Bloom filters, which take some %.0f bits for each key. Once these would need half of the "+
		"memory for filters, it builds Ribbon filters, which take %.1f bits", float64(8*bloom.Bytes)/1e8,
		float64(8*ribbon.Bytes)/1e8)
	if !strings.Contains(oneLine(readme), want) {
		t.Errorf("README.md does not say %q", want)
	}
	options := oneLine(strings.ReplaceAll(string(readFile(t, filepath.Join("..", "..", "options.go"))), "//", ""))
	want = fmt.Sprintf("64 MiB hold the filters of %.0f million keys while the store is written to, and of %.0f "+
		"million while it is idle, when memtables lend most of their memory; with FilterBloom of %.0f and %.0f "+
		"million.",
		math.Floor(holds(filterplan.Auto, filterplan.DefaultBudget, forecast.Writing)),
		math.Floor(holds(filterplan.Auto, filterplan.DefaultBudget, forecast.Idle)),
		math.Floor(holds(filterplan.Bloom, filterplan.DefaultBudget, forecast.Writing)),
		math.Floor(holds(filterplan.Bloom, filterplan.DefaultBudget, forecast.Idle)))
	if !strings.Contains(options, want) {
		t.Errorf("the comment of Options.MemoryBudget does not say %q", want)
	}
}

// TestADocumentComparesTwoTables compares the rows of rates in docs/where-filters-are-used.md with those of plan, and
// with the rule that the document states for ClickHouse.
func TestADocumentComparesTwoTables(t *testing.T) {
	text := readFile(t, filepath.Join("..", "..", "docs", "where-filters-are-used.md"))
	var facts planFacts
	must(t, json.Unmarshal([]byte(tool{}.must(t, "plan", "--table", "--json")), &facts))
	const least, most = 1e-5, 19 // the last rate that is shown, and ClickHouse's bits
	classic := func(bits, hashes int) float64 {
		return math.Pow(-math.Expm1(-float64(hashes)/float64(bits)), float64(hashes))
	}
	clickHouse := func(rate float64) (bits, hashes int) {
		for bits = 3; bits <= most && rate < 0.283; bits++ {
			for hashes = 1; hashes <= bits; hashes++ {
				if classic(bits, hashes) <= rate {
					return bits, hashes
				}
			}
		}
		if rate < 0.283 {
			return most, 13
		}
		return 2, 2
	}
	for _, row := range facts.Table {
		if row.FPR < least {
			continue
		}
		bits, hashes := clickHouse(row.FPR)
		probes := make([]string, len(row.Units))
		for i, u := range row.Units {
			probes[i] = strconv.Itoa(u.Probes)
		}
		ribbon := "–"
		if row.Ribbon > 0 {
			ribbon = fmt.Sprintf("%.2f", row.Ribbon)
		}
		want := fmt.Sprintf("| %g | %d | %d | %.3g | %.1f | %s | %.3g | %s |\n", row.FPR, bits, hashes,
			classic(bits, hashes), row.BitsPerKey, strings.Join(probes, "+"), row.Predicted, ribbon)
		if !strings.Contains(string(text), want) {
			t.Errorf("no row %s", want)
		}
	}
}
