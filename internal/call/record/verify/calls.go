// Package verify compares attestations with the events of their calls. Every reader of a
// journal uses it: the CLI for an export, for a gateway and for a state directory.
package verify

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"palyra/internal/call/decision"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/text"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
)

// Calls tracks the events of calls while an export is read, so that each attestation is
// compared with the events before it. It holds open items only: calls without an end, and
// unused approvals.
type Calls struct {
	// whole is true if the export begins at the first event: missing events then never existed.
	whole     bool
	open      map[string]*callFacts
	approvals map[string]*approvalFacts
	heads     heads
	// grantsErased is true once the users of grants cannot be determined any more.
	grantsErased bool
}

// callFacts is the state of one call from its events. A nil member was not read, or was erased.
type callFacts struct {
	session, run string
	proposed     *record.Proposed
	evaluated    *record.Evaluated
	// edited maps call digests to the edited versions.
	edited   map[string]editFacts
	verdicts []stage
	decided  *decision.Record
	gated    *record.Gated
	// seqs are the sequence numbers of the events. decidedWith and gatedWith are the approvals
	// that the decision and the ruling consumed.
	seqs                   map[event.Code]int64
	decidedWith, gatedWith *approvalFacts
	grants                 []grantFacts
	erased                 bool
}

// stage is a verdict with its position.
type stage struct {
	*record.Evaluated
	seq int64
}

// verdict returns the last verdict on the call with a digest, or the last one of all: an edited
// call has verdicts on each version.
func (c *callFacts) verdict(digest string) (*record.Evaluated, int64) {
	for i := len(c.verdicts) - 1; i >= 0; i-- {
		if v := c.verdicts[i]; v.CallDigest == digest {
			return v.Evaluated, v.seq
		}
	}
	return c.evaluated, c.seqs[event.Evaluated]
}

// editFacts is an edit with its position.
type editFacts struct {
	*record.Edited
	seq int64
}

type grantFacts struct {
	GrantID    string `json:"grant_id"`
	ProposalID string `json:"proposal_id"`
	CallDigest string `json:"call_digest"`
}

// approvalFacts is the state of one approval from its events.
type approvalFacts struct {
	seq int64
	// allowed and consumed are the call digests for which it was granted and consumed, "" until
	// then.
	allowed, consumed string
	lastVote          time.Time
	erased            bool
}

// New returns a tracker of the events after a sequence number; 0 means all events of a journal.
func New(after int64) *Calls {
	return &Calls{whole: after == 0, open: map[string]*callFacts{}, approvals: map[string]*approvalFacts{}}
}

// Note processes one event. Its error is about the event itself.
func (c *Calls) Note(e *journal.Event) error {
	defer c.heads.push(e.Seq, e.Hash)
	switch e.Code {
	case event.Proposed:
		return c.noteProposed(e)
	case event.Evaluated, event.Edited, event.Decided, event.Gated:
		if call := c.open[e.Subject]; call != nil {
			return c.noteStage(call, e)
		}
	case event.Refused, event.Ambiguous, event.Attested:
		delete(c.open, e.Subject)
	case event.Voted, event.Answered, event.Consumed, event.Expired, event.Cancelled, event.Revoked:
		return c.noteApproval(e)
	case event.GrantUsed:
		return c.noteGrant(e)
	}
	return nil
}

func unreadable(e *journal.Event, err error) error {
	return &journal.CorruptError{Seq: e.Seq, What: fmt.Sprintf("the %s event cannot be read: %v", e.Code.Words(), err)}
}

func (c *Calls) noteProposed(e *journal.Event) error {
	call := &callFacts{session: e.Session, run: e.Run, erased: e.Erased(), seqs: map[event.Code]int64{e.Code: e.Seq}}
	c.open[e.Subject] = call
	if e.Erased() {
		return nil
	}
	payload, err := record.Decode(e)
	p, ok := payload.(*record.Proposed)
	if err != nil || !ok {
		return unreadable(e, err)
	}
	call.proposed = p
	if why := c.heads.contradicts(call.proposed.Journal, e.Seq); why != "" {
		return &journal.CorruptError{Seq: e.Seq, What: "the proposal " + why}
	}
	return nil
}

func (c *Calls) noteStage(call *callFacts, e *journal.Event) error {
	if e.Erased() {
		call.erased = true
		return nil
	}
	if e.Code == event.Evaluated && call.decided != nil {
		return nil // evaluations after the decision are about the changes
	}
	payload, err := record.Decode(e)
	if err != nil {
		return unreadable(e, err)
	}
	if e.Code != event.Evaluated {
		call.seqs[e.Code] = e.Seq
	}
	switch p := payload.(type) {
	case *record.Evaluated:
		if p.Request.Injection == nil { // otherwise it is about a secret of the call
			call.evaluated, call.seqs[e.Code] = p, e.Seq
			call.verdicts = append(call.verdicts, stage{p, e.Seq})
		}
	case *record.Edited:
		if call.edited == nil {
			call.edited = make(map[string]editFacts)
		}
		call.edited[p.CallDigest] = editFacts{p, e.Seq}
	case *decision.Record:
		call.decided, call.decidedWith = p, c.use(p.ApprovalID, p.GrantID)
		if !p.Allowed {
			delete(c.open, e.Subject)
		}
	case *record.Gated:
		call.gated, call.gatedWith = p, c.use(p.ApprovalID, p.GrantID)
	}
	return nil
}

// use consumes an approval: it serves one decision.
func (c *Calls) use(approvalID, grantID string) *approvalFacts {
	a := c.approvals[approvalID]
	if a == nil || grantID != "" || a.consumed == "" && !a.erased {
		return nil
	}
	delete(c.approvals, approvalID)
	return a
}

func (c *Calls) noteApproval(e *journal.Event) error {
	a := c.approvals[e.Subject]
	if a == nil {
		a = &approvalFacts{}
		c.approvals[e.Subject] = a
	}
	if e.Erased() {
		a.erased = true
		return nil
	}
	var p struct {
		CallDigest string `json:"call_digest"`
		State      string `json:"state"`
		Vote       struct {
			At time.Time `json:"at"`
		} `json:"vote"`
	}
	if err := jsonv2.Unmarshal(e.Payload, &p); err != nil {
		return unreadable(e, err)
	}
	a.seq = e.Seq
	switch e.Code {
	case event.Voted:
		if p.Vote.At.After(a.lastVote) {
			a.lastVote = p.Vote.At
		}
	case event.Answered:
		if p.State == "allowed" {
			a.allowed = p.CallDigest
			return nil
		}
		delete(c.approvals, e.Subject)
	case event.Consumed:
		a.consumed = p.CallDigest
	default:
		delete(c.approvals, e.Subject)
	}
	return nil
}

func (c *Calls) noteGrant(e *journal.Event) error {
	if e.Erased() {
		c.grantsErased = true
		return nil
	}
	var g grantFacts
	if err := jsonv2.Unmarshal(e.Payload, &g); err != nil {
		return unreadable(e, err)
	}
	if call := c.open[g.ProposalID]; call != nil {
		call.grants = append(call.grants, g)
	}
	return nil
}

// contradiction compares statements with events until the first difference.
type contradiction struct {
	what string
}

func (d *contradiction) same(field, statement, recorded string, seq int64, code event.Code) {
	if d.what == "" && statement != recorded {
		d.what = fmt.Sprintf("its %s is %q, event %d (%s) says %q", field, statement, seq, code.Words(), recorded)
	}
}

func (d *contradiction) unless(ok bool, format string, args ...any) {
	if d.what == "" && !ok {
		d.what = fmt.Sprintf(format, args...)
	}
}

// Check compares a verified statement with the events before it and with its own event, and
// ends the call. It returns the first contradiction, and whether a comparison was possible: an
// export that begins later lacks the beginning of some calls.
func (c *Calls) Check(e *journal.Event, p attest.Predicate, a *record.Attested) (why string, compared bool) {
	call := c.open[e.Subject]
	delete(c.open, e.Subject)
	d := &contradiction{}
	d.same("invocation.decision_id", p.Invocation.DecisionID, a.DecisionID, e.Seq, e.Code)
	d.same("invocation.tool", p.Invocation.Tool, a.Tool, e.Seq, e.Code)
	d.report(p, a, e)
	switch {
	case call == nil && c.whole:
		d.unless(false, "no open call is proposed in an event before it")
	case call == nil:
		return d.what, false
	default:
		d.same("invocation.session", p.Invocation.Session, call.session, e.Seq, e.Code)
		d.same("invocation.run", p.Invocation.Run, call.run, e.Seq, e.Code)
		d.stages(c, call, p)
		d.head(c, call, p)
	}
	return d.what, true
}

// report compares the statement with the report in the same event.
func (d *contradiction) report(p attest.Predicate, a *record.Attested, e *journal.Event) {
	d.same("result.outcome", p.Result.Outcome, string(a.Report.Outcome), e.Seq, e.Code)
	d.same("result.reason", p.Result.Reason, a.Report.Reason, e.Seq, e.Code)
	d.same("result.exit_code", number(p.Result.ExitCode), number(a.Report.ExitCode), e.Seq, e.Code)
	kept := ""
	if p.Outputs.ResultBytes > 0 && !p.Outputs.ResultNotKept {
		kept = "sha256:" + p.ExecutionSHA256
	}
	d.same("execution_sha256", kept, a.ResultBlob, e.Seq, e.Code)
}

func number(n *int) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

// stages compares the statement with the journaled earlier stages.
func (d *contradiction) stages(c *Calls, call *callFacts, p attest.Predicate) {
	in := p.Invocation
	if f := call.proposed; f != nil {
		seq := call.seqs[event.Proposed]
		d.same("invocation.principal", in.Principal, f.Principal, seq, event.Proposed)
		d.same("invocation.on_behalf_of", in.OnBehalfOf, f.OnBehalfOf, seq, event.Proposed)
		d.same("invocation.tool", in.Tool, f.Tool, seq, event.Proposed)
		if edit, ok := call.edited[in.CallDigest]; ok {
			d.same("inputs.arguments_digest", p.Inputs.ArgumentsDigest, edit.ArgumentsDigest, edit.seq, event.Edited)
		} else {
			d.same("inputs.arguments_digest", p.Inputs.ArgumentsDigest, f.ArgumentsDigest, seq, event.Proposed)
		}
		if f.ToolDefinitionDigest != "" {
			d.same("invocation.tool_definition_digest", in.ToolDefinitionDigest, f.ToolDefinitionDigest, seq, event.Proposed)
		}
	}
	if f, seq := call.verdict(in.CallDigest); f != nil {
		d.same("invocation.call_digest", in.CallDigest, f.CallDigest, seq, event.Evaluated)
		d.same("policy.snapshot_digest", p.Policy.SnapshotDigest, f.Verdict.SnapshotDigest, seq, event.Evaluated)
		d.same("policy.version", p.Policy.Version, f.Verdict.PolicyVersion, seq, event.Evaluated)
	}
	d.unless(call.evaluated != nil || call.erased, "no event before it says that policy was asked about the call")
	d.unless(call.decided != nil || call.erased, "no event before it says that the call was decided")
	if call.decided != nil {
		d.decided(c, call, p)
	}
	d.gated(c, call, p)
}

func (d *contradiction) decided(c *Calls, call *callFacts, p attest.Predicate) {
	f, in, seq, used := call.decided, p.Invocation, call.seqs[event.Decided], call.decidedWith
	d.same("invocation.decision_id", in.DecisionID, f.ID, seq, event.Decided)
	d.same("invocation.call_digest", in.CallDigest, f.CallDigest, seq, event.Decided)
	d.same("invocation.approval_id", in.ApprovalID, f.ApprovalID, seq, event.Decided)
	d.same("invocation.grant_id", in.GrantID, f.GrantID, seq, event.Decided)
	d.same("policy.snapshot_digest", p.Policy.SnapshotDigest, f.SnapshotDigest, seq, event.Decided)
	d.same("policy.version", p.Policy.Version, f.PolicyVersion, seq, event.Decided)
	d.same("times.decided_at", instant(p.Times.DecidedAt), instant(f.At), seq, event.Decided)
	ids := make([]string, len(f.Determining))
	for i, one := range f.Determining {
		ids[i] = one.ID
	}
	d.unless(slices.Equal(p.Policy.Determining, ids), "its policy.determining is %q, event %d (decided) says %q", p.Policy.Determining, seq, ids)
	d.answer(c, call, "invocation", in.ApprovalID, in.GrantID, in.CallDigest, used)
	if used != nil && in.GrantID == "" && !used.lastVote.IsZero() && !used.erased {
		d.same("times.approved_at", instant(p.Times.ApprovedAt), instant(used.lastVote), used.seq, event.Voted)
	}
}

// answer verifies that the approval or grant was used for exactly this digest.
func (d *contradiction) answer(c *Calls, call *callFacts, of, approvalID, grantID, digest string, used *approvalFacts) {
	switch {
	case grantID != "":
		i := slices.IndexFunc(call.grants, func(g grantFacts) bool { return g.GrantID == grantID && g.CallDigest == digest })
		d.unless(i >= 0 || c.grantsErased, "its %s.grant_id is %q, and no event says that the grant was used for the call", of, grantID)
	case approvalID == "":
	case used == nil:
		d.unless(!c.whole, "its %s.approval_id is %q, and no event says that the approval was used for the call", of, approvalID)
	case used.erased:
	default:
		d.same(of+".call_digest", digest, used.consumed, used.seq, event.Consumed)
		d.unless(used.allowed == used.consumed || !c.whole && used.allowed == "", "its %s.approval_id is %q, which was answered for the call %s and used for %s", of, approvalID, used.allowed, used.consumed)
	}
}

// gated compares the outcome of the changes with the ruling on them.
func (d *contradiction) gated(c *Calls, call *callFacts, p attest.Predicate) {
	f, seq := call.gated, call.seqs[event.Gated]
	if p.Changes == nil {
		return
	}
	committed := p.Changes.State == "committed"
	if f == nil {
		d.unless(!committed || call.erased, "its changes.state is \"committed\", and no event before it lets the changes through")
		return
	}
	d.unless(f.Allowed || !committed, "its changes.state is \"committed\", event %d (%s) refuses the changes", seq, event.Gated.Words())
	d.same("changes.workspace", p.Changes.Workspace, f.Facts.Workspace, seq, event.Gated)
	d.same("changes.root_sha256", p.Changes.RootSHA256, strings.TrimPrefix(f.Facts.Root, "sha256:"), seq, event.Gated)
	if committed {
		d.same("changes.approval_id", p.Changes.ApprovalID, f.ApprovalID, seq, event.Gated)
		d.same("changes.grant_id", p.Changes.GrantID, f.GrantID, seq, event.Gated)
		d.answer(c, call, "changes", f.ApprovalID, f.GrantID, f.CallDigest, call.gatedWith)
	}
}

// head compares the journal position that the statement names. Statements and events of older
// gateways have none.
func (d *contradiction) head(c *Calls, call *callFacts, p attest.Predicate) {
	if p.Journal == nil || call.proposed == nil || d.what != "" {
		return
	}
	if j := call.proposed.Journal; j != nil {
		d.unless(*j == *p.Journal, "its journal is of size %d with the head %s, event %d (%s) says %d and %s",
			p.Journal.Size, p.Journal.HeadSHA256, call.seqs[event.Proposed], event.Proposed.Words(), j.Size, j.HeadSHA256)
		return
	}
	if why := c.heads.contradicts(p.Journal, call.seqs[event.Proposed]); why != "" {
		d.what = "it " + why
	}
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// mostHeads is the number of stored event hashes, 32 MiB. A call is proposed within seconds of
// the head that it states.
const mostHeads = 1 << 20

// heads stores the hashes of the newest events.
type heads struct {
	first, last int64
	hashes      [][32]byte
}

// push adds the next event; its index is its number modulo the capacity.
func (h *heads) push(seq int64, hash [32]byte) {
	if h.first == 0 {
		h.first = seq
	}
	if i := seq - h.first; i < mostHeads {
		h.hashes = append(h.hashes, hash)
	} else {
		h.hashes[i%mostHeads] = hash
	}
	h.last = seq
}

// at returns the hash of an event if it is stored.
func (h *heads) at(seq int64) (hash [32]byte, kept bool) {
	if h.first == 0 || seq < h.first || seq > h.last || seq <= h.last-mostHeads {
		return hash, false
	}
	return h.hashes[(seq-h.first)%mostHeads], true
}

// contradicts returns the reason why a call with this proposal event cannot name this journal
// head, or "".
func (h *heads) contradicts(j *attest.Journal, proposed int64) string {
	switch {
	case j == nil:
		return ""
	case j.Size >= proposed:
		return fmt.Sprintf("says that the journal had %s when the call was proposed, which is event %d", text.Plural(j.Size, "event"), proposed)
	case j.Size == 0 && j.HeadSHA256 != strings.Repeat("0", 64):
		return fmt.Sprintf("says that the empty journal had the head %s", j.HeadSHA256)
	}
	hash, kept := h.at(j.Size)
	if kept && hex.EncodeToString(hash[:]) != j.HeadSHA256 {
		return fmt.Sprintf("says that event %d had the hash %s, it has %x", j.Size, j.HeadSHA256, hash)
	}
	return ""
}
