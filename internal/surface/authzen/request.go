package authzen

import (
	"net/http"
	"strings"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// submitted is an access request (draft profile, Access Request Submission).
type submitted struct {
	evaluation
	Denial struct {
		ExpiresAt    string `json:"expires_at"`
		BindingToken string `json:"binding_token"`
	} `json:"denial"`
}

// problem is an error of the draft profile (RFC 9457).
type problem struct {
	kind   string
	status int
	detail string
}

func (p *problem) Error() string { return p.detail }

func notRequestable(detail string) *problem {
	return &problem{"not_requestable", http.StatusBadRequest, detail}
}

func unbound(detail string) *problem {
	return &problem{"invalid_denial_binding", http.StatusBadRequest, detail}
}

var (
	errExpired = &problem{"expired_denial", http.StatusGone, "the denial has expired; evaluate again"}
	errNoTask  = &problem{"unknown_task", http.StatusNotFound, "the task does not exist"}
	errEnded   = &problem{"invalid_task_state", http.StatusConflict, "the task has ended"}
	errOther   = &problem{"duplicate_request", http.StatusConflict, "the Idempotency-Key was used for another request"}
)

// refuse writes a problem, or any other error.
func (s *Service) refuse(w http.ResponseWriter, r *http.Request, route string, err error) {
	p, ok := err.(*problem) //nolint:errorlint // it is never wrapped
	if !ok {
		s.Refuse(w, r, route, err)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	answer(w, p.status, map[string]any{
		"type": "urn:openid:authzen:access-request:error:" + p.kind, "title": strings.ReplaceAll(p.kind, "_", " "), "status": p.status, "detail": p.detail,
	})
}

// request requests approval of a call that was denied for lack of one.
func (s *Service) request(w http.ResponseWriter, r *http.Request) {
	echo(w, r)
	t, created, err := s.submit(r)
	if err != nil {
		s.refuse(w, r, requestsRoute, err)
		return
	}
	if created {
		w.Header().Set("Location", s.at(r, t))
	}
	s.show(w, r, t, http.StatusAccepted, http.StatusCreated)
}

func (s *Service) submit(r *http.Request) (t *task, created bool, err error) {
	var q submitted
	body, err := read(r, &q)
	if err == nil {
		err = q.check()
	}
	if err != nil {
		return nil, false, err
	}
	ctx, by := r.Context(), s.Caller(r.Context())
	key := r.Header.Get("Idempotency-Key")
	if len(key) > 256 {
		return nil, false, invalid("the Idempotency-Key is longer than 256 bytes")
	}
	digest := canonical.Digest(body)
	if t, err := s.Tasks.repeated(by, key, digest); t != nil || err != nil {
		return t, false, err
	}
	b, err := s.verify(by, q)
	if err != nil {
		return nil, false, err
	}
	submission, ok := s.submission(by, q.evaluation)
	if !ok {
		return nil, false, notRequestable("this denial cannot be resolved by an approval")
	}
	t = &task{
		by: by.Principal, key: key, digest: digest, binding: b, submission: submission,
		description: text.Ellipsis(by.Principal.String(), maxText) + " requests this call and runs it outside this gateway: not in its sandbox, and without its attestation.",
	}
	if err := s.Tasks.start(ctx, t); err != nil {
		return nil, false, err
	}
	err = s.Journal.Record(ctx, event.AskedFor, by.Principal.String(), t.approval(), askedFor{
		Caller: by.Principal.String(), Member: submission.Caller.Principal.String(), Tool: submission.Tool, ApprovalID: t.approval(), Binding: b.Hash,
	})
	if err != nil {
		t.stop(reason.Errorf(reason.Cancelled, "journaling the request failed"))
		return nil, false, err
	}
	return t, true, nil
}

// verify checks that a request refers to a recent denial by this gateway to this caller (draft
// profile, Verifying the Denial Binding).
func (s *Service) verify(by access.Caller, q submitted) (bound, error) {
	if q.Denial.BindingToken == "" {
		return bound{}, unbound("denial.binding_token is required")
	}
	b, err := s.signer.open(q.Denial.BindingToken)
	if err != nil {
		return b, unbound("denial.binding_token was not signed by this gateway since its start; evaluate again")
	}
	hash, err := bindingHash(q.evaluation, relevant)
	switch {
	case err != nil:
		return b, err
	case hash != b.Hash:
		return b, unbound("the request does not match the denial")
	case q.Denial.ExpiresAt != b.DenialExpires:
		return b, unbound("denial.expires_at does not match the denial")
	case b.Caller != by.Principal:
		return b, unbound("the denial was for another caller")
	case s.Now().Unix() >= b.Expires:
		return b, errExpired
	case s.Tasks.seen(b.ID):
		return b, unbound("this denial was already used for a request; evaluate again")
	}
	return b, nil
}

// at returns the URL of a task.
func (s *Service) at(r *http.Request, t *task) string {
	return s.Origin(r) + "/access/v1/requests/" + t.id
}

// status serves the state of a task to its creator.
func (s *Service) status(w http.ResponseWriter, r *http.Request) {
	echo(w, r)
	t, err := s.mine(r)
	if err != nil {
		s.refuse(w, r, requestRoute, err)
		return
	}
	s.show(w, r, t, http.StatusOK, http.StatusOK)
}

// cancel cancels a request.
func (s *Service) cancel(w http.ResponseWriter, r *http.Request) {
	echo(w, r)
	t, err := s.mine(r)
	if err == nil && t.ended() {
		err = errEnded
	}
	if err != nil {
		s.refuse(w, r, cancelRoute, err)
		return
	}
	t.stop(reason.Errorf(reason.Cancelled, "the requesting gateway cancelled the request"))
	select {
	case <-t.done:
	case <-r.Context().Done():
	}
	s.show(w, r, t, http.StatusOK, http.StatusOK)
}

// mine returns a task of the caller. The error is errNoTask for an unknown task, for a task of
// another caller, and if the caller may no longer ask about the task's member.
func (s *Service) mine(r *http.Request) (*task, error) {
	by := s.Caller(r.Context())
	t := s.Tasks.find(r.PathValue("task"))
	if t == nil || t.by != by.Principal {
		return nil, errNoTask
	}
	if _, listed := s.subject(by, t.submission.Caller.Principal); !listed {
		return nil, errNoTask
	}
	return t, nil
}

// show writes a task handle and, if the task was approved, the next step: evaluate again.
func (s *Service) show(w http.ResponseWriter, r *http.Request, t *task, waits, over int) {
	state, expires := t.state()
	status := over
	handle := map[string]any{"id": t.id, "status": state, "status_endpoint": s.at(r, t)}
	if !expires.IsZero() {
		handle["expires_at"] = expires.UTC().Format(time.RFC3339)
	}
	body := map[string]any{"task": handle}
	switch state {
	case pending:
		status = waits
		handle["links"] = map[string]string{"cancel": s.at(r, t) + "/cancel"}
		w.Header().Set("Retry-After", "3")
	case approved:
		body["result"] = t.result()
	}
	answer(w, status, body)
}
