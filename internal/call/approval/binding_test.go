package approval_test

import (
	"encoding/json"
	"slices"
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/core/tool"
)

// flips changes each bound field of the default ask, and only that field.
var flips = map[string]func(*approval.Ask){
	"principal": func(a *approval.Ask) {
		a.Proposal.Caller.Principal, a.Plan.Binding.Principal = access.Agent("other"), "agent:other"
	},
	"on_behalf_of": func(a *approval.Ask) {
		a.Proposal.Caller.OnBehalfOf, a.Plan.Binding.OnBehalfOf = access.User("other"), "user:other"
	},
	"tool": func(a *approval.Ask) {
		a.Proposal.Tool.Name, a.Plan.Binding.Tool = "process.run2", "process.run2"
	},
	"tool_definition_digest": func(a *approval.Ask) { a.Plan.Binding.ToolDefinitionDigest = "sha256:changed" },
	"arguments":              func(a *approval.Ask) { a.Plan.Binding.Arguments = json.RawMessage(`{"argv":["make","tesT"]}`) },
	"cwd":                    func(a *approval.Ask) { a.Plan.Binding.Cwd = "default:sub" },
	"argv":                   func(a *approval.Ask) { a.Plan.Binding.Argv = []string{"make", "test", ""} },
	"environment":            func(a *approval.Ask) { a.Plan.Binding.Environment = []string{"LANG=C", "LD_PRELOAD=x.so"} },
	"executable":             func(a *approval.Ask) { a.Plan.Binding.Executable.SHA256 = "sha256:evil" },
	"operands":               func(a *approval.Ask) { a.Plan.Binding.Operands[0].SHA256 = "sha256:rewritten" },
	"sandbox_profile":        func(a *approval.Ask) { a.Plan.Binding.SandboxProfile = "none" },
	"egress":                 func(a *approval.Ask) { a.Plan.Binding.Egress = []string{"allow", "example.org:443"} },
	"parsed":                 func(a *approval.Ask) { a.Plan.Binding.Parsed = "sha256:another" },
	"elsewhere":              func(a *approval.Ask) { a.Plan.Binding.Elsewhere = true },
}

// covered reports whether an unused approval of the default call covers a call with one changed
// field.
func covered(t *testing.T, flip func(*approval.Ask), protected bool) bool {
	t.Helper()
	d := approvaltest.NewDesk(t)
	a := allowed(t, d, yes)
	d.Requests.Release(a)
	if !protected {
		d.IgnoreCallDigest()
	}
	p := approvaltest.Resolve(d.Desk, approvaltest.Ask(t, flip))
	defer p.Leave(nil)
	rec := <-p.Records
	return rec.ID == a.ApprovalID()
}

func TestApprovalDoesNotCoverAnotherCall(t *testing.T) {
	t.Parallel()
	for _, field := range tool.BindingFields {
		flip, ok := flips[field]
		if !ok {
			t.Errorf("bound field %s has no test", field)
			continue
		}
		t.Run(field, func(t *testing.T) {
			diffs, err := approvaltest.Ask(t).Plan.Binding.Diff(approvaltest.Ask(t, flip).Plan.Binding)
			if err != nil || len(diffs) != 1 || diffs[0].Field != field {
				t.Fatalf("the flip changes %v, %v", diffs, err)
			}
			if covered(t, flip, true) {
				t.Errorf("an approval of one call was used for one that differs in %s", field)
			}
			// Negative control, for flips with the same caller: without the digest in the key, the
			// approval covers the other call.
			if field != "principal" && field != "on_behalf_of" && !covered(t, flip, false) {
				t.Errorf("the test cannot see a missing check of %s", field)
			}
		})
	}
	// Positive control: the approval covers the same call.
	if !covered(t, func(*approval.Ask) {}, true) {
		t.Error("the same call again was not served by the unused approval")
	}
}

func TestExactGrantDoesNotCoverAnotherCall(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	id := mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Session})
	for _, field := range tool.BindingFields {
		ask := approvaltest.Ask(t, flips[field])
		if found(t, d, ask) {
			t.Errorf("%s: the grant is offered", field)
		}
		_, err := d.Grants.Answer(t.Context(), id, ask)
		reasontest.Want(t, "the error", err, reason.BindingMismatch)
	}
}

// A call that differs does not join a pending record.
func TestPendingIsNotSharedAcrossCalls(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	_, first := waiting(t, d)
	seen := []string{first.ID}
	for _, field := range tool.BindingFields {
		_, rec := waiting(t, d, flips[field])
		if slices.Contains(seen, rec.ID) {
			t.Errorf("a call that differs in %s joined another's approval", field)
		}
		seen = append(seen, rec.ID)
	}
}

func TestAskMustDescribeItsProposal(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	for name, spoil := range map[string]func(*approval.Ask){
		"digest of another call": func(a *approval.Ask) { a.CallDigest = "sha256:other" },
		"another principal":      func(a *approval.Ask) { a.Proposal.Caller.Principal = access.Agent("other") },
		"another user":           func(a *approval.Ask) { a.Proposal.Caller.OnBehalfOf = access.User("other") },
		"another tool":           func(a *approval.Ask) { a.Proposal.Tool.Name = "fs.read" },
	} {
		ask := approvaltest.Ask(t)
		spoil(&ask)
		_, err := d.Requests.Resolve(t.Context(), &ask, nil)
		if reason.Of(err) != reason.BindingMismatch {
			t.Errorf("%s: %v", name, err)
		}
	}
}
