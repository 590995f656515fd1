package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/record"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/witness"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/evidence/attest"
)

const formatHTML = "html"

// Prover proves that an event is in the signed journal.
type Prover func(ctx context.Context, g *client.Gateway, seq int64) (witness.Inclusion, error)

func (a *app) runsReport(prove Prover) *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "report ID",
		Short: "Write a report of one run to read and print, with what verifies it",
		Long: "Write a report of one run: its calls with their arguments, the decisions with\n" +
			"their policies, the approvals with their votes, and the attestations and the places\n" +
			"in the journal, which are verified before. It is one HTML page with no script that\n" +
			"asks for nothing; -o json writes the same for programs. What you may not read is\n" +
			"named in it. Exits 8 if verification fails; the report has the details.",
		Example:           "palyra runs report 01J... --out run.html\npalyra runs report 01J... -o json",
		Args:              command.Args(1, 1),
		ValidArgsFunction: a.completeRuns(false),
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if a.Output != "" && a.Output != formatHTML && a.Output != printer.FormatJSON {
				return command.Usage("-o %q: a report is html or json", a.Output)
			}
			return nil
		},
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			return a.report(ctx, g, prove, given[0], out)
		}),
	}
	c.Flags().StringVar(&out, "out", "", "a file to write to, which must not exist yet")
	return c
}

// runReport is the evidence of one run.
type runReport struct {
	run   *palyrav1.Run
	story *runStory
	calls map[*callStory]*callEvidence
	// lastSeq is the journal's number of the last event of the run.
	lastSeq int64
	// end is the proven position of that event; nil if it was not proven.
	end *witness.Inclusion
	// missing lists unavailable data, wrong lists data that failed verification.
	missing, wrong []string
}

// callEvidence is the evidence of one call in addition to its steps.
type callEvidence struct {
	decision    *palyrav1.ToolDecision
	approvalIDs []string
	approvals   []*palyrav1.Approval
	attestation *palyrav1.ToolAttestation
	// verified is the verified attestation, nil if verification failed.
	verified *attest.Verified
	// seq is the journal's number of the attestation, else of the call's last event.
	seq       int64
	inclusion *witness.Inclusion
}

// eventsPerSeq is the number of tape positions of one journal event.
const eventsPerSeq = 1 << 20

func (r *runReport) add(e *palyrav1.RunEvent) {
	r.story.add(e)
	r.lastSeq = max(r.lastSeq, e.GetSequence()/eventsPerSeq)
	if _, ok := stepOf(e); !ok {
		return
	}
	call := r.story.of(e)
	c := r.calls[call]
	if c == nil {
		c = &callEvidence{}
		r.calls[call] = c
	}
	if c.attestation == nil {
		c.seq = max(c.seq, e.GetSequence()/eventsPerSeq)
	}
	switch m := e.GetEvent().(type) {
	case *palyrav1.RunEvent_ApprovalRequested:
		c.approvalIDs = append(c.approvalIDs, m.ApprovalRequested.GetApproval().GetApprovalId())
	case *palyrav1.RunEvent_Decision:
		c.decision = m.Decision
		if id := m.Decision.GetApprovalId(); id != "" && !slices.Contains(c.approvalIDs, id) {
			c.approvalIDs = append(c.approvalIDs, id)
		}
	case *palyrav1.RunEvent_Attestation:
		c.attestation, c.seq = m.Attestation, m.Attestation.GetJournalSeq()
	}
}

func (a *app) report(ctx context.Context, g *client.Gateway, prove Prover, id, out string) error {
	id, err := findRun(ctx, g, id)
	if err != nil {
		return err
	}
	reply, err := g.Calls.GetRun(ctx, &palyrav1.GetRunRequest{RunId: id})
	if err != nil {
		return err
	}
	r := &runReport{run: reply.GetRun(), story: &runStory{known: map[string]*callStory{}}, calls: map[*callStory]*callEvidence{}}
	if err := readTape(ctx, g, id, reply.GetLastSequence(), r.add); err != nil {
		return err
	}
	if err := r.gather(ctx, g, prove); err != nil {
		return err
	}
	if err := a.writeReport(r, out); err != nil {
		return err
	}
	if len(r.wrong) > 0 {
		return reason.Errorf(reason.VerificationFailed, "%s of the report did not verify: %s", text.Plural(len(r.wrong), "part"), r.wrong[0])
	}
	return nil
}

// gather fetches and verifies the data that the tape does not contain.
func (r *runReport) gather(ctx context.Context, g *client.Gateway, prove Prover) error {
	set, err := witness.KeySet(ctx, g)
	if err := r.gap("the keys of attestations", err); err != nil {
		return err
	}
	keys := err == nil
	for i, call := range r.story.calls {
		c, name := r.calls[call], fmt.Sprintf("of call %d", i+1)
		if c == nil {
			continue
		}
		for _, id := range c.approvalIDs {
			reply, err := g.Approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: id})
			if err := r.gap("approval "+id+" "+name, err); err != nil {
				return err
			}
			if err == nil {
				c.approvals = append(c.approvals, reply.GetApproval())
			}
		}
		if c.attestation != nil && keys {
			v, err := attest.Verify(c.attestation.GetEnvelopeJson(), set)
			if err != nil {
				r.wrong = append(r.wrong, fmt.Sprintf("attestation %s %s: %v", c.attestation.GetAttestationId(), name, err))
			} else {
				c.verified = &v
			}
		}
		if c.inclusion, err = r.proven(ctx, g, prove, c.seq, name); err != nil {
			return err
		}
		if c.attestation != nil && c.inclusion != nil && !holds(c.inclusion, c.attestation.GetEnvelopeJson()) {
			r.wrong = append(r.wrong, fmt.Sprintf("event %d of the journal, which is not the attestation %s", c.seq, name))
			c.inclusion = nil
		}
	}
	r.end, err = r.proven(ctx, g, prove, r.lastSeq, "of the run's last event")
	return err
}

// holds reports whether an event contains an attestation.
func holds(in *witness.Inclusion, envelope []byte) bool {
	payload, err := record.Decode(&in.Event)
	attested, ok := payload.(*record.Attested)
	return err == nil && ok && "sha256:"+attested.Signed().SHA256 == canonical.Digest(envelope)
}

// proven returns the proven position of an event in the journal, nil if it is unknown.
func (r *runReport) proven(ctx context.Context, g *client.Gateway, prove Prover, seq int64, name string) (*witness.Inclusion, error) {
	if seq < 1 {
		return nil, nil
	}
	in, err := prove(ctx, g, seq)
	if reason.Of(err) == reason.VerificationFailed {
		r.wrong = append(r.wrong, fmt.Sprintf("the place in the journal %s: %v", name, err))
		return nil, nil
	}
	if gap := r.gap("the place in the journal "+name, err); gap != nil || err != nil {
		return nil, gap
	}
	return &in, nil
}

// gap records data that the caller may not read or that no longer exists. Any other error fails
// the report, so that a temporary failure does not look like missing data.
func (r *runReport) gap(what string, err error) error {
	if err == nil {
		return nil
	}
	told := client.Explain(nil, err)
	switch told.Code {
	case reason.PolicyDenied, reason.NotFound, reason.PermissionDenied:
		r.missing = append(r.missing, what+": "+told.Error())
		return nil
	}
	return err
}

func (a *app) writeReport(r *runReport, path string) (err error) {
	if path != "" && path != "-" {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return command.Usage("making the report's file: %w", err).WithRemedy("Name a file that does not exist yet.")
		}
		a.Out = f
		defer func() {
			if closeErr := f.Close(); err == nil {
				err = closeErr
			}
		}()
	}
	if a.Output == printer.FormatJSON {
		return a.PrintJSON(printer.Document("RunReport", a.reportObject(r)))
	}
	return a.WriteOut(a.reportPage(r))
}

// reportObject returns the machine-readable report: the run as in `palyra runs show`, with the
// evidence of each call.
func (a *app) reportObject(r *runReport) printer.Object {
	calls := r.story.objects()
	for i, call := range r.story.calls {
		o, ok := calls[i].(printer.Object)
		c := r.calls[call]
		if !ok || c == nil {
			continue
		}
		if c.decision != nil {
			o = append(o, printer.Member{"decision", printer.ProtoObject(c.decision)})
		}
		approvals := make([]any, len(c.approvals))
		for n, v := range c.approvals {
			approvals[n] = printer.ProtoObject(v)
		}
		o = append(o, printer.Member{"approvals", approvals})
		if c.attestation != nil {
			o = append(o, printer.Member{"attestation", printer.Object{
				{"attestation_id", c.attestation.GetAttestationId()}, {"journal_seq", c.attestation.GetJournalSeq()},
				{"envelope_digest", canonical.Digest(c.attestation.GetEnvelopeJson())}, {"verified", c.verified != nil}, {"digests", digestMembers(c)},
			}})
		}
		calls[i] = append(o, printer.Member{"inclusion", c.inclusion})
	}
	return printer.Object{
		{"run", printer.ProtoObject(r.run)}, {"calls", calls}, {"text", r.story.text}, {"journal_end", r.end},
		{"missing", append([]string{}, r.missing...)}, {"not_verified", append([]string{}, r.wrong...)}, {"verify", r.commands()},
	}
}

func digestMembers(c *callEvidence) printer.Object {
	o := printer.Object{}
	for _, f := range digests(c) {
		o = append(o, printer.Member{f.Name, f.Text})
	}
	return o
}

// field is a name with a text.
type field struct{ Name, Text string }

// digests returns the digests in a verified attestation.
func digests(c *callEvidence) []field {
	if c.verified == nil {
		return nil
	}
	x := c.verified.Predicate
	return []field{
		{"call", x.Invocation.CallDigest}, {"arguments", x.Inputs.ArgumentsDigest}, {"tool definition", x.Invocation.ToolDefinitionDigest},
		{"policy snapshot", x.Policy.SnapshotDigest}, {"result", "sha256:" + x.ExecutionSHA256},
	}
}

// commands returns the commands that verify the report.
func (r *runReport) commands() []string {
	list := []string{"palyra attest keys -o json > keys.json", "palyra journal export journal.ndjson", "palyra journal verify journal.ndjson --keys keys.json"}
	for _, call := range r.story.calls {
		c := r.calls[call]
		if c == nil {
			continue
		}
		if id := c.attestation.GetAttestationId(); typed(id) {
			list = append(list, fmt.Sprintf("palyra attest show %s --envelope > %s.json && palyra attest verify %s.json --keys keys.json", id, id, id))
		}
		if c.seq > 0 {
			list = append(list, fmt.Sprintf("palyra journal prove %d", c.seq))
		}
	}
	if r.lastSeq > 0 {
		list = append(list, fmt.Sprintf("palyra journal prove %d", r.lastSeq))
	}
	return slices.Compact(list)
}

// typed reports whether an id may be part of a printed command: a malicious gateway must not inject
// one.
func typed(id string) bool {
	for _, r := range id {
		if (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return false
		}
	}
	return id != ""
}

// input returns the complete arguments of a call, as indented JSON if possible.
func input(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// policies lists the determining policies.
func policies(d *palyrav1.ToolDecision) []string {
	return ask.DeterminingLines(d.GetDetermining())
}
