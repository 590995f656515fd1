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

// placeholders returns the flags whose usage names the value in words of its
// own: pflag takes what stands between backquotes for the value's name.
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
	root := (&app{client.NewApp(printer.Streams{})}).root()
	if found := placeholders(root); len(found) > 0 {
		t.Errorf("backquotes in the usage of %v", found)
	}
	// The control: such a flag is found.
	bad := &cobra.Command{Use: "bad"}
	bad.Flags().String("keys", "", "the key set (`palyra attest keys`)")
	if found := placeholders(bad); len(found) != 1 {
		t.Errorf("the control was not found: %v", found)
	}
}

// Every flag and every command says what it is for.
func TestEverythingIsDescribed(t *testing.T) {
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
