package vault

import (
	"slices"
	"strings"

	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
)

// Scheme is the prefix of a reference.
const Scheme = "vault://"

// Kind is the kind of a scope.
type Kind string

// The kinds of scopes. All but Global have an id: "user:ann".
const (
	Global  Kind = "global"
	User    Kind = "user"
	Agent   Kind = "agent"
	Channel Kind = "channel"
	Skill   Kind = "skill"
	Node    Kind = "node"
)

var named = []Kind{User, Agent, Channel, Skill, Node}

var (
	idForm = lazyregexp.New(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	// fileForm is config.SecretKey with capital letters.
	fileForm = lazyregexp.New(`^[A-Za-z0-9._-]{1,128}$`)
)

// Ref is the scope and the key of a secret. The zero value means no secret.
type Ref struct {
	// Scope is "global", or a kind and an id such as "user:ann".
	Scope string
	// Key is 1 to 128 of [a-z0-9._-].
	Key string
}

// ParseRef parses "vault://<scope>/<key>"; the scheme is optional.
func ParseRef(s string) (Ref, error) {
	scope, key, ok := strings.Cut(strings.TrimPrefix(s, Scheme), "/")
	r := Ref{Scope: scope, Key: key}
	if !ok {
		return Ref{}, reason.Errorf(reason.InvalidInput, "%q is not a secret reference", s).
			WithRemedy("Write a scope and a key, such as vault://global/github or vault://user:ann/smtp.")
	}
	if err := checkForm(scope, key); err != nil {
		return r, err
	}
	return r, r.check()
}

// ParseScope parses a scope.
func ParseScope(s string) (Kind, string, error) {
	kind, id, has := strings.Cut(s, ":")
	switch {
	case s == string(Global):
		return Global, "", nil
	case has && slices.Contains(named, Kind(kind)) && idForm.MatchString(id):
		return Kind(kind), id, nil
	}
	return "", "", reason.Errorf(reason.InvalidInput, "%q is not a valid scope", s).
		WithRemedy("Use global, or user:, agent: or skill: followed by a name.")
}

// checkForm refuses a reference whose kind and name are separate parts of the path, such as
// user/local/x, and returns the correct form.
func checkForm(kind, rest string) error {
	if id, key, split := strings.Cut(rest, "/"); split && slices.Contains(named, Kind(kind)) && idForm.MatchString(id) && config.SecretKey(key) {
		return reason.Errorf(reason.InvalidInput, "%q is not a valid scope: it lacks the name of the %s", kind, kind).
			WithRemedy("Write %s%s:%s/%s.", Scheme, kind, id, key)
	}
	return nil
}

func (r Ref) check() error {
	if _, _, err := ParseScope(r.Scope); err != nil {
		return err
	}
	if !config.SecretKey(r.Key) {
		return reason.Errorf(reason.InvalidInput, "%q is not a valid key", r.Key).WithRemedy("Use 1 to 128 of a-z, 0-9, '.', '_' and '-', and not '.' or '..' alone.")
	}
	return nil
}

// isRead refuses a scope whose secrets no call can use. A secret that an older release stored there
// can still be read and removed.
func (r Ref) isRead() error {
	if kind, _, err := ParseScope(r.Scope); err != nil || kind == Channel || kind == Node {
		return reason.Errorf(reason.InvalidInput, "secrets of a %s cannot be used by calls", kind).
			WithRemedy("Use global, or the scope of the user, agent or skill whose calls need the secret.")
	}
	return nil
}

// String returns "vault://<scope>/<key>", "" for the zero value.
func (r Ref) String() string {
	if r == (Ref{}) {
		return ""
	}
	return Scheme + r.Name()
}

// Name returns the reference without its scheme, the name in policies.
func (r Ref) Name() string { return r.Scope + "/" + r.Key }

// Principal returns the user or agent of the scope; zero for other scopes.
func (r Ref) Principal() access.Principal {
	switch kind, id, _ := strings.Cut(r.Scope, ":"); Kind(kind) {
	case User:
		return access.User(id)
	case Agent:
		return access.Agent(id)
	}
	return access.Principal{}
}

// loginPrefix is the key prefix of the gateway's logins at upstream MCP servers. Only the gateway
// reads and writes them, regardless of policy: a member that could write a login could choose where
// its refresh token is sent.
const loginPrefix = "mcp-login."

// LoginRef returns the reference of the gateway's login at an upstream server: of a member, or
// the shared login for the zero Principal.
func LoginRef(server string, member access.Principal) (Ref, error) {
	r := Ref{Scope: string(Global), Key: loginPrefix + server}
	if !member.IsZero() {
		r.Scope = member.String()
	}
	return r, r.check()
}

func (r Ref) login() bool { return strings.HasPrefix(r.Key, loginPrefix) }
