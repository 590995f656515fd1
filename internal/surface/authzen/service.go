// Package authzen answers other gateways about their members' calls. It implements decisions by
// the OpenID AuthZEN Authorization API 1.0 (single and batch evaluation), and approvals by the
// draft AuthZEN Access Request and Approval Profile (Draft 1). The call then runs elsewhere; it
// is decided and journaled here.
//
// A caller needs the permission access.evaluate_for, and the configuration lists the members
// that it may ask about. The answer is the same for a member that it may not ask about, an
// unknown member, and a call that can never be allowed. An evaluation creates no approval. An
// approval or a use of a grant that allows the call is consumed, as by a call that runs here.
//
// The configuration lists the members. Tokens do not, because the owner of an agent creates its
// tokens. Policy does not, because it would need an entity for pairs of members. A use of a
// grant counts, because a grant for three calls would otherwise allow any number of calls.
// Calls elsewhere have their own digests and grants: a grant for a sandboxed call does not
// cover a program with an open network.
package authzen

import (
	"context"
	"net/http"
	"slices"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Pipeline decides calls that run elsewhere. call.Pipeline implements it.
type Pipeline interface {
	MayElsewhere(ctx context.Context, s call.Submission, answer approval.Answer, note call.Note) (call.Elsewhere, error)
	AskElsewhere(ctx context.Context, s call.Submission, description string, observe func(*approval.Record)) (approval.Answer, error)
}

// Members is the set of known members. access.Registry implements it.
type Members interface {
	Active(p access.Principal) (access.Member, bool)
}

// Journal stores events that do not pass through the pipeline. journal.Log implements it.
type Journal interface {
	Record(ctx context.Context, code event.Code, actor, subject string, payload any) error
}

// Config holds the dependencies of a Service. All fields except Now are required.
type Config struct {
	Pipeline Pipeline
	Engine   *policy.Engine
	Members  Members
	Journal  Journal
	// Gateway identifies this gateway in signed data.
	Gateway string
	// Subjects are the members that each caller may ask about.
	Subjects map[access.Principal][]access.Principal
	// Caller returns the caller of a request. Origin returns the address at which the client
	// reaches the gateway. Count counts one more evaluation of a request against the limits.
	// Refuse writes an error.
	Caller func(ctx context.Context) access.Caller
	Origin func(r *http.Request) string
	Count  func(ctx context.Context) error
	Refuse func(w http.ResponseWriter, r *http.Request, route string, err error)
	Now    func() time.Time
}

// Service answers other gateways. It is safe for concurrent use.
type Service struct {
	Config
	Tasks  *Tasks
	signer *signer
}

// New returns the service. Approvals can be requested only while Tasks.Run is running.
func New(c Config) (*Service, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	s, err := newSigner(c.Gateway)
	if err != nil {
		return nil, err
	}
	tasks := &Tasks{pipeline: c.Pipeline, now: c.Now, started: make(chan *task), byID: map[string]*task{}}
	return &Service{Config: c, Tasks: tasks, signer: s}, nil
}

// The patterns of the routes.
const (
	evaluationRoute  = "POST /access/v1/evaluation"
	evaluationsRoute = "POST /access/v1/evaluations"
	requestsRoute    = "POST /access/v1/requests"
	requestRoute     = "GET /access/v1/requests/{task}"
	cancelRoute      = "POST /access/v1/requests/{task}/cancel"
	keysRoute        = "GET /access/v1/jwks"
	metadataRoute    = "GET /.well-known/authzen-configuration"
)

// Handlers returns the routes by their patterns.
func (s *Service) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		evaluationRoute:  http.HandlerFunc(s.evaluation),
		evaluationsRoute: http.HandlerFunc(s.evaluations),
		requestsRoute:    http.HandlerFunc(s.request),
		requestRoute:     http.HandlerFunc(s.status),
		cancelRoute:      http.HandlerFunc(s.cancel),
		keysRoute:        http.HandlerFunc(s.keys),
		metadataRoute:    http.HandlerFunc(s.metadata),
	}
}

// metadata serves the discovery document (AuthZEN 1.0, section 9; draft profile, PDP Metadata).
func (s *Service) metadata(w http.ResponseWriter, r *http.Request) {
	at := s.Origin(r)
	answer(w, http.StatusOK, map[string]any{
		"policy_decision_point": at, "access_evaluation_endpoint": at + "/access/v1/evaluation", "access_evaluations_endpoint": at + "/access/v1/evaluations",
		"access_request_endpoint": at + "/access/v1/requests", "jwks_uri": at + "/access/v1/jwks",
		"capabilities": []string{"urn:openid:authzen:capability:access-request"},
	})
}

// keys serves the public key of bindings.
func (s *Service) keys(w http.ResponseWriter, r *http.Request) {
	set, err := s.signer.public()
	if err != nil {
		s.Refuse(w, r, keysRoute, err)
		return
	}
	answer(w, http.StatusOK, set)
}

// subject returns the caller for a member's call through another gateway. It returns false for
// a member that the caller may not ask about, or that is not active.
func (s *Service) subject(by access.Caller, p access.Principal) (access.Caller, bool) {
	m, active := s.Members.Active(p)
	if !slices.Contains(s.Subjects[by.Principal], p) || !active {
		return access.Caller{}, false
	}
	c := access.Caller{
		Principal: p, OnBehalfOf: p, Roles: m.Roles, Surface: access.SurfaceGRPC, Address: by.Address,
		// The member has no device here. Its sessions through each gateway are separate.
		DeviceID: "elsewhere-" + string(by.Principal.Kind) + "-" + by.Principal.Name,
	}
	if p.Kind == access.KindAgent {
		c.OnBehalfOf = m.Owner
	}
	return c, true
}

// callable reports whether policy could ever allow a member to call a tool.
func (s *Service) callable(c access.Caller, tool string) bool {
	set := s.Engine.Current()
	if set.Access().Permit(policy.AccessRequest{Caller: c, Permission: access.PermToolCall}) != nil {
		return false
	}
	return set.Catalog().Lists(c, tool)
}

// evaluated is the payload of event.EvaluatedFor; docs/reference/events.md describes it.
type evaluated struct {
	Caller     string      `json:"caller"`
	Member     string      `json:"member"`
	Tool       string      `json:"tool"`
	CallDigest string      `json:"call_digest,omitempty"`
	Allowed    bool        `json:"allowed"`
	Reason     reason.Code `json:"reason,omitempty"`
	ApprovalID string      `json:"approval_id,omitempty"`
	GrantID    string      `json:"grant_id,omitempty"`
}

// askedFor is the payload of event.AskedFor.
type askedFor struct {
	Caller     string `json:"caller"`
	Member     string `json:"member"`
	Tool       string `json:"tool"`
	ApprovalID string `json:"approval_id,omitempty"`
	Binding    string `json:"binding_sha256"`
}
