package authzen

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"palyra/internal/call"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// maxBody is the longest request in bytes, maxAtOnce the largest number of evaluations in one
// request, and maxText the longest part of an external text that is repeated.
const (
	maxBody   = 1 << 20
	maxAtOnce = 50
	maxText   = 200
)

// object is an entity as received: a binding covers all of its members.
type object map[string]json.RawMessage

func (o object) text(name string) (text string) {
	if json.Unmarshal(o[name], &text) != nil {
		return ""
	}
	return text
}

// evaluation is an access evaluation request (AuthZEN 1.0, section 6.1).
type evaluation struct {
	Subject  object `json:"subject"`
	Action   object `json:"action"`
	Resource object `json:"resource"`
	Context  object `json:"context"`
}

// batch is an access evaluations request (section 7.1): the top level has the defaults of each
// evaluation.
type batch struct {
	evaluation
	Evaluations []evaluation `json:"evaluations"`
	Options     struct {
		Semantic string `json:"evaluations_semantic"`
	} `json:"options"`
}

// or fills in missing members from the defaults d.
func (e evaluation) or(d evaluation) evaluation {
	for _, pair := range []struct{ own, other *object }{{&e.Subject, &d.Subject}, {&e.Action, &d.Action}, {&e.Resource, &d.Resource}, {&e.Context, &d.Context}} {
		if *pair.own == nil {
			*pair.own = *pair.other
		}
	}
	return e
}

// check checks the members that AuthZEN requires.
func (e evaluation) check() error {
	switch {
	case e.Subject.text("type") == "" || e.Subject.text("id") == "":
		return invalid("subject.type and subject.id are required")
	case e.Action.text("name") == "":
		return invalid("action.name is required")
	case e.Resource.text("type") == "" || e.Resource.text("id") == "":
		return invalid("resource.type and resource.id are required")
	}
	return nil
}

func invalid(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.InvalidInput, "reading the AuthZEN request: "+format, args...).
		WithRemedy("docs/authzen.md has an example.")
}

// principal returns the member that a subject names. A subject of type "user" or "agent" has
// its name. A subject of any other type, such as "identity" of the profile for MCP, has
// "user:NAME" or "agent:NAME".
func (e evaluation) principal() (access.Principal, bool) {
	kind, id := e.Subject.text("type"), e.Subject.text("id")
	if kind == string(access.KindUser) || kind == string(access.KindAgent) {
		id = kind + ":" + strings.TrimPrefix(id, kind+":")
	}
	p, err := access.ParsePrincipal(id)
	return p, err == nil && (p.Kind == access.KindUser || p.Kind == access.KindAgent)
}

// tool returns the tool to be called: the action must be an MCP call of a tool.
func (e evaluation) tool() (string, bool) {
	action := e.Action.text("name")
	return e.Resource.text("id"), (action == "tools/call" || action == "tool.call") && e.Resource.text("type") == "tool"
}

// relevant are the members of the context that affect the decision, in addition to subject,
// action and resource. An absent member differs from a null member.
var relevant = []string{"arguments", "channel", "requester_reason", "session"}

// submission returns the call of a member.
func (e evaluation) submission(c access.Caller, tool string) (call.Submission, error) {
	s := call.Submission{Caller: c, Tool: tool, Input: e.Context["arguments"], Session: e.Context.text("session"), Channel: e.Context.text("channel"),
		Reason: e.Context.text("requester_reason"), ReasonBy: "Repeat the request with the reason as context.requester_reason."}
	return s, call.CheckClientName("session", s.Session)
}

// approvalID returns the id of the approval that a re-evaluation refers to. refers is true if
// the evaluation has a reference, even if its id is missing.
func (e evaluation) approvalID() (id string, refers bool) {
	raw, there := e.Context["approval"]
	var o object
	if !there || json.Unmarshal(raw, &o) != nil {
		return "", there
	}
	return o.text("id"), true
}

// keys are the members that the gateway reads from an evaluation, in addition to the fields of
// the type that read decodes into.
type keys struct {
	Subject  entityKeys `json:"subject"`
	Action   entityKeys `json:"action"`
	Resource entityKeys `json:"resource"`
	Context  struct {
		Arguments any        `json:"arguments"`
		Channel   any        `json:"channel"`
		Reason    any        `json:"requester_reason"`
		Session   any        `json:"session"`
		Approval  entityKeys `json:"approval"`
	} `json:"context"`
	Evaluations []keys `json:"evaluations"`
}

type entityKeys struct {
	Type       any `json:"type"`
	ID         any `json:"id"`
	Name       any `json:"name"`
	Properties any `json:"properties"`
}

// read parses a body as strict JSON: duplicate members, and differently spelled duplicates of known
// members, are errors.
func read(r *http.Request, into any) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return nil, invalid("the body is not valid JSON")
	}
	if len(body) > maxBody {
		return nil, reason.Errorf(reason.InputTooLarge, "the request is larger than %d bytes", maxBody)
	}
	content, err := canonical.JSON(body)
	if err != nil {
		return nil, invalid("%s", text.Ellipsis(err.Error(), maxText))
	}
	if err := errors.Join(canonical.Names(content, keys{}), canonical.Names(content, into)); err != nil {
		return nil, invalid("%s", text.Ellipsis(err.Error(), maxText))
	}
	if err := json.Unmarshal(content, into); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return nil, invalid("%s has the wrong type", text.Ellipsis(kind.Field, maxText))
		}
		return nil, invalid("the body is not valid JSON")
	}
	return content, nil
}

func answer(w http.ResponseWriter, status int, body any) {
	text, err := canonical.Marshal(body)
	if err != nil {
		http.Error(w, "writing the response failed", http.StatusInternalServerError)
		return
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// echo repeats the request id of the client (AuthZEN 1.0, section 10.1.4).
func echo(w http.ResponseWriter, r *http.Request) {
	if id := r.Header.Get("X-Request-ID"); id != "" && len(id) <= 128 && !strings.ContainsFunc(id, func(c rune) bool { return c < '!' || c > '~' }) {
		w.Header().Set("X-Request-ID", id)
	}
}
