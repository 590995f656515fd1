package policy_test

import (
	"bytes"
	"os"
	"testing"

	"palyra/internal/call/policy/finding"
	"palyra/internal/cli/clitest"
	clipolicy "palyra/internal/cli/policy"
	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/exec/builtin"
)

// TestBuiltinToolsAreCurrent compares the embedded definitions with the tools; -update writes
// them.
func TestBuiltinToolsAreCurrent(t *testing.T) {
	t.Parallel()
	var list []tool.Descriptor
	for _, b := range builtin.New(builtin.Config{}) {
		list = append(list, b.Descriptor())
	}
	text := must.Get(canonical.Marshal(list))(t)
	text = append(text, '\n')
	if *clitest.Update {
		must.Do(t, os.WriteFile("builtin_tools.json", text, 0o644))
		return
	}
	if !bytes.Equal(text, clipolicy.BuiltinToolsJSON) {
		t.Error("builtin_tools.json is not current: go test ./internal/cli/policy -run TestBuiltinToolsAreCurrent -update")
	}
}

// TestPolicyCheckOffline: without a gateway, files are checked against the
// built-in tools, with place, line, caret and help.
func TestPolicyCheckOffline(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Env["PALYRA_ADDRESS"] = clitest.ClosedAddress
	good := w.Write("good/10.cedar", "@id(\"git\")\n@waives(\"approval: this repository is a sandbox\")\npermit(principal, action == Action::\"tool.execute/fs.write\", resource)\nwhen { context.args.path == \"x\" };\n")
	r := w.Run("policy", "check", good)
	w.Want(r, 0)
	if bytes.Contains([]byte(r.Out), []byte(finding.CodeOpaque)) || !bytes.Contains([]byte(r.Err), []byte("left out: ")) {
		t.Errorf("warnings about built-in tools stand among those about the file:\n%s%s", r.Out, r.Err)
	}
	for _, format := range []string{"wide", "json"} {
		if all := w.Run("policy", "check", good, "-o", format); !bytes.Contains([]byte(all.Out), []byte(finding.CodeOpaque)) {
			t.Errorf("-o %s leaves them out:\n%s", format, all.Out)
		}
	}
	bad := w.Write("bad/20.cedar", "@id(\"git\")\n@waives(\"approval: this repository is a sandbox\")\npermit(principal, action == Action::\"tool.execute/fs.write\", resource)\nwhen { context.args.pth == \"x\" };\n")
	r = w.Run("policy", "check", bad)
	w.Want(r, 1)
	for _, want := range []string{bad + ":4:", "when { context.args.pth == \"x\" };\n", "^\n", "path"} {
		if !bytes.Contains([]byte(r.Out), []byte(want)) {
			t.Errorf("does not say %q:\n%s", want, r.Out)
		}
	}
	r = w.Run("policy", "check", bad, "-o", "json", "--offline")
	w.Want(r, 1)
	if !bytes.Contains([]byte(r.Out), []byte(`"severity": "`+string(finding.SeverityError)+`"`)) {
		t.Error(r.Out)
	}
	w.Want(w.Run("policy", "check", w.Write("empty/x.txt", "")[:len(w.Home)+len("/empty")]), 2)
	w.Want(w.Run("policy", "check", "/nowhere"), 2)
}
