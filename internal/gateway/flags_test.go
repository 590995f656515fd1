package gateway

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// eachFlag calls fn with every flag of every command of palyrad.
func eachFlag(c *cobra.Command, fn func(*cobra.Command, *pflag.Flag)) {
	c.InitDefaultHelpFlag()
	c.LocalFlags().VisitAll(func(f *pflag.Flag) { fn(c, f) })
	for _, sub := range c.Commands() {
		eachFlag(sub, fn)
	}
}

// hasNoDescription reports whether the usage of a flag is empty, has only the flag's name, or
// has an unnamed value.
func hasNoDescription(f *pflag.Flag) bool {
	value, what := pflag.UnquoteUsage(f)
	return what == "" || strings.HasPrefix(what, "set ") || strings.HasPrefix(what, "(default") || value == "string" && f.Annotations != nil
}

// TestEveryFlagIsDescribed: every flag of palyrad and its subcommands has a description.
func TestEveryFlagIsDescribed(t *testing.T) {
	t.Parallel()
	eachFlag(Command(io.Discard, io.Discard), func(c *cobra.Command, f *pflag.Flag) {
		if hasNoDescription(f) {
			t.Errorf("%s --%s does not say what it is: %q", c.CommandPath(), f.Name, f.Usage)
		}
	})
	// Control: both flags have no description.
	bad := pflag.NewFlagSet("", pflag.ContinueOnError)
	bad.String("a", "", "set a")
	bad.String("b", "", "")
	bad.VisitAll(func(f *pflag.Flag) {
		if !hasNoDescription(f) {
			t.Errorf("--%s passes", f.Name)
		}
	})
}

// TestFlagsAcceptTheirDefaults: each flag exists and accepts the default that its help displays.
func TestFlagsAcceptTheirDefaults(t *testing.T) {
	t.Parallel()
	root := Command(io.Discard, io.Discard)
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	for _, f := range config.Flags() {
		flag := root.Flags().Lookup(f.Name)
		if flag == nil {
			t.Errorf("--%s is no flag", f.Name)
			continue
		}
		if _, said, ok := strings.Cut(flag.Usage, "(default "); ok {
			text := said[:strings.LastIndex(said, ")")]
			if _, _, err := config.Load(config.LoadOptions{Env: env, Flags: map[string]string{f.Key: text}}); err != nil {
				t.Errorf("--%s %s: %v", f.Name, text, err)
			}
		}
	}
}

// TestKeyWithoutFlag: the error for a flag that would set a key, but does not exist, names the key
// and its variable. Controls: a key with a flag, and a word that is not a key.
func TestKeyWithoutFlag(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--http-max-bytes", "1"}, {"doctor", "--http-max-bytes=1"}} {
		c := Command(io.Discard, io.Discard)
		c.SetArgs(args)
		err := c.Execute()
		known := &reason.Error{}
		if !errors.As(err, &known) || known.Code != reason.InvalidInput || known.NextStep() != "Set http.max_bytes in the configuration file, or the variable PALYRA_HTTP_MAX_BYTES." {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, variable, exists := config.KeyWithoutFlag("workspaces"); !exists || variable != "" {
		t.Errorf("workspaces: variable %q, %v", variable, exists)
	}
	for _, name := range []string{"log-level", "client-address", "http-max"} {
		if key, _, exists := config.KeyWithoutFlag(name); exists {
			t.Errorf("--%s: %s", name, key)
		}
	}
}

// TestHelpShowsSettingsByGroups: palyrad's help has every setting once, below the heading of
// its group. The help of a subcommand has its own flags and names the command that lists the
// settings.
func TestHelpShowsSettingsByGroups(t *testing.T) {
	t.Parallel()
	help := func(args ...string) string {
		var out bytes.Buffer
		c := Command(&out, &out)
		c.SetArgs(append(args, "--help"))
		must.Do(t, c.Execute())
		return out.String()
	}
	text := help()
	for _, f := range config.Flags() {
		if n := strings.Count(text, "--"+f.Name+" "+f.Value+" "); n != 1 {
			t.Errorf("--%s %s stands %d times in the help text", f.Name, f.Value, n)
		}
		_, below, ok := strings.Cut(text, "\n"+f.Group+":\n")
		group, _, _ := strings.Cut(below, "\n\n")
		if !ok || !strings.Contains(group, "--"+f.Name+" ") {
			t.Errorf("--%s does not stand below %q", f.Name, f.Group)
		}
	}
	for _, name := range []string{"operator add", "doctor", "keys rotate", "policy reset"} {
		text := help(strings.Fields(name)...)
		if strings.Contains(text, "--listen-api") || !strings.Contains(text, "see palyrad --help") || !strings.Contains(text, "--config") {
			t.Errorf("palyrad %s --help:\n%s", name, text)
		}
	}
	if text := help("sandbox", "exec"); strings.Contains(text, "see palyrad --help") || !strings.Contains(text, "--allow HOST:PORT") {
		t.Errorf("palyrad sandbox exec takes no settings:\n%s", text)
	}
}

// TestManual: palyrad(8) has every setting once, below its group, and every command.
func TestManual(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := Command(&out, &out)
	c.SetArgs([]string{"man"})
	must.Do(t, c.Execute())
	page := strings.ReplaceAll(out.String(), `\-`, "-")
	for _, f := range config.Flags() {
		if n := strings.Count(page, "\n\\fB--"+f.Name+"\\fR "+f.Value+"\n"); n != 1 {
			t.Errorf("--%s stands %d times in the manual page", f.Name, n)
		}
		if !strings.Contains(page, "\n.SS "+f.Group+"\n") {
			t.Errorf("the manual page has no %q", f.Group)
		}
	}
	for _, want := range []string{".TH PALYRAD 8\n", ".SS \"palyrad operator add NAME --role ROLE", "palyrad sandbox exec --workspace . --cow", ".SS \"palyrad completion bash"} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is not in the manual page", want)
		}
	}
}
