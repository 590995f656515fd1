package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"
)

// eachCommand calls fn for every command of the tree.
func eachCommand(c *cobra.Command, fn func(*cobra.Command)) {
	fn(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, fn)
	}
}

// placeholders returns the flags whose usage contains backquotes with more than one word: pflag
// prints the quoted text as the name of the value.
func placeholders(root *cobra.Command) []string {
	var found []string
	eachCommand(root, func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if name, _ := pflag.UnquoteUsage(f); strings.ContainsAny(name, " -") || strings.Contains(f.Usage, "`") {
				found = append(found, c.CommandPath()+" --"+f.Name)
			}
		})
	})
	return found
}

func TestFlagUsagesNameNoCommandAsTheValue(t *testing.T) {
	t.Parallel()
	root := (&app{client.NewApp(printer.Streams{})}).root()
	if found := placeholders(root); len(found) > 0 {
		t.Errorf("backquotes in the usage of %v", found)
	}
	// Control: such a flag is found.
	bad := &cobra.Command{Use: "bad"}
	bad.Flags().String("keys", "", "the key set (`palyra attest keys`)")
	if found := placeholders(bad); len(found) != 1 {
		t.Errorf("the control was not found: %v", found)
	}
}

// TestEverythingIsDescribed: every command and every flag has a description.
func TestEverythingIsDescribed(t *testing.T) {
	t.Parallel()
	eachCommand((&app{client.NewApp(printer.Streams{})}).root(), func(c *cobra.Command) {
		if c.Short == "" {
			t.Errorf("%s has no description", c.CommandPath())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s has no usage", c.CommandPath(), f.Name)
			}
		})
	})
}

// TestManualIsComplete: the manual page has every command that can be typed, with
// its flags and examples, and no date.
func TestManualIsComplete(t *testing.T) {
	t.Parallel()
	root := (&app{client.NewApp(printer.Streams{})}).root()
	page := strings.NewReplacer(`\-`, "-", `\(dq`, `"`, `\e`, `\`).Replace(manual.Write(root))
	eachCommand(root, func(c *cobra.Command) {
		if c != root && c.IsAvailableCommand() && !strings.Contains(page, "\n.SS \""+c.CommandPath()) {
			t.Errorf("%s is not there", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			if !strings.Contains(page, "\n  "+strings.TrimSpace(line)+"\n") {
				t.Errorf("%s: the example %q is not there", c.CommandPath(), line)
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(page, "--"+f.Name+`\fR`) {
				t.Errorf("%s --%s is not there", c.CommandPath(), f.Name)
			}
		})
	})
	if !strings.HasPrefix(page, ".TH PALYRA 1\n") || !strings.Contains(page, ".SH EXIT CODES\n") {
		t.Errorf("the page begins with %.40q", page)
	}
}
