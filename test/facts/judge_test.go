//go:build linux

package facts

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	toolcall "palyra/internal/call"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

// judge checks the outcome of a call against its results, the disk, the journal and the
// attestation.
func (w *worker) judge(c *call, o *toolcall.Outcome, err error) {
	w.tally.ended(c.tool, ending(o, err))
	if w.spoil != nil && err == nil {
		w.spoil(w, c, o)
		return
	}
	w.verdict(c, o, err, w.tally.violated)
}

func (w *worker) verdict(c *call, o *toolcall.Outcome, err error, found func(kind, text string)) {
	v := verdict{worker: w, call: c, outcome: o, say: found}
	switch {
	case reason.Of(err) == reason.Internal, reason.Of(err) == reason.JournalUnavailable, reason.Of(err) == reason.Cancelled:
		v.report("broken", "the call ended with %v", err)
	case err != nil || !o.Decision.Allowed:
		v.noResult()
	default:
		v.look()
	}
	if v.found {
		w.violated()
	}
}

// ending returns in a word how a call ended.
func ending(o *toolcall.Outcome, err error) string {
	switch {
	case err != nil:
		return "refused:" + string(reason.Of(err))
	case !o.Decision.Allowed:
		return "denied:" + string(o.Decision.Reason)
	case o.Report.Outcome == tool.Succeeded:
		return "succeeded"
	}
	return string(o.Report.Outcome) + ":" + o.Report.Reason
}

// verdict is the judgment of one call.
type verdict struct {
	worker  *worker
	call    *call
	outcome *toolcall.Outcome
	// say is called for each violation.
	say   func(kind, text string)
	found bool
}

func (v *verdict) report(kind, format string, args ...any) {
	v.found = true
	path := "?"
	if v.call.judged != nil {
		path = v.call.judged.Path
	}
	v.say(kind, fmt.Sprintf("%s %s, judged for %q: ", v.call.tool, v.call.input, path)+fmt.Sprintf(format, args...))
}

// noResult: a call that was not allowed has no effect.
func (v *verdict) noResult() {
	if len(v.outcome.Report.Result) > 0 || len(v.call.changes) > 0 {
		v.report("ran", "the call was not allowed, and ran")
	}
}

// look judges a call that was allowed.
func (v *verdict) look() {
	judged := v.call.judged
	if judged == nil {
		v.report("record", "the journal has no evaluation")
		return
	}
	v.effects()
	if v.outcome.Report.Outcome == tool.Refused {
		return
	}
	v.answers()
	result := v.outcome.Report.Result
	if strings.HasPrefix(v.call.tool, "fs.") && strings.Contains(string(result), sealed+"-") {
		v.report("forbidden content", "the result is %s", clip(string(result)))
	}
	if v.outcome.Report.Outcome != tool.Succeeded {
		return
	}
	switch v.call.tool {
	case "fs.read":
		v.read()
	case "fs.list":
		v.list()
	case "fs.search":
		v.search()
	case "process.run", "shell.run":
		v.program()
	case "echo":
		v.same(string(result), string(v.call.input))
	case "http.fetch":
		var got struct{ Content string }
		v.decode(&got)
		v.same(strings.TrimPrefix(page, got.Content), strings.TrimPrefix(page, got.Content)) // a HEAD has no body
	}
}

func (v *verdict) same(got, want string) {
	if got != want {
		v.report("result", "it is %s", clip(got))
	}
}

func (v *verdict) decode(into any) {
	if err := json.Unmarshal(v.outcome.Report.Result, into); err != nil {
		v.report("result", "%v", err)
	}
}

// answers: approvals concern the path that the call used, and every call that requires approval was
// approved.
func (v *verdict) answers() {
	if !strings.HasPrefix(v.call.tool, "fs.") {
		return
	}
	var about any
	var from string
	switch d := v.outcome.Decision; {
	case d.GrantID != "":
		about, _ = v.worker.grants.Load(d.GrantID)
		from = "grant"
	case d.ApprovalID != "":
		about, _ = v.worker.asks.Load(d.ApprovalID)
		from = "approval"
	default:
		if asksPath(v.call.judged.Path) {
			v.report("not asked", "policy asks about it")
		}
		return
	}
	if facts, ok := about.(tool.Facts); !ok || facts.Path != v.call.judged.Path {
		v.report("answer", "the %s was about %q", from, facts.Path)
	}
}

// existedAt reports whether a file existed at a path while the call ran.
func (v *verdict) existedAt(label, name string) bool {
	return slices.Contains(v.call.stood[name], label)
}

// at checks one file in a result: it existed at the reported path, which is the evaluated path or
// below it.
func (v *verdict) at(label, name string) {
	top := v.call.judged.Path
	switch {
	case name != top && top != "." && !strings.HasPrefix(name, top+"/"):
		v.report("record", "%q was read at %q", label, name)
	case forbiddenPath(name):
		v.report("forbidden content", "%q was read at %q", label, name)
	case !v.existedAt(label, name):
		v.report("record", "%q never stood at %q while the call ran, where stood %q", label, name, v.call.stood[name])
	case asksPath(name) && v.outcome.Decision.ApprovalID == "" && v.outcome.Decision.GrantID == "":
		v.report("not asked", "%q was read at %q", label, name)
	}
}

func (v *verdict) read() {
	var got struct{ Path, Content string }
	v.decode(&got)
	label, _, _ := strings.Cut(got.Content, "\n")
	v.at(label, got.Path)
	if got.Path != v.call.judged.Path {
		v.report("record", "the result is of %q", got.Path)
	}
}

func (v *verdict) search() {
	var got struct {
		Path    string
		Matches []struct{ Path, Text string }
	}
	v.decode(&got)
	if got.Path != v.call.judged.Path {
		v.report("record", "the result is of %q", got.Path)
	}
	for _, m := range got.Matches {
		v.at(m.Text, m.Path)
	}
}

// list: names may be returned. The size of a forbidden file may not, nor the contents of a
// directory that policy did not evaluate.
func (v *verdict) list() {
	var got struct {
		Path    string
		Entries []struct {
			Path, Kind string
			Size       int64
		}
	}
	v.decode(&got)
	if got.Path != v.call.judged.Path {
		v.report("record", "the result is of %q", got.Path)
	}
	for _, e := range got.Entries {
		switch {
		case path.Base(e.Path) == "seal.id" && !forbiddenPath(e.Path):
			v.report("forbidden content", "the entries are of a sealed directory")
		case e.Kind == "file" && e.Size != 0 && forbiddenPath(e.Path):
			v.report("forbidden size", "%q has %d bytes", e.Path, e.Size)
		}
	}
}

// effects: the report contains exactly the changes on the disk, at the evaluated paths.
func (v *verdict) effects() {
	var said []string
	for _, f := range v.outcome.Report.Files {
		if f.Was != f.Is { // writing the same content is no change
			said = append(said, f.Path)
		}
	}
	var found []string
	for _, ch := range v.call.changes {
		found = append(found, ch.path)
		switch {
		case runsPrograms(v.call.tool): // paths do not limit what a program writes
		case forbiddenPath(ch.path):
			v.report("forbidden effect", "%q was written", ch.path)
		case !slices.Contains(v.call.judged.Paths, ch.path):
			v.report("effect", "%q was written and %q judged", ch.path, v.call.judged.Paths)
		}
		if ch.is != v.call.writes {
			v.report("effect", "%q, which held %q, holds %q; the call ended with %s", ch.path, ch.was, ch.is, ending(v.outcome, nil))
		}
	}
	slices.Sort(said)
	slices.Sort(found)
	if !slices.Equal(said, found) {
		v.report("record", "the report names %q, and %q changed", said, found)
	}
}

// program: the attestation contains the program that ran, its directory and its operands.
func (v *verdict) program() {
	var got struct {
		ExitCode *int `json:"exit_code"`
		Stdout   struct{ Content string }
	}
	v.decode(&got)
	var told struct {
		Label, Cwd string
		Lines      []string
	}
	if got.ExitCode == nil || *got.ExitCode != 0 {
		return // the file to read is gone
	}
	if err := json.Unmarshal([]byte(got.Stdout.Content), &told); err != nil {
		v.report("result", "%v", err)
		return
	}
	s, err := statement(v.outcome.Attestation.Envelope.JSON)
	if err != nil || s.Predicate.Inputs.Executable == nil {
		v.report("record", "reading the attestation: %v", err)
		return
	}
	inputs := s.Predicate.Inputs
	honest := slices.ContainsFunc(s.Predicate.Enforcement.Downgrades, func(d string) bool { return strings.HasPrefix(d, "operand changed") })
	if ran := v.attestedProgram(inputs); told.Label != ran && (v.call.tool == "process.run" || !honest) {
		v.report("program", "%q ran and %q is attested", told.Label, ran)
	}
	if strings.HasPrefix(told.Label, forbidden) {
		v.report("forbidden program", "%q ran", told.Label)
	}
	if want := path.Join("/workspace", v.call.judged.Path); told.Cwd != want {
		v.report("program", "it ran in %q", told.Cwd)
	}
	argv := wordsOf(v.call)
	for i, line := range told.Lines {
		name := argv[i+1]
		digest := plain(v.worker.tree.digests[line])
		if honest || line == v.call.writes { // the program itself wrote it
			continue
		}
		at := slices.IndexFunc(inputs.Files, func(f attest.File) bool { return f.Path == name })
		switch {
		case at < 0 && inputs.UnboundArguments == 0:
			v.report("operand", "%q was read at %q, %v are attested and no argument is said to be unbound", line, name, inputs.Files)
		case at >= 0 && plain(inputs.Files[at].SHA256) != digest:
			v.report("operand", "%q was read at %q, and %v are attested", line, name, inputs.Files)
		}
	}
}

// attestedProgram returns the label of the attested program. For a shell line, it is the label
// of the operand that the line starts.
func (v *verdict) attestedProgram(inputs attest.Inputs) string {
	digest := inputs.Executable.SHA256
	if v.call.tool == "shell.run" {
		digest = ""
		name := path.Clean(strings.TrimPrefix(wordsOf(v.call)[0], "/workspace/"))
		for _, f := range inputs.Files {
			if f.Path == name {
				digest = f.SHA256
			}
		}
	}
	return v.worker.programs[plain(digest)]
}

func plain(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

// statement reads the signed statement without verifying the signature.
func statement(envelope []byte) (s attest.Statement, err error) {
	var dsse struct{ Payload []byte }
	err = json.Unmarshal(envelope, &dsse)
	return s, errors.Join(err, json.Unmarshal(dsse.Payload, &s))
}

func clip(text string) string {
	const most = 300
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
