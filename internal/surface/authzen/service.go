// Package authzen lets other gateways ask Palyra what members may do: by the OpenID
// AuthZEN Authorization API 1.0 (evaluation, and several at once), and people by the
// draft AuthZEN Access Request and Approval Profile (Draft 1). The call then runs
// elsewhere; here it is decided, and the journal says so.
//
// A caller needs the permission access.evaluate_for, and the configuration lists about
// whom it may ask. Whom it may not ask about, who is not there, and what nobody could
// ever call look the same. An evaluation creates nothing; what lets a call through, an
// approval or a use of a grant, is used up as by a call that runs here.
package authzen

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Pipeline decides about calls that run elsewhere (call.Pipeline).
type Pipeline interface {
	MayElsewhere(ctx context.Context, s call.Submission, answer approval.Answer, note call.Note) (call.Elsewhere, error)
	AskElsewhere(ctx context.Context, s call.Submission, told string, observe func(*approval.Record)) (approval.Answer, error)
}

// Members are those that the gateway knows (access.Registry).
type Members interface {
	Active(p access.Principal) (access.Member, bool)
}

// Journal takes events of what is not for the pipeline (journal.Log).
type Journal interface {
	Record(ctx context.Context, code event.Code, actor, subject string, payload any) error
}

// Config is what a Service is made of. All but Now are required.
type Config struct {
	Pipeline Pipeline
	Engine   *policy.Engine
	Members  Members
	Journal  Journal
	// Gateway names this gateway among others, in what it signs.
	Gateway string
	// Subjects are the members about whom each caller may ask.
	Subjects map[access.Principal][]access.Principal
	// Caller is who makes a request, Origin where its client reaches the gateway, Count
	// counts one evaluation more of a request against the limits, and Refuse answers
	// with an error.
	Caller func(ctx context.Context) access.Caller
	Origin func(r *http.Request) string
	Count  func(ctx context.Context) error
	Refuse func(w http.ResponseWriter, r *http.Request, route string, err error)
	Now    func() time.Time
}

// Service answers other gateways. It is safe for concurrent use.
type Service struct {
	Config
	signer *signer
	// begin hands the tasks to Run.
	begin chan *task

	mu    sync.Mutex
	tasks map[string]*task
}

// New returns the service. Run has to run before people can be asked.
func New(c Config) (*Service, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	s, err := newSigner(c.Gateway)
	if err != nil {
		return nil, err
	}
	return &Service{Config: c, signer: s, begin: make(chan *task), tasks: map[string]*task{}}, nil
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

// Handlers are the routes by their patterns.
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

// metadata says where the rest is (AuthZEN 1.0, section 9; draft profile, PDP Metadata).
func (s *Service) metadata(w http.ResponseWriter, r *http.Request) {
	at := s.Origin(r)
	answer(w, http.StatusOK, map[string]any{
		"policy_decision_point": at, "access_evaluation_endpoint": at + "/access/v1/evaluation", "access_evaluations_endpoint": at + "/access/v1/evaluations",
		"access_request_endpoint": at + "/access/v1/requests", "jwks_uri": at + "/access/v1/jwks",
		"capabilities": []string{"urn:openid:authzen:capability:access-request"},
	})
}

// keys serves the key that answers are bound with.
func (s *Service) keys(w http.ResponseWriter, r *http.Request) {
	set, err := s.signer.public()
	if err != nil {
		s.Refuse(w, r, keysRoute, err)
		return
	}
	answer(w, http.StatusOK, set)
}

// subject is the caller that a member would be, were it to make the call itself through
// another gateway; false for whom the caller may not ask about, and who may not act.
func (s *Service) subject(by access.Caller, p access.Principal) (access.Caller, bool) {
	m, active := s.Members.Active(p)
	if !slices.Contains(s.Subjects[by.Principal], p) || !active {
		return access.Caller{}, false
	}
	c := access.Caller{
		Principal: p, OnBehalfOf: p, Roles: m.Roles, Surface: access.SurfaceGRPC, Address: by.Address,
		// No device of the member's is there. Its sessions through one gateway are its own.
		DeviceID: "elsewhere-" + string(by.Principal.Kind) + "-" + by.Principal.Name,
	}
	if p.Kind == access.KindAgent {
		c.OnBehalfOf = m.Owner
	}
	return c, true
}

// callable reports whether policy could ever let a member call a tool.
func (s *Service) callable(c access.Caller, tool string) bool {
	set := s.Engine.Current()
	if set.Permit(policy.AccessRequest{Caller: c, Permission: access.PermToolCall}) != nil {
		return false
	}
	return set.Lists(c, tool)
}

// evaluated is the payload of event.EvaluatedFor; docs/events.md describes it.
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
