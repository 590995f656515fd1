//go:build linux

package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// TestEditThenApprove: one operator edits an agent's write, another approves the edited call,
// and it runs. The attestation names and proves the edited call, which policy judged again, and
// the agent is notified of the edit.
func TestEditThenApprove(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.policy("10-plans.cedar", `@id("plans") @reason("plans are read by two people") @severity("high")
forbid(principal, action == Action::"tool.execute/fs.write", resource)
when { context has path && context.path like "plans/*" } unless { context.approval.granted };
`)
	g.Start()
	agent := g.add("helper", "--owner", "local", "--role", "agent")
	bob, carol := g.add("bob", "--role", "operator"), g.add("carol", "--role", "operator")

	call := agent.begin("call", "fs.write", "path=b.txt", "content=draft", "-o", "ndjson")
	before := call.asked()
	input := filepath.Join(g.Dir, "edited.json")
	g.write(input, `{"path":"plans/b.txt","content":"final"}`)
	edit := []string{"approvals", "edit", before.ID, "--input", input, "--digest", before.Digest, "--reason", "it is a plan"}
	agent.run(edit...).Want(t, 3, "PERMISSION_DENIED")
	g.local().run(edit...).Want(t, 3, "PERMISSION_DENIED") // the agent's owner is also a requester
	bob.run(edit...).Want(t, 0)
	shown := carol.ok("approvals", "show", before.ID)
	for _, want := range []string{"user:bob", "it is a plan", "plans/b.txt", "draft", "plans are read by two people"} {
		if !strings.Contains(shown, want) {
			t.Errorf("approvals show does not say %q:\n%s", want, shown)
		}
	}
	carol.allow(before).Want(t, 7, "DIGEST_MISMATCH")
	after := process.Ask{ID: before.ID, Digest: decode[struct {
		Digest string `json:"call_digest"`
	}](t, carol.ok("approvals", "show", before.ID, "-o", "json")).Digest}
	bob.allow(after).Want(t, 3, "PERMISSION_DENIED") // the editor cannot approve either
	carol.allow(after).Want(t, 0)
	call.wait().Want(t, 0)
	if g.Read("b.txt") != "" || g.Read("plans/b.txt") != "final" {
		t.Errorf("written: b.txt %q, plans/b.txt %q", g.Read("b.txt"), g.Read("plans/b.txt"))
	}
	told := call.Out.String()
	if at := strings.Index(told, `"executed_as_edited":`); at < 0 || !strings.Contains(told[at:], `"user:bob"`) || !strings.Contains(told[at:], "it is a plan") {
		t.Errorf("the agent is told\n%s", told)
	}

	s := carol.lastAttestation()
	if s.Statement.Predicate.Invocation.ApprovalID != before.ID {
		t.Errorf("attested: %+v", s)
	}
	var proposed, edited struct {
		Digest string `json:"arguments_digest"`
	}
	of := carol.events("PAL-D104")
	must.Do(t, json.Unmarshal(of[len(of)-1].Payload, &edited))
	of = carol.events("PAL-D100")
	must.Do(t, json.Unmarshal(of[len(of)-1].Payload, &proposed))
	if edited.Digest == "" || edited.Digest == proposed.Digest {
		t.Errorf("the journal has %q and %q", proposed.Digest, edited.Digest)
	}
	for _, id := range []string{before.ID, s.Statement.Predicate.Invocation.ProposalID} {
		why := carol.ok("policy", "explain", id)
		if !strings.Contains(why, "plans are read by two people") {
			t.Errorf("policy explain %s does not explain the edited call:\n%s", id, why)
		}
	}
	g.local().ok("journal", "verify")
}
