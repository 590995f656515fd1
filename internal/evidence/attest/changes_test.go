package attest_test

import (
	"testing"

	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

// predicateOf signs an execution and returns the predicate that a verifier reads.
func predicateOf(t *testing.T, change func(*tool.Report)) (attest.Predicate, error) {
	t.Helper()
	n := newNotary(t, newAuthority(t))
	x := execution()
	change(&x.Report)
	env, err := n.Sign(t.Context(), x)
	if err != nil {
		return attest.Predicate{}, err
	}
	v, err := attest.Verify(env.JSON, n.KeySet())
	return v.Predicate, err
}

func TestChangesAreAttested(t *testing.T) {
	t.Parallel()
	p, err := predicateOf(t, func(*tool.Report) {})
	if err != nil || p.Changes == nil || p.Changes.State != "committed" || p.Changes.RootSHA256 == "" || p.Changes.ApprovalID == "" {
		t.Errorf("got %+v, %v", p.Changes, err)
	}
	for _, state := range []tool.ChangeState{tool.Unchanged, tool.Discarded, tool.Conflicted, tool.DryRun} {
		p, err := predicateOf(t, func(r *tool.Report) {
			r.Changes = &tool.Changes{State: state, Workspace: "repo", Reason: "COMMIT_REFUSED"}
		})
		if err != nil || p.Changes.State != string(state) || p.Changes.RootSHA256 != "" || p.Changes.Protected == nil {
			t.Errorf("%s: %+v, %v", state, p.Changes, err)
		}
	}
	if p, err := predicateOf(t, func(r *tool.Report) { r.Changes = nil }); err != nil || p.Changes != nil {
		t.Errorf("a call without a copy: %+v, %v", p.Changes, err)
	}
	for name, spoil := range map[string]func(*tool.Changes){
		"no state":   func(c *tool.Changes) { c.State = "" },
		"made up":    func(c *tool.Changes) { c.State = "almost" },
		"bad digest": func(c *tool.Changes) { c.Root = "sha256:x" },
	} {
		if _, err := predicateOf(t, func(r *tool.Report) { spoil(r.Changes) }); err == nil {
			t.Errorf("%s was attested", name)
		}
	}
}

func TestViolationsAreAttested(t *testing.T) {
	t.Parallel()
	p, err := predicateOf(t, func(r *tool.Report) {
		for len(r.Violations) < 40 {
			r.Violations = append(r.Violations, r.Violations[0])
		}
	})
	if err != nil || p.Violations.Count != 42 || len(p.Violations.First) != 16 || p.Violations.First[0].Syscall != "unshare" {
		t.Errorf("got %+v, %v", p.Violations, err)
	}
	if p, err := predicateOf(t, func(r *tool.Report) { r.Violations, r.ViolationsMissed = nil, 0 }); err != nil || p.Violations != nil {
		t.Errorf("a run without violations: %+v, %v", p.Violations, err)
	}
}

// The attestation names the host's network "unrestricted", because "none" would suggest no
// network.
func TestHostNetworkIsUnrestricted(t *testing.T) {
	t.Parallel()
	for mode, word := range map[string]string{"none": "unrestricted", "unrestricted": "unrestricted", "strict": "strict", "preflight": "preflight"} {
		p, err := predicateOf(t, func(r *tool.Report) { r.Egress.Mode = mode })
		if err != nil || p.Egress.Mode != word {
			t.Errorf("%s: %q, %v", mode, p.Egress.Mode, err)
		}
	}
}
