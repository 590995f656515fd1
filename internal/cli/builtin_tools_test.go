package cli

import (
	"bytes"
	"os"
	"testing"

	"palyra/internal/builtin"
	"palyra/internal/canonical"
	"palyra/internal/policy/finding"
	"palyra/internal/tool"
)

// TestBuiltinToolsAreCurrent holds the embedded definitions against the tools;
// -update writes them.
func TestBuiltinToolsAreCurrent(t *testing.T) {
	var list []tool.Descriptor
	for _, b := range builtin.New(builtin.Config{}) {
		list = append(list, b.Descriptor())
	}
	text, err := canonical.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile("builtin_tools.json", text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(text, builtinToolsJSON) {
		t.Error("builtin_tools.json is not current: go test ./internal/cli -run TestBuiltinToolsAreCurrent -update")
	}
}

// TestPolicyCheckOffline: without a gateway, files are checked against the
// built-in tools, with place, line, caret and help.
func TestPolicyCheckOffline(t *testing.T) {
	w := newWorld(t)
	w.env["PALYRA_ADDRESS"] = closedAddress
	good := w.write("good/10.cedar", "@id(\"git\")\n@waives(\"approval: this repository is a sandbox\")\npermit(principal, action == Action::\"tool.execute/fs.write\", resource)\nwhen { context.args.path == \"x\" };\n")
	r := w.run("policy", "check", good)
	w.want(r, 0)
	if bytes.Contains([]byte(r.out), []byte(finding.CodeOpaque)) || !bytes.Contains([]byte(r.err), []byte("left out: ")) {
		t.Errorf("warnings about built-in tools stand among those about the file:\n%s%s", r.out, r.err)
	}
	for _, format := range []string{"wide", "json"} {
		if all := w.run("policy", "check", good, "-o", format); !bytes.Contains([]byte(all.out), []byte(finding.CodeOpaque)) {
			t.Errorf("-o %s leaves them out:\n%s", format, all.out)
		}
	}
	bad := w.write("bad/20.cedar", "@id(\"git\")\n@waives(\"approval: this repository is a sandbox\")\npermit(principal, action == Action::\"tool.execute/fs.write\", resource)\nwhen { context.args.pth == \"x\" };\n")
	r = w.run("policy", "check", bad)
	w.want(r, 1)
	for _, want := range []string{bad + ":4:", "when { context.args.pth == \"x\" };\n", "^\n", "path"} {
		if !bytes.Contains([]byte(r.out), []byte(want)) {
			t.Errorf("does not say %q:\n%s", want, r.out)
		}
	}
	r = w.run("policy", "check", bad, "-o", "json", "--offline")
	w.want(r, 1)
	if !bytes.Contains([]byte(r.out), []byte(`"severity": "`+string(finding.SeverityError)+`"`)) {
		t.Error(r.out)
	}
	w.want(w.run("policy", "check", w.write("empty/x.txt", "")[:len(w.home)+len("/empty")]), 2)
	w.want(w.run("policy", "check", "/nowhere"), 2)
}
