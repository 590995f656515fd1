package call_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/record"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// The secrets are assembled here, so that secret scanners do not report this file.
var (
	awsKey    = "AKIA" + strings.Repeat("Q7", 8)
	githubKey = "ghp_" + strings.Repeat("a1B2", 9)
	gitlabKey = "glpat-" + strings.Repeat("x9", 12)
	slackKey  = "xoxb-" + strings.Repeat("12", 8)
	apiKey    = "sk-ant-" + strings.Repeat("k3", 12)
	googleKey = "AIza" + strings.Repeat("Zq5", 11) + "Zq"
	palyraKey = "pal_dev1_" + strings.Repeat("s4", 12)
	jwt       = "eyJhbGciOiJI" + ".eyJzdWIiOiIx" + ".c2lnbmF0dXJl"
	bearer    = "Bearer " + strings.Repeat("t0", 12)
	pemKey    = "-----BEGIN " + "EC PRIVATE KEY-----\nMHcCAQEEIB\n-----END EC PRIVATE KEY-----"
)

func TestSecretsStayOutOfTheJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		input  map[string]any
		secret string
		places []string
	}{
		"declared":                {map[string]any{"value": "swordfish-1"}, "swordfish-1", []string{"/value"}},
		"declared, nested":        {map[string]any{"nested": map[string]any{"token": "swordfish-2"}}, "swordfish-2", []string{"/nested/token"}},
		"declared, not a string":  {map[string]any{"value": map[string]any{"deep": []any{"swordfish-3"}}}, "swordfish-3", []string{"/value"}},
		"AWS key":                 {map[string]any{"note": "use " + awsKey}, awsKey, []string{"/note"}},
		"GitHub token":            {map[string]any{"note": githubKey}, githubKey, []string{"/note"}},
		"GitLab token":            {map[string]any{"note": gitlabKey}, gitlabKey, []string{"/note"}},
		"Slack token":             {map[string]any{"list": []any{"a", slackKey}}, slackKey, []string{"/list/1"}},
		"API key":                 {map[string]any{"env": "KEY=" + apiKey}, apiKey, []string{"/env"}},
		"Google key":              {map[string]any{"note": googleKey}, googleKey, []string{"/note"}},
		"Palyra token":            {map[string]any{"note": palyraKey}, palyraKey, []string{"/note"}},
		"JSON Web Token":          {map[string]any{"note": jwt}, jwt, []string{"/note"}},
		"bearer token":            {map[string]any{"header": "authorization: " + bearer}, strings.TrimPrefix(bearer, "Bearer "), []string{"/header"}},
		"private key":             {map[string]any{"file": pemKey}, "MHcCAQEEIB", []string{"/file"}},
		"two at once":             {map[string]any{"value": githubKey, "note": githubKey}, githubKey, []string{"/note", "/value"}},
		"in a large input":        {map[string]any{"note": strings.Repeat("pad ", 10_000) + awsKey}, awsKey, []string{"/note"}},
		"in a name that escapes":  {map[string]any{"a/b~c": githubKey}, githubKey, []string{"/a~1b~0c"}},
		"the control: no secrets": {map[string]any{"note": "plain words"}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			input := must.Get(canonical.Marshal(c.input))(t)
			var received string
			w.secret.Work = report(&received)
			_, o, err := w.call(call.Submission{Caller: agent, Tool: "vault.put", Input: input})
			if err != nil || !o.Decision.Allowed {
				t.Fatalf("got %+v, %v", o, err)
			}
			if received != string(input) {
				t.Errorf("the tool received %s", received)
			}
			p := last[record.Proposed](w, event.Proposed)
			if p.ArgumentsDigest != canonical.Digest(append([]byte(p.ArgumentsSalt), input...)) {
				t.Error("the digest is not of the original")
			}
			if (p.ArgumentsSalt != "") != (c.secret != "") {
				t.Errorf("the salt is %q", p.ArgumentsSalt)
			}
			if !slices.Equal(p.Redactions, c.places) {
				t.Errorf("redacted at %v, want %v", p.Redactions, c.places)
			}
			journaled := p.Arguments
			if p.ArgumentsBlob != "" {
				journaled = w.blob(p.ArgumentsBlob)
			}
			if c.secret == "" {
				if string(journaled) != string(input) {
					t.Errorf("journaled %s", journaled)
				}
				return
			}
			if !bytes.Contains(journaled, []byte(tool.Redaction)) {
				t.Errorf("what was redacted is not marked: %s", journaled)
			}
			w.wantNoSecret(c.secret)
		})
	}
}

// report returns a tool function that stores its input in received.
func report(received *string) func(context.Context, tool.Call) tool.Report {
	return func(_ context.Context, c tool.Call) tool.Report {
		*received = string(c.Proposal.Input)
		r := gatewaytest.Succeeded(`{"stored":true}`)
		if strings.ContainsAny(*received, "_") {
			// A failing tool may quote its input.
			r.Outcome, r.Reason, r.Message = tool.Failed, string(reason.ToolFailed), "cannot store "+*received
		}
		return r
	}
}

// wantNoSecret searches all files of the store for a secret.
func (w *world) wantNoSecret(secret string) {
	w.t.Helper()
	files, err := filepath.Glob(w.path + "*")
	if err != nil || len(files) == 0 {
		w.t.Fatalf("no files, %v", err)
	}
	for _, file := range files {
		content := must.Get(os.ReadFile(file))(w.t)
		if bytes.Contains(content, []byte(secret)) {
			w.t.Errorf("%s holds the secret", filepath.Base(file))
		}
	}
}

// Control of wantNoSecret: a value that is not secret is found in the store.
func TestStoreIsSearchable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := readCall()
	s.Input = []byte(`{"path":"needle-in-the-journal"}`)
	if _, _, err := w.call(s); err != nil {
		t.Fatal(err)
	}
	found := false
	files, _ := filepath.Glob(w.path + "*")
	for _, file := range files {
		content, _ := os.ReadFile(file)
		found = found || bytes.Contains(content, []byte("needle-in-the-journal"))
	}
	if !found {
		t.Error("the search does not find what is there")
	}
}

// A refusal quotes the faulty part of the input, but never a secret.
func TestRefusalsQuoteNoSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, s := range map[string]call.Submission{
		"enum":         {Tool: "http.fetch", Input: fmt.Appendf(nil, `{"url":"https://example.org/","method":%q}`, githubKey)},
		"unknown name": {Tool: "fs.read", Input: fmt.Appendf(nil, `{"path":"a",%q:1}`, githubKey)},
		"tool name":    {Tool: githubKey, Input: []byte(`{}`)},
	} {
		s.Caller = agent
		_, _, err := w.call(s)
		if code := reason.Of(err); code != reason.InvalidInput && code != reason.UnknownTool {
			t.Errorf("%s: %v", name, err)
		}
		if p := last[record.Refused](w, event.Refused); p.Reason == "" {
			t.Errorf("%s: recorded %+v", name, p)
		}
		w.wantNoSecret(githubKey)
	}
}
