package authzen

import (
	"context"
	"net/http"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// decided is an access evaluation response (AuthZEN 1.0, section 6.2).
type decided struct {
	Decision bool           `json:"decision"`
	Context  map[string]any `json:"context,omitempty"`
}

// no is the uniform answer for a member that the caller may not ask about, an unknown member, and a
// call that the member can never make.
func no() decided {
	return decided{Context: map[string]any{"reason": string(reason.PermissionDenied)}}
}

// evaluation serves a single evaluation.
func (s *Service) evaluation(w http.ResponseWriter, r *http.Request) {
	echo(w, r)
	var e evaluation
	if _, err := read(r, &e); err != nil {
		s.Refuse(w, r, evaluationRoute, err)
		return
	}
	s.one(w, r, evaluationRoute, e)
}

// one answers a request that has one evaluation.
func (s *Service) one(w http.ResponseWriter, r *http.Request, route string, e evaluation) {
	err := e.check()
	var d decided
	if err == nil {
		d, err = s.evaluate(r, e)
	}
	if err != nil {
		s.Refuse(w, r, route, err)
		return
	}
	answer(w, http.StatusOK, d)
}

// The semantics of several evaluations (section 7.1.2.1).
const (
	executeAll         = "execute_all"
	denyOnFirstDeny    = "deny_on_first_deny"
	permitOnFirstAllow = "permit_on_first_permit"
)

// evaluations serves several evaluations at once; each counts as a request.
func (s *Service) evaluations(w http.ResponseWriter, r *http.Request) {
	echo(w, r)
	var b batch
	_, err := read(r, &b)
	if err == nil && len(b.Evaluations) == 0 { // section 7.1: treated as a single evaluation
		s.one(w, r, evaluationsRoute, b.evaluation)
		return
	}
	if err == nil {
		err = s.admit(r.Context(), &b)
	}
	if err != nil {
		s.Refuse(w, r, evaluationsRoute, err)
		return
	}
	list := make([]decided, 0, len(b.Evaluations))
	for _, e := range b.Evaluations {
		d, err := s.evaluate(r, e)
		if err != nil {
			s.Refuse(w, r, evaluationsRoute, err)
			return
		}
		list = append(list, d)
		if b.Options.Semantic == denyOnFirstDeny && !d.Decision || b.Options.Semantic == permitOnFirstAllow && d.Decision {
			break
		}
	}
	answer(w, http.StatusOK, map[string]any{"evaluations": list})
}

// admit checks a batch and counts it before any evaluation, so that a batch over the limit consumes
// no approvals.
func (s *Service) admit(ctx context.Context, b *batch) error {
	switch b.Options.Semantic {
	case "", executeAll, denyOnFirstDeny, permitOnFirstAllow:
	default:
		return invalid("evaluations_semantic is not supported")
	}
	if len(b.Evaluations) > maxAtOnce {
		return reason.Errorf(reason.InputTooLarge, "%d evaluations at once are too many; the limit is %d", len(b.Evaluations), maxAtOnce)
	}
	for i := range b.Evaluations {
		b.Evaluations[i] = b.Evaluations[i].or(b.evaluation)
		if err := b.Evaluations[i].check(); err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		if err := s.Count(ctx); err != nil {
			return err
		}
	}
	return nil
}

// evaluate answers one evaluation. An error means that the evaluation has no answer.
func (s *Service) evaluate(r *http.Request, e evaluation) (decided, error) {
	ctx, by := r.Context(), s.Caller(r.Context())
	submission, ok := s.submission(by, e)
	if !ok {
		return no(), s.noteNo(ctx, by, e, reason.PermissionDenied)
	}
	id, refers := e.approvalID()
	t := s.Tasks.approved(by, id)
	var held approval.Answer
	if t != nil && t.covers(e) {
		held = t.given()
	}
	out, err := s.Pipeline.MayElsewhere(ctx, submission, held, s.note(by, submission))
	if err != nil {
		if known := wrongCall(err); known != nil {
			return decided{Context: map[string]any{"reason": string(known.Code), "message": known.Message}}, s.noteNo(ctx, by, e, known.Code)
		}
		return decided{}, err
	}
	d := decided{Decision: out.Allowed}
	if out.Allowed {
		if out.ApprovalID != "" && t != nil {
			d.Context = map[string]any{"approval": t.result()["approval"]}
		}
		return d, nil
	}
	d.Context = map[string]any{"reason": string(why(out)), "evaluated_at": s.Now().UTC().Format(time.RFC3339)}
	requestable := out.Verdict.Effect() == policy.Ask && len(out.Plan.Injections) == 0
	if requestable {
		if err := s.offer(r, by, e, d.Context); err != nil {
			return decided{}, err
		}
	}
	if refers {
		d.Context["reason"], d.Context["next_action"] = again(t, e, out)
		if !requestable {
			d.Context["next_action"] = "none"
		}
	}
	return d, nil
}

// submission returns the call of an evaluation, and false if the uniform denial applies.
func (s *Service) submission(by access.Caller, e evaluation) (call.Submission, bool) {
	p, named := e.principal()
	tool, known := e.tool()
	c, listed := s.subject(by, p)
	if !named || !known || !listed || !s.callable(c, tool) {
		return call.Submission{}, false
	}
	submission, err := e.submission(c, tool)
	if by.Principal != c.Principal {
		submission.Asker = by
	}
	return submission, err == nil
}

// why returns the code of a denial.
func why(out call.Elsewhere) reason.Code {
	switch {
	case out.Lost != nil:
		return out.Lost.Code
	case out.Verdict.Effect() == policy.Ask:
		return "approval_required"
	case out.Verdict.Reason() != "":
		return out.Verdict.Reason()
	}
	return reason.PolicyDenied
}

// again returns why a re-evaluation with an approval was denied, and the next step (draft profile,
// Approval and Re-evaluation).
func again(t *task, e evaluation, out call.Elsewhere) (why, next string) {
	switch {
	case t == nil:
		return "approval_unverifiable", "none"
	case out.Verdict.Effect() == policy.Deny:
		return "policy_denied", "none"
	case out.Lost != nil:
		return "approval_expired", "request"
	case !t.covers(e):
		return "out_of_scope", "request"
	case !t.given().Allowed():
		return "approval_unverifiable", "none"
	}
	return "out_of_scope", "request"
}

// wrongCall returns the error if it means that the call is invalid. It returns nil if the
// gateway could not decide the call.
func wrongCall(err error) *reason.Error {
	switch known := reason.Known(err, reason.Internal); known.Code {
	case reason.Internal, reason.JournalUnavailable, reason.ShuttingDown, reason.Cancelled, reason.PolicyError, reason.RateLimited, reason.VaultLocked:
		return nil
	default:
		return known
	}
}

// note builds the event of an answer.
func (s *Service) note(by access.Caller, c call.Submission) call.Note {
	return func(out call.Elsewhere) (event.Draft, error) {
		payload := evaluated{
			Caller: by.Principal.String(), Member: c.Caller.Principal.String(), Tool: c.Tool, CallDigest: out.CallDigest, Allowed: out.Allowed,
			ApprovalID: out.ApprovalID, GrantID: out.GrantID,
		}
		if !out.Allowed {
			payload.Reason = out.Verdict.Reason()
		}
		d, err := event.DraftOf(event.EvaluatedFor, by.Principal.String(), c.Caller.Principal.String(), payload)
		if err != nil {
			return d, err
		}
		return d.By(by.DeviceID)
	}
}

// noteNo journals an evaluation that did not result in a call. Its subject is the caller's claim.
func (s *Service) noteNo(ctx context.Context, by access.Caller, e evaluation, why reason.Code) error {
	member := "unknown"
	if p, named := e.principal(); named {
		member = p.String()
	}
	return s.Journal.Record(ctx, event.EvaluatedFor, by.Principal.String(), member, evaluated{
		Caller: by.Principal.String(), Member: member, Tool: text.Ellipsis(e.Resource.text("id"), maxText), Reason: why,
	})
}
