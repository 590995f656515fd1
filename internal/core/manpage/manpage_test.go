package manpage

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// program returns a command tree with one of each element that a page shows or omits.
func program() *cobra.Command {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "tool", Short: "Do things", Long: "tool does things.\n\n.profile is no order:\n  kept  as it is\nand on.", Example: "tool add 'a b' # one", Run: run}
	root.Flags().BoolP("quiet", "q", false, "say nothing")
	root.Flags().String("listen", "", "the `HOST:PORT` to listen on")
	root.Flags().Lookup("listen").Annotations = map[string][]string{"group": {"Network"}}
	group := &cobra.Command{Use: "item", Short: "Items"}
	add := &cobra.Command{Use: "add NAME", Short: `Add a "thing" with a \`, Example: "  tool item add x\n  tool item add y", Run: run}
	add.Flags().Int("times", 3, "how `OFTEN`")
	add.Flags().String("listen", "", "the `HOST:PORT` to listen on")
	add.Flags().Lookup("listen").Annotations = map[string][]string{"group": {"Network"}}
	group.AddCommand(add)
	root.AddCommand(group, &cobra.Command{Use: "secret", Short: "Hidden", Hidden: true, Run: run}, &cobra.Command{Use: "exit-codes", Short: "Codes", Long: "Codes:\n\n  0  fine"})
	return root
}

const want = `.TH TOOL 8
.SH NAME
tool \- Do things
.SH SYNOPSIS
.B tool
[command] [flags]
.SH DESCRIPTION
tool does things.
.PP
\&.profile is no order:
.nf
  kept  as it is
.fi
and on.
.SH OPTIONS
.TP
\fB\-q, \-\-quiet\fR 
say nothing
.SS Network
.TP
\fB\-\-listen\fR HOST:PORT
the HOST:PORT to listen on
.SH COMMANDS
.SS "tool item"
Items.
.SS "tool item add NAME [flags]"
Add a \(dqthing\(dq with a \e.
.TP
\fB\-\-times\fR OFTEN
how OFTEN (default 3)
.PP
.nf
  tool item add x
  tool item add y
.fi
.SH EXAMPLES
.nf
  tool add 'a b' # one
.fi
.SH EXIT CODES
Codes:
.PP
.nf
  0  fine
.fi
.SH SEE ALSO
other(1)
`

var page = Page{Section: 8, Heading: "group", SeeAlso: []string{"other(1)"}}

// TestPage: the page contains each element once, including examples, and no date.
func TestPage(t *testing.T) {
	t.Parallel()
	if got := page.Write(program()); got != want {
		t.Errorf("the page is\n%s", got)
	}
}

// TestGroff checks that groff formats the page without errors.
func TestGroff(t *testing.T) {
	t.Parallel()
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not there")
	}
	render := func(text string) (out, warnings string) {
		cmd := exec.CommandContext(t.Context(), groff, "-man", "-ww", "-Tascii", "-P-c", "-P-b", "-P-u", "-P-o")
		var said, shown bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), &shown, &said
		if err := cmd.Run(); err != nil {
			t.Skipf("groff does not work here: %v: %s", err, said.String())
		}
		return shown.String(), said.String()
	}
	if _, warnings := render(".nosuchmacro\n"); warnings == "" {
		t.Skip("groff warns of nothing here")
	}
	shown, warnings := render(page.Write(program()))
	if warnings != "" {
		t.Errorf("groff warns: %s", warnings)
	}
	for _, text := range []string{".profile is no order:", "-q, --quiet", `Add a "thing" with a \.`, "tool item add y"} {
		if !strings.Contains(shown, text) {
			t.Errorf("%q is not shown:\n%s", text, shown)
		}
	}
}
