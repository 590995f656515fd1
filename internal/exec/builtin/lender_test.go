package builtin

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
)

// pawnshop is a lender with its own secrets. It records its calls.
type pawnshop struct {
	offers []egress.Secret
	err    error
	asked  int
	// lent are the names of the secrets that are lent to running calls.
	lent  []string
	given []string
	// injections are the secrets that programs can receive, all with the same value. out is the
	// number of values that are lent.
	injections []tool.Injection
	value      string
	out        int
}

func (p *pawnshop) Injectables(context.Context, tool.Proposal) ([]tool.Injection, error) {
	return p.injections, p.err
}

func (p *pawnshop) Injectable(_ context.Context, _ tool.Proposal, name string) (tool.Injection, error) {
	for _, i := range p.injections {
		if i.Secret == strings.TrimPrefix(name, "vault://") {
			return i, p.err
		}
	}
	return tool.Injection{}, reason.Errorf(reason.NotFound, "secret %s not found", name)
}

func (p *pawnshop) Inject(_ context.Context, _ tool.Call, list []tool.Injection, program string) (values [][]byte, end func(), err error) {
	for _, i := range list {
		p.given = append(p.given, i.Secret+" for "+program)
		values = append(values, []byte(p.value))
		p.out++
	}
	return values, func() { p.out = 0 }, p.err
}

func (p *pawnshop) Offers(_ context.Context, _ tool.Proposal, limit int, wanted func(egress.Secret) bool) (list []egress.Secret, more bool, err error) {
	p.asked++
	if p.err != nil {
		return nil, false, p.err
	}
	for _, s := range p.offers {
		if wanted(s) {
			list = append(list, s)
		}
	}
	return list[:min(limit, len(list))], len(list) > limit, nil
}

func (p *pawnshop) Lend(_ tool.Call, offers []egress.Secret) ([]egress.Secret, func()) {
	lent := slices.Clone(offers)
	for i := range lent {
		lent[i].Source = p
		p.lent = append(p.lent, lent[i].Name)
	}
	return lent, func() { p.lent = nil }
}

func (p *pawnshop) Secret(_ context.Context, name string) ([]byte, error) {
	if !slices.Contains(p.lent, name) {
		return nil, errors.New("it is lent to nobody")
	}
	p.given = append(p.given, name)
	return []byte("of-" + name + "-" + planted), nil
}

// vaultOf returns a lender that offers two secrets for one host.
func vaultOf(t *testing.T) *pawnshop {
	hosts := rules(t, "example.com:443", "api.example.org:443")
	return &pawnshop{offers: []egress.Secret{
		{Name: "user:alice/github", Version: 3, Env: "GITHUB_TOKEN", Header: "Authorization", Hosts: hosts, Note: "for issues"},
		{Name: "global/maps", Version: 1, Header: "X-Api-Key", Hosts: hosts},
	}}
}

func withLender(t *testing.T, shop *pawnshop, handler http.HandlerFunc) *internet {
	n := newInternet(t, handler, func(p *HTTPPolicy) { p.Allowed = rules(t, "example.com") })
	f, ok := n.bench.tools["http.fetch"].(fetch)
	if !ok {
		t.Fatal("no http.fetch")
	}
	f.lender = shop
	n.bench.tools["http.fetch"] = f
	n.bench.tools[listSecretsName] = listSecrets{lender: shop}
	return n
}

// TestFetchWithLentSecret: during the call, the server receives the value of the secret in the
// request. All others receive only its name and version.
func TestFetchWithLentSecret(t *testing.T) {
	t.Parallel()
	shop := vaultOf(t)
	var got string
	n := withLender(t, shop, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		fmt.Fprint(w, got)
	})
	in := object{"url": "https://example.com/", "headers": object{"authorization": "Bearer palyra-sec-user~alice~github"}}
	plan := must.Get(n.bench.plan("http.fetch", in))(t)
	if len(shop.lent) > 0 || len(shop.given) > 0 {
		t.Error("planning borrows")
	}
	if want := []string{"authorization=secret:user:alice/github@3"}; !slices.Equal(plan.Binding.Environment, want) || !slices.Equal(plan.Facts.Secrets, []string{"user:alice/github"}) {
		t.Errorf("binding %q, facts %q", plan.Binding.Environment, plan.Facts.Secrets)
	}
	if notes := strings.Join(plan.Preview.Notes, "\n"); !strings.Contains(notes, "Sends the secret vault://user:alice/github to example.com:443") {
		t.Errorf("notes %q", notes)
	}
	if r := n.bench.ok("http.fetch", in); r["content"] != "Bearer palyra-sec-user~alice~github" || got != "Bearer of-user:alice/github-"+planted {
		t.Errorf("the server got %q, the caller sees %q", got, r["content"])
	}
	if !slices.Equal(shop.given, []string{"user:alice/github"}) || len(shop.lent) > 0 {
		t.Errorf("given %q, still lent %q", shop.given, shop.lent)
	}
}

// TestFetchRefusesMisplacedLent: a placeholder of the vault is refused in a wrong place, even
// if no header contains one.
func TestFetchRefusesMisplacedLent(t *testing.T) {
	t.Parallel()
	const token = "palyra-sec-global~maps"
	for name, row := range map[string]struct {
		in      object
		refused bool
	}{
		"the query":          {object{"url": "https://example.com/?t=" + token}, true},
		"encoded":            {object{"url": "https://example.com/?t=palyra%2dsec%2dglobal~maps"}, true},
		"the path":           {object{"url": "https://example.com/" + token}, true},
		"the body":           {object{"url": "https://example.com/", "method": "POST", "body": "t=" + token}, true},
		"the body in base64": {object{"url": "https://example.com/", "method": "POST", "body": base64.StdEncoding.EncodeToString([]byte("=" + token))}, true},
		"the control":        {object{"url": "https://example.com/?t=token", "method": "POST", "body": "t"}, false},
	} {
		shop := vaultOf(t)
		n := withLender(t, shop, func(http.ResponseWriter, *http.Request) { t.Errorf("%s: the request was sent", name) })
		_, err := n.bench.plan("http.fetch", row.in)
		if row.refused && reason.Of(err) != reason.EgressDenied || !row.refused && (err != nil || shop.asked > 0) {
			t.Errorf("%s: %v, asked %d times", name, err, shop.asked)
		}
	}
}

// withHeader returns a lender that also offers a secret for a header that calls cannot set
// otherwise.
func withHeader(t *testing.T) *pawnshop {
	shop := vaultOf(t)
	shop.offers = append(shop.offers, egress.Secret{Name: "global/gitlab", Version: 2, Header: "Private-Token", Hosts: rules(t, "example.com:443", "www.example.com:443")})
	return shop
}

// TestFetchWithLentHeader: the header of a lent secret can be set only with its placeholder. It
// is a credential like the headers that every call may set.
func TestFetchWithLentHeader(t *testing.T) {
	t.Parallel()
	shop := withHeader(t)
	var got string
	n := withLender(t, shop, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Private-Token")
		fmt.Fprint(w, got)
	})
	in := object{"url": "https://example.com/", "headers": object{"private-token": "palyra-sec-global~gitlab"}}
	plan := must.Get(n.bench.plan("http.fetch", in))(t)
	if plan.Facts.Risk != riskFetch+riskCredential || !slices.Equal(plan.Binding.Environment, []string{"private-token=secret:global/gitlab@2"}) {
		t.Errorf("risk %d, binding %q", plan.Facts.Risk, plan.Binding.Environment)
	}
	if notes := strings.Join(plan.Preview.Notes, "\n"); !strings.Contains(notes, "Sends the secret vault://global/gitlab to example.com:443 in the header Private-Token.") {
		t.Errorf("notes %q", notes)
	}
	if r := n.bench.ok("http.fetch", in); r["content"] != "palyra-sec-global~gitlab" || got != "of-global/gitlab-"+planted {
		t.Errorf("the server got %q, the caller sees %q", got, r["content"])
	}
	if !slices.Equal(shop.given, []string{"global/gitlab"}) || len(shop.lent) > 0 {
		t.Errorf("given %q, still lent %q", shop.given, shop.lent)
	}
	checkRedacted(t, n.bench.tools["http.fetch"].Descriptor(), "authorization", "private-token", "Private-Token")
}

// TestFetchRefusesOtherHeaders: any other content of such a header is refused. The vault is
// queried only if there is a placeholder.
func TestFetchRefusesOtherHeaders(t *testing.T) {
	t.Parallel()
	const placeholder = "palyra-sec-global~gitlab"
	for name, row := range map[string]struct {
		headers object
		want    reason.Code
		asked   int
	}{
		"a raw value":                       {object{"private-token": "glpat"}, reason.InvalidInput, 0},
		"a raw value next to a placeholder": {object{"private-token": "glpat", "authorization": "palyra-sec-user~alice~github"}, reason.InvalidInput, 1},
		"a header that steers the request":  {object{"host": "evil.example"}, reason.InvalidInput, 0},
		"the same next to a placeholder":    {object{"transfer-encoding": "chunked", "private-token": placeholder}, reason.InvalidInput, 1},
		"a placeholder in another's header": {object{"private-token": "palyra-sec-global~maps"}, reason.EgressDenied, 1},
		"a placeholder in any other header": {object{"x-other-token": placeholder}, reason.EgressDenied, 1},
		"a value next to its placeholder":   {object{"private-token": "glpat " + placeholder + " glpat"}, reason.EgressDenied, 1},
		"a name in capitals":                {object{"Private-Token": placeholder}, reason.InvalidInput, 0},
		"the control":                       {object{"private-token": placeholder, "authorization": "palyra-sec-user~alice~github"}, "", 1},
	} {
		shop := withHeader(t)
		n := withLender(t, shop, func(http.ResponseWriter, *http.Request) { t.Errorf("%s: the request was sent", name) })
		_, err := n.bench.plan("http.fetch", object{"url": "https://example.com/", "headers": row.headers})
		if (err == nil) != (row.want == "") || err != nil && reason.Of(err) != row.want || shop.asked != row.asked {
			t.Errorf("%s: %v, asked %d times", name, err, shop.asked)
		}
	}
}

// TestLentHeaderStaysWithItsHost: a redirect keeps the header only on the same host and port,
// even if the secret is also valid for the other host.
func TestLentHeaderStaysWithItsHost(t *testing.T) {
	t.Parallel()
	target, seen := "", map[string]string{}
	shop := withHeader(t)
	n := withLender(t, shop, func(w http.ResponseWriter, r *http.Request) {
		seen[r.Host+r.URL.Path] = r.Header.Get("Private-Token")
		if r.URL.Path == "/start" {
			http.Redirect(w, r, target, http.StatusTemporaryRedirect)
		}
	})
	f := n.bench.tools["http.fetch"].(fetch) //nolint:forcetypeassert // withLender looked
	f.policy.Allowed = rules(t, "example.com", "www.example.com")
	n.bench.tools["http.fetch"] = f
	in := object{"url": "https://example.com/start", "headers": object{"private-token": "palyra-sec-global~gitlab"}}
	for _, test := range []struct{ to, host, want string }{
		{"https://example.com/end", "example.com/end", "of-global/gitlab-" + planted}, // control
		{"https://www.example.com/end", "www.example.com/end", ""},
		{"https://example.com:8443/end", "example.com:8443/end", ""},
	} {
		target = test.to
		clear(seen)
		n.bench.ok("http.fetch", in)
		if got, there := seen[test.host]; !there || got != test.want || seen["example.com/start"] != "of-global/gitlab-"+planted {
			t.Errorf("%s: %q", test.to, seen)
		}
	}
}

// TestAnotherVersionIsAnotherCall: a decision is bound to one version of the value.
func TestAnotherVersionIsAnotherCall(t *testing.T) {
	t.Parallel()
	shop := vaultOf(t)
	n := withLender(t, shop, func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") })
	p := must.Get(n.bench.propose("http.fetch", object{"url": "https://example.com/", "headers": object{"authorization": "palyra-sec-user~alice~github"}}))(t)
	plan := must.Get(n.bench.tools["http.fetch"].Plan(t.Context(), p))(t)
	shop.offers[0].Version++
	if report := n.bench.run(t.Context(), tool.Call{Proposal: p, Plan: plan}); report.Reason != string(reason.BindingMismatch) || len(shop.given) > 0 {
		t.Errorf("report %+v, given %q", report, shop.given)
	}
}

// TestNoSecretsOffered: the vault is not queried for a request without placeholders. An unknown
// placeholder is refused, and so is any placeholder while the vault is not available.
func TestNoSecretsOffered(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		value string
		shop  pawnshop
		want  reason.Code
		asked int
	}{
		"no placeholder":         {"Bearer abcdefgh", pawnshop{err: errors.New("no")}, "", 0},
		"nothing is there":       {"Bearer palyra-sec-global~maps", pawnshop{}, reason.EgressDenied, 1},
		"it is another's":        {"Bearer palyra-sec-global~other", *vaultOf(t), reason.EgressDenied, 1},
		"its header is not":      {"Bearer palyra-sec-global~maps", *vaultOf(t), reason.EgressDenied, 1},
		"no secret is disclosed": {"Bearer palyra-sec-global~maps", pawnshop{err: reason.Errorf(reason.NotConnected, "locked")}, reason.NotConnected, 1},
		"nothing is written":     {"Bearer PALYRA-SEC-global~maps", pawnshop{}, reason.EgressDenied, 1},
	} {
		n := withLender(t, &row.shop, func(http.ResponseWriter, *http.Request) { t.Errorf("%s: the request was sent", name) })
		_, err := n.bench.plan("http.fetch", object{"url": "https://example.com/", "headers": object{"authorization": row.value}})
		if (err == nil) != (row.want == "") || err != nil && reason.Of(err) != row.want || row.shop.asked != row.asked {
			t.Errorf("%s: %v, asked %d times", name, err, row.shop.asked)
		}
	}
}

// TestProgramWithLentSecret: a program receives placeholders for the secrets of its caller that
// are valid for the hosts in its reach. The operator's secrets take precedence.
func TestProgramWithLentSecret(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		hosts   []string
		env     string
		secrets []string
		binding []string
	}{
		"within reach":         {nil, "GITHUB_TOKEN", []string{"token", "user:alice/github"}, []string{"GITHUB_TOKEN=secret:user:alice/github@3", "TOKEN=secret:token@current"}},
		"the variable is used": {nil, "TOKEN", []string{"token"}, []string{"TOKEN=secret:token@current"}},
		"a loader's variable":  {nil, "LD_PRELOAD", []string{"token"}, []string{"TOKEN=secret:token@current"}},
		"out of reach":         {[]string{"www.example.org:80"}, "GITHUB_TOKEN", nil, nil},
		"offline":              {[]string{}, "GITHUB_TOKEN", nil, nil},
	} {
		shop := vaultOf(t)
		shop.offers[0].Env = row.env
		b, runner, _ := processBench(t, func(c *Config) { strictly(c); c.Lender = shop })
		in := object{"argv": []string{"git"}, "read_only": true}
		if row.hosts != nil {
			in["hosts"] = row.hosts
		}
		plan := must.Get(b.plan("process.run", in))(t)
		if !slices.Equal(plan.Facts.Secrets, row.secrets) || !slices.Equal(plan.Binding.Environment, row.binding) || len(shop.lent) > 0 {
			t.Errorf("%s: secrets %q, environment %q, lent %q", name, plan.Facts.Secrets, plan.Binding.Environment, shop.lent)
		}
		var value []byte
		var err error
		runner.during = func() {
			if network := runner.specs[0].Network; network != nil {
				for _, s := range network.Secrets {
					if s.Lent() {
						value, err = s.Source.Secret(t.Context(), s.Name)
					}
				}
			}
		}
		b.call(t.Context(), "process.run", in)
		if wanted := slices.Contains(row.secrets, "user:alice/github"); err != nil || (string(value) == "of-user:alice/github-"+planted) != wanted || len(shop.lent) > 0 {
			t.Errorf("%s: the sandbox gets %q, %v, and %q is still lent", name, value, err, shop.lent)
		}
	}
}

// TestListSecrets: a caller receives the data needed to use the secrets, but no value.
func TestListSecrets(t *testing.T) {
	t.Parallel()
	shop := vaultOf(t)
	n := withLender(t, shop, nil)
	listed := fmt.Sprint(n.bench.ok(listSecretsName, object{})["secrets"])
	for _, want := range []string{"palyra-sec-user~alice~github", "authorization", "example.com:443", "GITHUB_TOKEN", "for issues", "palyra-sec-global~maps", "x-api-key"} {
		if !strings.Contains(listed, want) {
			t.Errorf("%q lacks %q", listed, want)
		}
	}
	if len(shop.lent)+len(shop.given) > 0 {
		t.Error("a value is read")
	}
	shop.err = reason.Errorf(reason.NotConnected, "locked")
	if report, _ := n.bench.call(t.Context(), listSecretsName, object{}); report.Reason != string(reason.NotConnected) {
		t.Errorf("report %+v", report)
	}
}

// TestProgramWithManySecrets: a program receives only the first secrets of a large vault, and a
// note informs the approver.
func TestProgramWithManySecrets(t *testing.T) {
	t.Parallel()
	shop := vaultOf(t)
	one := shop.offers[0]
	shop.offers = nil
	for n := range programSecrets + 1 {
		one.Name, one.Env = fmt.Sprintf("global/k%03d", n), fmt.Sprintf("K%03d_TOKEN", n)
		shop.offers = append(shop.offers, one)
	}
	b, _, _ := processBench(t, func(c *Config) { strictly(c); c.Lender = shop })
	in := object{"argv": []string{"git"}, "read_only": true}
	plan := must.Get(b.plan("process.run", in))(t)
	if notes := strings.Join(plan.Preview.Notes, "\n"); len(plan.Facts.Secrets) != programSecrets+1 || !strings.Contains(notes, "has more secrets") { // and one of the operator's
		t.Errorf("%d secrets\n%s", len(plan.Facts.Secrets), notes)
	}
	shop.offers = shop.offers[1:]
	plan = must.Get(b.plan("process.run", in))(t)
	if notes := strings.Join(plan.Preview.Notes, "\n"); len(plan.Facts.Secrets) != programSecrets+1 || strings.Contains(notes, "has more secrets") {
		t.Errorf("%d secrets\n%s", len(plan.Facts.Secrets), notes)
	}
}
