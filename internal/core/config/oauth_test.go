package config

import (
	"slices"
	"strings"
	"testing"
)

const oauthTable = `
[[oauth_issuers]]
issuer = "https://id.example.com/realms/main"
audience = "https://gateway.example:7443/mcp"
[[oauth_issuers.members]]
subject = "s"
acts_as = "user:ann"
scopes = ["tool.call"]
[[evaluators]]
caller = "agent:edge"
subjects = ["user:ann"]
`

func TestOAuthIssuers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(oauthTable)
	c, _ := w.load(w.options())
	if len(c.OAuthIssuers) != 1 || !slices.Equal(c.OAuthIssuers[0].Algorithms, []string{"RS256", "ES256"}) || c.OAuthIssuers[0].SubjectClaim != "sub" ||
		c.OAuthIssuers[0].GroupsClaim != "groups" || c.OAuthIssuers[0].AnyType || c.OAuthIssuers[0].ScopesOfMembers || len(c.Evaluators) != 1 {
		t.Errorf("%+v, %+v", c.OAuthIssuers, c.Evaluators)
	}
	for name, test := range map[string]struct{ was, is, want string }{
		"http":                 {"https://id", "http://id", "oauth_issuers[0].issuer is \"http://id.example.com/realms/main\", which is not https"},
		"no audience":          {`audience = "https://gateway.example:7443/mcp"`, "", "oauth_issuers[0].audience is missing"},
		"HS256":                {"audience =", "algorithms = [\"HS256\"]\naudience =", `oauth_issuers[0].algorithms has "HS256"`},
		"alg none":             {"audience =", "algorithms = [\"none\"]\naudience =", `oauth_issuers[0].algorithms has "none"`},
		"no algorithm":         {"audience =", "algorithms = []\naudience =", "oauth_issuers[0].algorithms is empty"},
		"keys by http":         {"audience =", "jwks_uri = \"http://keys.example.com/\"\naudience =", "oauth_issuers[0].jwks_uri is"},
		"a rule that is none":  {"audience =", "allowed_hosts = [\"https://x\"]\naudience =", "oauth_issuers[0].allowed_hosts"},
		"a group for a person": {`subject = "s"`, `group = "g"`, "all members of the group would act as that person"},
		"nobody":               {`subject = "s"`, "", "names no subject and no group"},
		"no member":            {`acts_as = "user:ann"`, `acts_as = "ann"`, "oauth_issuers[0].members[0].acts_as is \"ann\""},
		"no scope":             {`scopes = ["tool.call"]`, "scopes = []", "scopes is empty"},
		"a scope of a device":  {`["tool.call"]`, `["approval.decide"]`, `has "approval.decide", which takes a device`},
		"a scope of nothing":   {`["tool.call"]`, `["tool.calls"]`, `has "tool.calls", which is not a permission`},
		"an evaluator":         {`caller = "agent:edge"`, `caller = "edge"`, "evaluators[0].caller is \"edge\""},
		"a wildcard":           {`subjects = ["user:ann"]`, `subjects = ["*"]`, "evaluators[0].subjects is \"*\""},
		"no subjects":          {`subjects = ["user:ann"]`, "subjects = []", "evaluators[0].subjects is empty"},
	} {
		w := newWorld(t)
		w.write(strings.Replace(oauthTable, test.was, test.is, 1))
		if text := Check(w.options()).Error(); !strings.Contains(text, test.want) {
			t.Errorf("%s: %q, want %q", name, text, test.want)
		}
	}
}
