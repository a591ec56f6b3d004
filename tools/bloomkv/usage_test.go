package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
)

func TestErrorsOfUsageSayWhatIsMissingAndWhatMayBeMeant(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"get", "want DIR KEY; DIR and KEY are missing; see bloomkv get --help"},
		{"get s", "want DIR KEY; KEY is missing; see bloomkv get --help"},
		{"get s a b", `want DIR KEY; "b" is one argument too many; see bloomkv get --help`},
		{"put s", "want DIR KEY [VALUE]; KEY is missing; see bloomkv put --help"},
		{"del", "want DIR [KEY...]; DIR is missing; see bloomkv del --help"},
		{"inspect", "want FILE|DIR; FILE|DIR is missing; see bloomkv inspect --help"},
		{"plan x", `plan takes no arguments, got "x"; see bloomkv plan --help`},
		{"lod s", `unknown command "lod" (did you mean load?); see bloomkv --help`},
		{"xyzzy", `unknown command "xyzzy"; see bloomkv --help`},
		{"ab", `unknown command "ab"; see bloomkv --help`}, // two of its two letters are wrong
		{"help nosuch", `unknown command "nosuch"; see bloomkv --help`},
		{"help gt", `unknown command "gt" (did you mean get?); see bloomkv --help`},
		{"completion bsh", `unknown command "bsh" (did you mean bash or zsh?); see bloomkv completion --help`},
		{"scan s --limt 3", "unknown flag --limt (did you mean --limit?); see bloomkv scan --help"},
		{"scan s --prefx=x", "unknown flag --prefx (did you mean --prefix?); see bloomkv scan --help"},
		{"scan s --nosuch", "unknown flag --nosuch; see bloomkv scan --help"},
		{"scan -z s", "unknown flag -z; see bloomkv scan --help"},
		{"scan s --limit", "--limit: its value is missing; see bloomkv scan --help"},
		{"scan s --limit x", "--limit x: want a whole number; see bloomkv scan --help"},
		{
			"scan s --limit 99999999999999999999",
			"--limit 99999999999999999999: the number is out of range; see bloomkv scan --help",
		},
		{"plan --keys -5", "--keys -5: want a whole number, 0 or more; see bloomkv plan --help"},
		{"plan --fpr much", "--fpr much: want a number; see bloomkv plan --help"},
		{"scan s --json=maybe", "--json maybe: want true or false; see bloomkv scan --help"},
		{
			"load s --filter-prefix foo",
			`--filter-prefix foo: prefix rule "foo", want "len:N", "sep:C:N" or nothing; see bloomkv load --help`,
		},
	} {
		if r := (tool{}).run(t, strings.Fields(c.args)...); r.code != cli.ExitTrouble || r.err != "bloomkv: "+c.want+
			"\n" || r.out != "" {
			t.Errorf("%s: exit %d, %q and %q, want %q", c.args, r.code, r.err, r.out, c.want)
		}
	}
	for _, args := range []string{
		"", "help", "help get", "help completion bash", "completion", "completion zsh",
		"get --help",
	} {
		if out := (tool{}).must(t, strings.Fields(args)...); !strings.Contains(out, "bloomkv") {
			t.Errorf("%q prints %q", args, out)
		}
	}
}

// TestHelpFitsAndHasTheFlagsThatMatter also checks that the flags for filters are where many tables are written.
func TestHelpFitsAndHasTheFlagsThatMatter(t *testing.T) {
	filters := map[string]bool{"load": true, "ingest": true, "compact": true}
	for _, c := range (&app{}).command().Commands() {
		out := tool{}.must(t, "help", c.Name())
		for line := range strings.SplitSeq(out, "\n") {
			if utf8.RuneCountInString(line) > words.Width {
				t.Errorf("%s: longer than %d characters: %s", c.Name(), words.Width, line)
			}
		}
		if has := strings.Contains(out, "--filter-memory MIB"); has != filters[c.Name()] {
			t.Errorf("%s has flags for filters: %v", c.Name(), has)
		}
	}
	for command, want := range map[string]string{"get": "KEY is escaped as", "put": "KEY and VALUE are escaped as"} {
		if out := (tool{}).must(t, command, "--help"); !strings.Contains(oneLine(out), want) {
			t.Errorf("%s: no %q in %s", command, want, out)
		}
	}
}

func TestTheVersionIsThatOfTheModuleAndOfTheFormats(t *testing.T) {
	out := tool{}.must(t, "--version")
	if !strings.HasPrefix(out, "bloomkv ") || !strings.Contains(out, "\nformats: table ") {
		t.Errorf("%q", out)
	}
}
