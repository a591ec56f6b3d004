package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// hint adds to an error of usage where to read on.
func hint(c *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; see %s --help", err, c.CommandPath())
}

// arguments checks the number of arguments by the Use of a command, DIR KEY [VALUE], and names those that are missing. [X] is
// optional, and behind [X...] there is no end.
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
			return hint(c, fmt.Errorf("want %s; %s %s missing", strings.TrimPrefix(c.Use, c.Name()+" "), strings.Join(missing, " and "), is))
		}
	}
	switch {
	case len(args) <= len(names):
		return nil
	case len(names) == 0:
		return hint(c, fmt.Errorf("%s takes no arguments, got %q", c.Name(), args[0]))
	default:
		return hint(c, fmt.Errorf("want %s; %q is one argument too many", strings.Join(names, " "), args[len(names)]))
	}
}

// unknownCommand is the error of a command that c does not have.
func unknownCommand(c *cobra.Command, name string) error {
	return hint(c, fmt.Errorf("unknown command %q%s", name, suggest(c, name, "")))
}

// commandsOnly runs a command that is only there for its commands.
func commandsOnly(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(c, args[0])
	}
	return c.Help()
}

// suggest asks which command of c may be meant by a name. prefix comes before each.
func suggest(c *cobra.Command, name, prefix string) string {
	c.SuggestionsMinimumDistance = min(2, len(name)/2) // in a shorter name two letters are a different one
	found := c.SuggestionsFor(name)
	if len(found) == 0 {
		return ""
	}
	for i := range found {
		found[i] = prefix + found[i]
	}
	return fmt.Sprintf(" (did you mean %s?)", strings.Join(found, " or "))
}

// flagError says what is wrong with a flag, by its name and its value.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var bad *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		names := new(cobra.Command) // commands are compared as flags should be
		c.Flags().VisitAll(func(f *pflag.Flag) {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		})
		err = fmt.Errorf("unknown flag --%s%s", unknown.GetSpecifiedName(), suggest(names, unknown.GetSpecifiedName(), "--"))
	case errors.As(err, &unknown):
		err = fmt.Errorf("unknown flag -%s", unknown.GetSpecifiedName())
	case errors.As(err, &bare):
		err = fmt.Errorf("--%s: its value is missing", bare.GetSpecifiedName())
	case errors.As(err, &bad):
		err = fmt.Errorf("--%s %s: %w", bad.GetFlag().Name, bad.GetValue(), plainNumber(bad.Unwrap()))
	}
	return hint(c, err)
}

// plainNumber says what is wrong with a number, without the name of a function.
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

// checkCompletion makes the completion command of cobra refuse a shell that is unknown.
func checkCompletion(root *cobra.Command, args []string) {
	root.InitDefaultCompletionCmd(args...)
	if c, _, err := root.Find([]string{"completion"}); err == nil && c != root {
		c.Args, c.RunE = cobra.ArbitraryArgs, commandsOnly
	}
}

// helpCommand is the help command of cobra, for which a command that is unknown is an error.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Print the help of a command",
		Args:  arguments,
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 {
				err = unknownCommand(c, rest[0])
			}
			if err != nil {
				return err
			}
			return c.Help()
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			if c, _, err := root.Find(args); err == nil {
				for _, sub := range c.Commands() {
					names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}
