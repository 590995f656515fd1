package policy

import (
	"encoding/json"
	"fmt"
	"time"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// samples are requests that no set may permit.
type samples struct{ *evaluator }

// check evaluates the samples. The ceilings among the default
// policies forbid them regardless of other policies. If they do not, for example because a
// default was damaged or the vocabulary changed, the set must not come into force.
func (s samples) check() []finding.Finding {
	var findings []finding.Finding
	add := func(format string, args ...any) {
		findings = append(findings, finding.Finding{
			Severity: finding.SeverityError, Code: finding.CodeSample, Message: fmt.Sprintf(format, args...),
			Help: "the default policies must load unchanged",
		})
	}
	for _, who := range s.callers() {
		if s.permitsUnknownTool(who) {
			add("the set would permit a tool that is not pinned, for %s", who)
		}
	}
	stranger := access.User("stranger-that-is-no-member")
	if _, taken := s.rules.dir.Members[stranger]; !taken && s.permitsStranger(stranger) {
		add("the set would permit API access without membership")
	}
	for _, who := range []access.Principal{access.Agent("sample"), access.Agent("sample-2")} {
		if s.voting.mayDecide(decider(who, access.SurfaceCLI, true), access.Principal{}, expr.SeverityLow) {
			add("the set would let %s decide an approval", who)
		}
	}
	for p := range s.rules.dir.Members {
		if p.Kind != access.KindUser && s.voting.mayDecide(decider(p, access.SurfaceCLI, true), access.Principal{}, expr.SeverityLow) {
			add("the set would let %s decide an approval", p)
		}
	}
	if len(s.voting.deciders) > 1 {
		for _, m := range s.voting.deciders {
			if s.voting.mayDecide(decider(m.Principal, access.SurfaceCLI, true), m.Principal, expr.SeverityLow) {
				add("the set would let %s decide an own request although there are other users", m.Principal)
			}
		}
	}
	return findings
}

// callers returns one member of each kind and one stranger.
func (s samples) callers() []access.Principal {
	out := []access.Principal{access.Agent("stranger-that-is-no-member")}
	seen := map[access.Kind]bool{}
	for p, m := range s.rules.dir.Members {
		if !m.Disabled && !seen[p.Kind] {
			seen[p.Kind] = true
			out = append(out, p)
		}
	}
	return out
}

func (s samples) permitsUnknownTool(who access.Principal) bool {
	for _, capabilities := range [][]tool.Capability{nil, {tool.FilesystemRead}, tool.Capabilities} {
		c, refused := s.prepareKnown(&Request{
			Caller:       access.Caller{Principal: who, Surface: access.SurfaceCLI, Paired: true, Present: true},
			Tool:         names.UnknownTool,
			Capabilities: capabilities,
			Args:         json.RawMessage(`{}`),
			Time:         time.Unix(0, 0),
		}, s.rules.vocab.Args[names.UnknownTool])
		if refused != nil {
			continue
		}
		if c.under(s.voting.noApproval).allowed || c.under(s.voting.ideal()).allowed {
			return true
		}
	}
	return false
}

func (s samples) permitsStranger(who access.Principal) bool {
	for _, p := range []access.Permission{access.PermPolicyActivate, access.PermJournalRead, access.PermApprovalDecide, access.PermAccessWrite} {
		if s.voting.access.Authorize(AccessRequest{Caller: access.Caller{Principal: who, Surface: access.SurfaceCLI}, Permission: p}).Allowed {
			return true
		}
	}
	return false
}
