package runs

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/witness"
	"palyra/internal/core/canonical"
)

//go:embed report.css
var reportCSS string

// reportView is the content of the page. All of it may come from a model.
type reportView struct {
	// StyleHash is the hash of the page's own style, the only active resource that is allowed.
	StyleHash string

	Run, At, Gateway, Task, Answer string
	Wrong, Missing, Commands       []string
	Fields, End                    []field
	Calls                          []callView
}

type callView struct {
	Number             int
	Tool, Input        string
	Steps              []stepView
	Decision, Evidence []field
	Approvals          []approvalView
}

type stepView struct{ At, What, ID, More string }

type approvalView struct {
	ID, Arguments string
	Fields        []field
	Votes         []voteView
}

type voteView struct{ Answer, By, On, At, Digest, Reason string }

// reportPage returns the report as an HTML page. Invisible characters are escaped everywhere, so
// that a model's text cannot affect the rest.
func (a *app) reportPage(r *runReport) string {
	sum := sha256.Sum256([]byte(reportCSS))
	run := r.run
	v := reportView{
		StyleHash: "sha256-" + base64.StdEncoding.EncodeToString(sum[:]),
		Run:       run.GetRunId(), At: a.Now().UTC().Format(time.RFC3339), Task: strings.TrimSpace(run.GetMessage()), Answer: r.story.text,
		Wrong: r.wrong, Missing: r.missing, Commands: r.commands(), End: placeFields(r.end), Gateway: "that it was asked of",
	}
	if r.end != nil {
		v.Gateway = r.end.Gateway
	}
	v.Fields = nonEmpty(
		field{"state", printer.Enum(run.GetState())}, field{"reason", run.GetReason()}, field{"because", run.GetDetail()}, field{"cancelled by", run.GetCancelledBy()},
		field{"for", printer.OnBehalf(run.GetPrincipal(), run.GetOnBehalfOf())}, field{"model", run.GetModel()}, field{"workspace", run.GetWorkspace()},
		field{"session", run.GetSession()}, field{"started", printer.Clock(run.GetStartedAt())}, field{"ended", printer.Clock(run.GetEndedAt())},
		field{"used", runUsed(run)}, field{"at most", runAllowed(run.GetBudget())},
	)
	for i, call := range r.story.calls {
		v.Calls = append(v.Calls, viewOf(i+1, call, r.calls[call]))
	}
	return printer.VisibleText(v.html())
}

func viewOf(number int, call *callStory, c *callEvidence) callView {
	v := callView{Number: number, Tool: call.tool, Input: input(call.input)}
	for _, s := range call.steps {
		v.Steps = append(v.Steps, stepView{printer.Clock(s.at), s.what, strings.TrimSpace(s.kind + " " + s.id), strings.Trim(s.reason+", "+s.detail, ", ")})
	}
	if c == nil {
		return v
	}
	if d := c.decision; d != nil {
		word := "denied"
		if d.GetAllowed() {
			word = "allowed"
		}
		v.Decision = nonEmpty(
			field{"decision", d.GetDecisionId()}, field{"verdict", word}, field{"reason", withCode(d.GetMessage(), d.GetReason())},
			field{"policies", strings.Join(policies(d), "\n")}, field{"policy version", d.GetPolicyVersion()}, field{"policy snapshot", d.GetSnapshotDigest()},
			field{"call digest", d.GetCallDigest()}, field{"grant", strings.TrimSpace(d.GetGrantId() + " " + d.GetGrantCovers())},
		)
	}
	for _, w := range c.approvals {
		v.Approvals = append(v.Approvals, approvalViewOf(w))
	}
	v.Evidence = c.fields()
	return v
}

func approvalViewOf(w *palyrav1.Approval) approvalView {
	v := approvalView{ID: w.GetApprovalId(), Arguments: input(w.GetPrompt().GetArgumentsJson()), Fields: nonEmpty(
		field{"state", printer.Enum(w.GetState())}, field{"severity", w.GetSeverity()}, field{"asked", w.GetPrompt().GetSummary()},
		field{"for", printer.OnBehalf(w.GetRequestedBy(), w.GetOnBehalfOf())}, field{"created", printer.Clock(w.GetCreatedAt())}, field{"answered", printer.Clock(w.GetAnsweredAt())},
		field{"call digest", w.GetCallDigest()}, field{"grant", w.GetGrantId()},
	)}
	for _, e := range w.GetEdits() {
		v.Fields = append(v.Fields, field{"edited", fmt.Sprintf("by %s at %s: %s is now %s. %s", e.GetUser(), printer.Clock(e.GetAt()), e.GetWasDigest(), e.GetIsDigest(), e.GetReason())})
	}
	for _, vote := range w.GetVotes() {
		answer, on := "no", vote.GetSurface()
		if vote.GetAllow() {
			answer = "yes, " + printer.Enum(vote.GetScope())
		}
		if vote.GetPresent() {
			on += ", present"
		}
		v.Votes = append(v.Votes, voteView{answer, vote.GetUser(), on, printer.Clock(vote.GetAt()), vote.GetShownDigest(), vote.GetReason()})
	}
	return v
}

// fields returns the data of a call's attestation and journal position.
func (c *callEvidence) fields() []field {
	var list []field
	if at := c.attestation; at != nil {
		word := "not verified"
		if c.verified != nil {
			word = "verified, signed by " + c.verified.KeyID
		}
		list = append(list, field{"attestation", fmt.Sprintf("%s, %s", at.GetAttestationId(), word)}, field{"envelope", canonical.Digest(at.GetEnvelopeJson())})
		for _, d := range digests(c) {
			list = append(list, field{"digest of " + d.Name, d.Text})
		}
	}
	return append(list, placeFields(c.inclusion)...)
}

func placeFields(in *witness.Inclusion) []field {
	if in == nil {
		return nil
	}
	return []field{
		{"journal", fmt.Sprintf("event %d (%s) is in the signed journal, verified", in.Seq, in.Code)}, {"event hash", in.Hash},
		{"checkpoint", fmt.Sprintf("over %d events, root %s", in.Size, in.Root)}, {"signed by", in.Key},
	}
}

// nonEmpty returns the non-empty fields.
func nonEmpty(list ...field) []field {
	return slices.DeleteFunc(list, func(f field) bool { return f.Text == "" })
}
