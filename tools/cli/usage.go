package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Hint adds the help page of a command to an error of usage.
func Hint(c *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; see %s --help", err, c.CommandPath())
}

// arguments checks the number of arguments against the Use of a command, such as DIR KEY [VALUE], and names those that
// are missing. [X] is optional, and [X...] stands for any number of arguments.
func arguments(c *cobra.Command, args []string) error {
	names := strings.Fields(c.Use)[1:]
	for i, name := range names {
		switch {
		case strings.HasSuffix(name, "...]"):
			return nil
		case i >= len(args) && !strings.HasPrefix(name, "["):
			missing := slices.DeleteFunc(names[i:], func(name string) bool { return name[0] == '[' })
			is := "is"
			if len(missing) > 1 {
				is = "are"
			}
			want := strings.TrimPrefix(c.Use, c.Name()+" ")
			return Hint(c, fmt.Errorf("want %s; %s %s missing", want, strings.Join(missing, " and "), is))
		}
	}
	switch {
	case len(args) <= len(names):
		return nil
	case len(names) == 0:
		return Hint(c, fmt.Errorf("%s takes no arguments, got %q", c.Name(), args[0]))
	default:
		return Hint(c, fmt.Errorf("want %s; %q is one argument too many", strings.Join(names, " "), args[len(names)]))
	}
}

// unknownCommand returns the error for a subcommand that c does not have.
func unknownCommand(c *cobra.Command, name string) error {
	return Hint(c, fmt.Errorf("unknown command %q%s", name, suggest(c, name, "")))
}

// CommandsOnly runs a command that only groups subcommands.
func CommandsOnly(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(c, args[0])
	}
	return c.Help()
}

// suggest returns the subcommands of c whose names are similar to a name, each after prefix, as a question.
func suggest(c *cobra.Command, name, prefix string) string {
	c.SuggestionsMinimumDistance = min(2, len(name)/2) // two wrong letters make a short name a different one
	found := c.SuggestionsFor(name)
	if len(found) == 0 {
		return ""
	}
	for i := range found {
		found[i] = prefix + found[i]
	}
	return fmt.Sprintf(" (did you mean %s?)", strings.Join(found, " or "))
}

// flagError rewrites an error of a flag so that it names the flag and its value.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var bad *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		names := new(cobra.Command) // lets cobra compare flags as it compares commands
		c.Flags().VisitAll(func(f *pflag.Flag) {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		})
		name := unknown.GetSpecifiedName()
		err = fmt.Errorf("unknown flag --%s%s", name, suggest(names, name, "--"))
	case errors.As(err, &unknown):
		err = fmt.Errorf("unknown flag -%s", unknown.GetSpecifiedName())
	case errors.As(err, &bare):
		err = fmt.Errorf("--%s: its value is missing", bare.GetSpecifiedName())
	case errors.As(err, &bad):
		err = fmt.Errorf("--%s %s: %w", bad.GetFlag().Name, bad.GetValue(), plainNumber(bad.Unwrap()))
	}
	return Hint(c, err)
}

// plainNumber describes an error of package strconv without the name of a function.
func plainNumber(err error) error {
	var number *strconv.NumError
	if !errors.As(err, &number) {
		return err
	}
	switch {
	case errors.Is(err, strconv.ErrRange):
		return errors.New("the number is out of range")
	case number.Func == "ParseBool":
		return errors.New("want true or false")
	case number.Func == "ParseFloat":
		return errors.New("want a number")
	case number.Func == "ParseUint":
		return errors.New("want a whole number, 0 or more")
	default:
		return errors.New("want a whole number")
	}
}

// checkArguments has arguments check those of a tree of commands, unless they have another check.
func checkArguments(c *cobra.Command) {
	if c.Args == nil {
		c.Args = arguments
	}
	for _, sub := range c.Commands() {
		checkArguments(sub)
	}
}

// prepareUsage gives a tree of commands the errors of this package, checks of their arguments, and help that fits a
// width.
func prepareUsage(root *cobra.Command, args []string, width int) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.InitDefaultHelpCmd()
	if c, _, err := root.Find([]string{"help"}); err == nil && c != root {
		c.Use, c.Short, c.Long = "help [COMMAND...]", "Print the help of a command", ""
		c.RunE = func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 {
				err = unknownCommand(c, rest[0]) // cobra prints that, and succeeds
			}
			if err != nil {
				return err
			}
			return c.Help()
		}
	}
	checkArguments(root)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		usage, flags := c.UsageString(), c.LocalFlags()
		usage = strings.Replace(usage, strings.TrimRight(flags.FlagUsages(), " \n"),
			strings.TrimRight(flags.FlagUsagesWrapped(width), " \n"), 1)
		fmt.Fprintf(c.OutOrStdout(), "%s\n%s", Fit(cmp.Or(c.Long, c.Short), width), usage)
	})
	root.SetFlagErrorFunc(flagError)
	root.InitDefaultCompletionCmd(args...)
	if c, _, err := root.Find([]string{"completion"}); err == nil && c != root {
		c.Args, c.RunE = cobra.ArbitraryArgs, CommandsOnly // an unknown shell is an error
	}
}

// Fit returns text whose lines fit a width, as far as words do. The lines of a paragraph are joined and broken anew. A
// line that begins with two spaces begins an item, such as a name and what it means: its further lines are aligned to
// the second column. A line that begins with a tab stays as it is.
func Fit(text string, width int) string {
	var out []string
	lead, indent := "", "" // of the paragraph or item
	var parts []string     // its words
	end := func() {
		line := lead
		for i, word := range parts {
			switch {
			case i == 0:
				line += word
			case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
				out = append(out, line)
				line = indent + word
			default:
				line += " " + word
			}
		}
		if line != "" {
			out = append(out, line)
		}
		lead, indent, parts = "", "", nil
	}
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		body := strings.TrimLeft(line, " ")
		switch blanks := len(line) - len(body); {
		case body == "", body[0] == '\t':
			end()
			out = append(out, line)
			continue
		case blanks > 0 && (blanks != len(indent) || lead == "" || lead == indent):
			end()
			lead = line[:blanks]
			if name, rest, ok := strings.Cut(body, "  "); ok {
				body = strings.TrimLeft(rest, " ")
				lead += name + strings.Repeat(" ", len(line)-blanks-len(name)-len(body))
			}
			indent = strings.Repeat(" ", utf8.RuneCountInString(lead))
		case blanks == 0 && lead != "":
			end()
		}
		parts = append(parts, strings.Fields(body)...)
	}
	end()
	return strings.Join(out, "\n") + "\n"
}
