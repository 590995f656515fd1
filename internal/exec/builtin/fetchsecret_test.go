package builtin

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
)

const planted = "ghp_planted/Value+0123456789=="

// planter is a source of two secrets that counts its calls.
type planter struct{ asked int }

func (p *planter) Secret(_ context.Context, name string) ([]byte, error) {
	p.asked++
	return []byte(map[string]string{"gitlab": planted, "github": "of-github-" + planted}[name]), nil
}

// withSecrets adds two secrets for example.com and www.example.com to a policy.
func withSecrets(t *testing.T, source *planter) func(*HTTPPolicy) {
	t.Helper()
	return func(p *HTTPPolicy) {
		hosts := rules(t, "example.com:443", "www.example.com:443")
		p.Allowed = rules(t, "example.com", "www.example.com")
		p.Secrets = []egress.Secret{
			{Name: "github", Header: "Authorization", Hosts: hosts, Source: source},
			{Name: "gitlab", Header: "Private-Token", Hosts: hosts, Source: source},
		}
	}
}

// TestFetchWithSecret: the server receives the value, the caller receives the placeholder, and
// policy, the approval and the approver receive the name of the secret.
func TestFetchWithSecret(t *testing.T) {
	t.Parallel()
	source := &planter{}
	var got []string
	n := newInternet(t, func(w http.ResponseWriter, r *http.Request) {
		got = []string{r.Header.Get("Authorization"), r.Header.Get("Private-Token")}
		fmt.Fprint(w, got)
	}, withSecrets(t, source))
	in := object{"url": "https://example.com/user", "headers": object{"authorization": "Bearer palyra-sec-github", "private-token": "palyra-sec-gitlab"}}
	plan, err := n.bench.plan("http.fetch", in)
	must.Do(t, err)
	if source.asked != 0 {
		t.Error("planning reads the secret")
	}
	if !slices.Equal(plan.Facts.Secrets, []string{"github", "gitlab"}) || plan.Facts.Risk != riskFetch+riskCredential {
		t.Errorf("facts %+v", plan.Facts)
	}
	if want := []string{"authorization=secret:github@current", "private-token=secret:gitlab@current"}; !slices.Equal(plan.Binding.Environment, want) {
		t.Errorf("binding %q", plan.Binding.Environment)
	}
	if want := "http.fetch:GET example.com (with secret github, gitlab)"; plan.Subject != want {
		t.Errorf("a grant covers %q", plan.Subject)
	}
	if notes := strings.Join(plan.Preview.Notes, "\n"); !strings.Contains(notes, "Sends the secret github to example.com:443 in the header Authorization.") {
		t.Errorf("notes %q", notes)
	}
	r := n.bench.ok("http.fetch", in)
	if want := []string{"Bearer of-github-" + planted, planted}; !slices.Equal(got, want) {
		t.Errorf("the server got %q", got)
	}
	if r["content"] != "[Bearer palyra-sec-github palyra-sec-gitlab]" {
		t.Errorf("the caller sees %q", r["content"])
	}
	d := n.bench.tools["http.fetch"].Descriptor()
	if !strings.Contains(d.Description, "palyra-sec-github in authorization for example.com:443") {
		t.Errorf("the model is told %q", d.Description)
	}
	checkRedacted(t, d, "authorization", "x-api-key", "private-token", "Authorization", "x-unheard-of")
	// Control: a call without placeholders uses no secret, and has a different approval.
	if plan, err = n.bench.plan("http.fetch", object{"url": "https://example.com/user"}); err != nil || len(plan.Facts.Secrets)+len(plan.Binding.Environment) > 0 || strings.Contains(plan.Subject, "secret") {
		t.Errorf("without: %+v, %v", plan, err)
	}
}

// checkRedacted verifies that records and approvers receive no value of these headers. Control:
// a header without a credential.
func checkRedacted(t *testing.T, d tool.Descriptor, headers ...string) {
	t.Helper()
	given := object{"accept": "text/html"}
	for _, name := range headers {
		given[name] = "raw value of " + name
	}
	text := must.Get(json.Marshal(object{"headers": given}))(t)
	clean, found, err := tool.Redact(text, d.SecretPaths)
	if err != nil || strings.Contains(string(clean), "raw value") || !strings.Contains(string(clean), "text/html") || len(found) != len(headers) {
		t.Errorf("redacted: %s, %q, %v", clean, found, err)
	}
}

// TestFetchRefusesMisplacedPlaceholders: a call with a misplaced placeholder is refused before
// an approval.
func TestFetchRefusesMisplacedPlaceholders(t *testing.T) {
	t.Parallel()
	source := &planter{}
	n := newInternet(t, page("x"), withSecrets(t, source))
	const token = "palyra-sec-github"
	headers := func(name, value string) object {
		return object{"url": "https://example.com/", "headers": object{name: value}}
	}
	for name, test := range map[string]struct {
		in   object
		want string
	}{
		"the path":           {object{"url": "https://example.com/" + token}, egress.ReasonSecretMisplaced},
		"the query":          {object{"url": "https://example.com/?t=" + token}, egress.ReasonSecretMisplaced},
		"encoded":            {object{"url": "https://example.com/?t=palyra%2dsec%2dgithub"}, egress.ReasonSecretMisplaced},
		"the body":           {object{"url": "https://example.com/", "method": "POST", "body": "t=" + token}, egress.ReasonSecretMisplaced},
		"the body in base64": {object{"url": "https://example.com/", "method": "POST", "body_base64": base64.StdEncoding.EncodeToString([]byte(token))}, egress.ReasonSecretMisplaced},
		"base64 in the body": {object{"url": "https://example.com/", "method": "POST", "body": base64.StdEncoding.EncodeToString([]byte("=" + token))}, egress.ReasonSecretMisplaced},
		"another header":     {headers("x-api-key", token), egress.ReasonSecretMisplaced},
		"another's header":   {headers("private-token", token), egress.ReasonSecretMisplaced},
		"not alone":          {headers("authorization", "Bearer x"+token), egress.ReasonSecretMisplaced},
		"none of ours":       {headers("authorization", "palyra-sec-other"), egress.ReasonSecretMisplaced},
		"a program's":        {headers("authorization", "palyra-sec-0123456789abcdef-github"), egress.ReasonSecretMisplaced},
		"another port":       {object{"url": "https://example.com:8443/", "headers": object{"authorization": token}}, egress.ReasonSecretMisplaced},
		"plain http":         {object{"url": "http://example.com/", "headers": object{"authorization": token}}, egress.ReasonSecretMisplaced},
		"plain http on 443":  {object{"url": "http://example.com:443/", "headers": object{"authorization": token}}, egress.ReasonSecretUnverified},
		"the control":        {headers("authorization", token), ""},
	} {
		_, err := n.bench.plan("http.fetch", test.in)
		var why *reason.Error
		if test.want == "" && err != nil || test.want != "" && (!asReason(err, &why) || why.Code != reason.EgressDenied || why.Fields["reason"] != test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if source.asked != 0 {
		t.Errorf("asked %d times", source.asked)
	}
}

func asReason(err error, to **reason.Error) bool {
	known, ok := err.(*reason.Error) //nolint:errorlint // Plan returns it as it is
	*to = known
	return ok
}

// TestFetchSecretStaysWithItsHost: a redirect keeps the credential only on the same host and
// port, even if the secret is also valid for the other host.
func TestFetchSecretStaysWithItsHost(t *testing.T) {
	t.Parallel()
	target := ""
	seen := map[string]string{}
	n := newInternet(t, func(w http.ResponseWriter, r *http.Request) {
		seen[r.Host+r.URL.Path] = r.Header.Get("Private-Token")
		if r.URL.Path == "/start" {
			http.Redirect(w, r, strings.ReplaceAll(target, "ECHO", url.QueryEscape(r.Header.Get("Private-Token"))), http.StatusTemporaryRedirect)
		}
	}, withSecrets(t, &planter{}))
	in := object{"url": "https://example.com/start", "headers": object{"private-token": "palyra-sec-gitlab"}}
	for _, test := range []struct{ to, host, want string }{
		{"https://example.com/end", "example.com/end", planted}, // control
		{"https://www.example.com/end", "www.example.com/end", ""},
		{"https://example.com:8443/end", "example.com:8443/end", ""},
	} {
		target = test.to
		clear(seen)
		n.bench.ok("http.fetch", in)
		if got, there := seen[test.host]; !there || got != test.want || seen["example.com/start"] != planted {
			t.Errorf("%s: %q", test.to, seen)
		}
	}
	// The server requests its credential in a URL.
	target = "https://www.example.com/?stolen=ECHO"
	clear(seen)
	report, _ := n.bench.call(t.Context(), "http.fetch", in)
	if report.Reason != string(reason.EgressDenied) || len(seen) != 1 {
		t.Errorf("%+v, %q", report, seen)
	}
}

// forms returns encodings in which a server may return a value.
func forms(value string) []string {
	quoted, _ := json.Marshal(value)
	return []string{
		value, strings.ToLower(value), hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value))), url.QueryEscape(value), url.PathEscape(value),
		base64.StdEncoding.EncodeToString([]byte(value)), base64.URLEncoding.EncodeToString([]byte(value)), strings.Trim(string(quoted), `"`), strings.ReplaceAll(value, "/", `\/`),
	}
}

// TestFetchHidesSecretsOfOtherCalls: a host that stores the credential of one call cannot
// return it to another call without secrets. Control: no secrets are configured.
func TestFetchHidesSecretsOfOtherCalls(t *testing.T) {
	t.Parallel()
	kept := ""
	host := func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Private-Token"); got != "" {
			kept = got
		}
		w.Header().Set("Etag", kept)
		fmt.Fprint(w, "the last was ", kept)
	}
	last := func(n *internet) string {
		report, _ := n.bench.call(t.Context(), "http.fetch", object{"url": "https://example.com/last"})
		return fmt.Sprintf("%+v %s", report, report.Result)
	}
	source := &planter{}
	n := newInternet(t, host, withSecrets(t, source))
	n.bench.ok("http.fetch", object{"url": "https://example.com/", "headers": object{"private-token": "palyra-sec-gitlab"}})
	if got := last(n); kept != planted || strings.Contains(got, planted) || strings.Count(got, "palyra-sec-gitlab") < 2 {
		t.Errorf("the host has %q, the caller sees %s", kept, got)
	}
	if source.asked != 4 { // two secrets, two calls
		t.Errorf("asked %d times", source.asked)
	}
	if got := last(newInternet(t, host, nil)); !strings.Contains(got, planted) {
		t.Errorf("the control sees %s", got)
	}
}

// TestFetchHidesSecrets: the report, the result and the error do not contain the value,
// whatever encoding the server uses. Control: without secrets, the value is sent directly and
// is found in each.
func TestFetchHidesSecrets(t *testing.T) {
	t.Parallel()
	host := func(w http.ResponseWriter, r *http.Request) {
		got := r.Header.Get("Private-Token") + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch r.URL.Path {
		case "/echo":
			w.Header().Set("Etag", got)
			w.Header().Set("Location", "/"+url.PathEscape(got))
			for _, form := range forms(got) {
				for _, piece := range strings.SplitAfter(form, "0") {
					_, _ = io.WriteString(w, piece)
					w.(http.Flusher).Flush()
				}
				fmt.Fprintln(w)
			}
		case "/status", "/broken":
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if r.URL.Path == "/status" {
				fmt.Fprintf(conn, "HTTP/1.1 %s OK\r\n\r\n", got)
				return
			}
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n", got)
		case "/redirect":
			w.Header().Set("Location", "https://elsewhere.example/?"+got)
			w.WriteHeader(http.StatusFound)
		}
	}
	with, without := newInternet(t, host, withSecrets(t, &planter{})), newInternet(t, host, nil)
	for path, outcome := range map[string]tool.Outcome{"/echo": tool.Succeeded, "/status": tool.Failed, "/broken": tool.Failed, "/redirect": tool.Succeeded} {
		leaks := func(n *internet, header, value string) int {
			report, _ := n.bench.call(t.Context(), "http.fetch", object{"url": "https://example.com" + path, "headers": object{header: value}})
			if report.Outcome != outcome {
				t.Errorf("%s: %+v", path, report)
			}
			text := must.Get(json.Marshal(report))(t)
			text = append(text, report.Result...)
			found := 0
			for _, form := range forms(planted) {
				if strings.Contains(string(text), form) {
					found++
				}
			}
			return found
		}
		if found := leaks(with, "private-token", "palyra-sec-gitlab"); found != 0 {
			t.Errorf("%s: %d forms of the secret are told", path, found)
		}
		if found := leaks(without, "authorization", "Bearer "+planted); found == 0 && path != "/broken" {
			t.Errorf("%s: the control finds nothing", path)
		}
	}
}
