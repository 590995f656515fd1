package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"palyra/internal/core/must"
)

// TestShortTexts: every command has a short text.
func TestShortTexts(t *testing.T) {
	t.Parallel()
	eachCommand(Command(), func(c *cobra.Command) {
		if c.Short == "" {
			t.Errorf("%s has no short text", c.CommandPath())
		}
	})
}

// unknown returns the commands and targets of a README that do not exist, and the packages that
// `make` installs and the README does not name.
func unknown(readme, makefile string, root *cobra.Command) []string {
	var wrong []string
	for _, line := range regexp.MustCompile(`(?m)^palyra (.*)$`).FindAllStringSubmatch(readme, -1) {
		typed, _, _ := strings.Cut(line[1], " #")
		cmd, rest, err := root.Find(strings.Fields(typed))
		if err != nil || cmd == root || !cmd.Runnable() || cmd.ParseFlags(rest) != nil {
			wrong = append(wrong, line[0])
		}
	}
	for _, line := range regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllStringSubmatch(readme, -1) {
		if !strings.Contains(makefile, "\n"+line[1]+":") {
			wrong = append(wrong, line[0])
		}
	}
	for _, word := range regexp.MustCompile(`[ \t](?:[a-z0-9]+|/[a-z0-9./]+)=([a-z0-9-]+)`).FindAllStringSubmatch(dependencies(makefile), -1) {
		if !strings.Contains(readme, "`"+word[1]+"`") {
			wrong = append(wrong, word[1])
		}
	}
	return wrong
}

// dependencies returns the lines of a makefile that install packages.
func dependencies(makefile string) string {
	_, lines, _ := strings.Cut(makefile, "\ndeps-demo:")
	lines, _, _ = strings.Cut(lines, "\n.PHONY: clean")
	return lines
}

// TestReadmeCommandsExist: README contains no command, flag or target that does not exist, and
// lists every package that its two commands install.
func TestReadmeCommandsExist(t *testing.T) {
	t.Parallel()
	root := Command()
	readme, makefile := string(must.Get(os.ReadFile("../../README.md"))(t)), string(must.Get(os.ReadFile("../../Makefile"))(t))
	if wrong := unknown(readme, makefile, root); len(wrong) > 0 {
		t.Errorf("README.md and what is there differ in %q", wrong)
	}
	// Control: each kind of error is found.
	bad := "palyra stauts\npalyra status --nothing\npalyra status # fine\nmake nothing\n"
	if wrong := unknown(bad, "\ndeps-demo:\n\tscripts/deps.sh x=thing\n", root); len(wrong) != 4 {
		t.Errorf("the mistakes found are %q", wrong)
	}
}
