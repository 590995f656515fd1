package printer_test

import (
	"regexp"
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
)

// TestNarrowTables: ids and times are not truncated on any terminal.
func TestNarrowTables(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Populate()
	for _, width := range []int{80, 60} {
		for _, c := range []struct {
			args  []string
			whole []string
		}{
			{[]string{"approvals", "list"}, []string{clitest.ApprovalID, "9m12s"}},
			{[]string{"grants", "list"}, []string{"01GRANT0000000000000000000", "1h30m"}},
			{[]string{"devices", "list"}, []string{"01DEVICE000000000000000000"}},
		} {
			r := w.With(printer.Streams{OutTerminal: true, Width: width}, append([]string{"--no-color"}, c.args...)...)
			for _, want := range c.whole {
				if !strings.Contains(r.Out, want) {
					t.Errorf("%v at %d: %s is cut:\n%s", c.args, width, want, r.Out)
				}
			}
			for line := range strings.Lines(r.Out) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
					t.Errorf("%v at %d: %d columns:\n%s", c.args, width, n, r.Out)
				}
			}
		}
	}
}

// TestTerminalTable: a table fits the terminal, unless the format is wide.
func TestTerminalTable(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Populate()
	s := printer.Streams{OutTerminal: true, Width: 80}
	for _, c := range []struct {
		format string
		fits   bool
	}{{"table", true}, {"wide", false}} {
		r := w.With(s, "--no-color", "grants", "list", "-o", c.format)
		w.Want(r, 0)
		longest := 0
		for line := range strings.Lines(r.Out) {
			longest = max(longest, len([]rune(strings.TrimSuffix(line, "\n"))))
		}
		if (longest <= 80) != c.fits {
			t.Errorf("-o %s has %d columns:\n%s", c.format, longest, r.Out)
		}
	}
}

// TestColours: colors are used only on a terminal, and only if no setting disables them.
func TestColours(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		terminal bool
		env      map[string]string
		args     []string
		want     bool
	}{
		{"terminal", true, nil, nil, true},
		{"pipe", false, nil, nil, false},
		{"NO_COLOR", true, map[string]string{"NO_COLOR": "1"}, nil, false},
		{"dumb", true, map[string]string{"TERM": "dumb"}, nil, false},
		{"CI", true, map[string]string{"CI": "1"}, nil, false},
		{"flag", true, nil, []string{"--no-color"}, false},
	} {
		w := clitest.NewWorld(t)
		w.Populate()
		for k, v := range c.env {
			w.Env[k] = v
		}
		r := w.With(printer.Streams{OutTerminal: c.terminal, ErrTerminal: c.terminal}, append(c.args, "approvals", "list")...)
		if got := strings.Contains(r.Out, "\x1b["); got != c.want {
			t.Errorf("%s: colours %v, want %v: %q", c.name, got, c.want, r.Out)
		}
		bad := w.With(printer.Streams{ErrTerminal: c.terminal}, append(c.args, "nothing")...)
		if got := strings.Contains(bad.Err, "\x1b["); got != c.want {
			t.Errorf("%s: colours in errors %v, want %v: %q", c.name, got, c.want, bad.Err)
		}
	}
}

// TestTimesAndIDsStayWhole: at 80 columns, no list truncates a time or an id, or is wider.
func TestTimesAndIDsStayWhole(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Populate()
	w.Journaled().Attested(t, `{}`)
	cut := regexp.MustCompile(`\b(20\d\d-[0-9TZ:-]*|[0-9][0-9A-Z]{5,25})…`)
	for _, list := range []string{
		"approvals list", "grants list --all", "runs list", "calls list", "sessions list --all", "console sessions", "devices list", "tokens list --all", "vault list", "pairing list",
		"policy versions", "notify list", "notify deliveries", "notify slack list", "attest list", "journal list --last 50", "skills list", "skills trust list", "members list --all", "mcp list",
	} {
		r := w.With(printer.Streams{OutTerminal: true, Width: 80}, append([]string{"--no-color"}, strings.Fields(list)...)...)
		w.Want(r, 0)
		if found := cut.FindString(r.Out); found != "" {
			t.Errorf("%s cuts %s:\n%s", list, found, r.Out)
		}
		for line := range strings.Lines(r.Out) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
				t.Errorf("%s has %d columns:\n%s", list, n, r.Out)
				break
			}
		}
	}
}
