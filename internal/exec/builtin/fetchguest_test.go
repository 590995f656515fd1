package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
)

// oneLender is a Lender with one secret that counts its leases.
type oneLender struct {
	Lender
	source *planter
	lent   int
}

func (l *oneLender) Offers(context.Context, tool.Proposal, int, func(egress.Secret) bool) ([]egress.Secret, bool, error) {
	panic("a guest has what it was granted, and the vault is not asked for more")
}

func (l *oneLender) Lend(_ tool.Call, offers []egress.Secret) ([]egress.Secret, func()) {
	var list []egress.Secret
	for _, s := range offers {
		s.Source = l.source
		list = append(list, s)
	}
	l.lent++
	return list, func() { l.lent-- }
}

// TestFetcher: a request of a guest is limited to the granted hosts, the granted secrets and
// the remaining bytes. Any other request is refused before data is sent.
func TestFetcher(t *testing.T) {
	t.Parallel()
	var got []string
	n := newInternet(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Host+" "+r.Header.Get("Private-Token"))
		if r.URL.Path == "/elsewhere" {
			http.Redirect(w, r, "https://www.example.com/", http.StatusFound)
			return
		}
		fmt.Fprint(w, r.Header.Get("Private-Token"))
	}, func(p *HTTPPolicy) {
		p.Allowed, p.Denied = rules(t, "example.com", "www.example.com", "denied.example.com"), rules(t, "denied.example.com")
	})
	lender := &oneLender{source: &planter{}}
	plain, _ := n.bench.tools[fetchName].(fetch)
	plain.lender = lender
	f := Fetcher{plain, must.Get(tool.CompileSchema(plain.Descriptor().InputSchema))(t)}
	offer := egress.Secret{Name: "gitlab", Version: 2, Header: "Private-Token", Hosts: rules(t, "example.com:443")}
	within := egress.Reach{Rules: egress.Rules{Allow: rules(t, "example.com", "denied.example.com", "ten.example.com")}, Secrets: []egress.Secret{offer}, Budget: egress.Budget{BytesOut: 1 << 20}}
	ask := func(in object, within egress.Reach) tool.Report {
		t.Helper()
		got = nil
		return f.Fetch(t.Context(), tool.Call{Proposal: tool.Proposal{Caller: access.Caller{Principal: access.User("ann")}}}, must.Get(json.Marshal(in))(t), within)
	}
	with := func(url string) object {
		return object{"url": url, "headers": object{"private-token": "palyra-sec-gitlab"}}
	}
	r := ask(with("https://example.com/"), within)
	if r.Outcome != tool.Succeeded || len(got) != 1 || got[0] != "example.com "+planted || !strings.Contains(string(r.Result), `"content":"palyra-sec-gitlab"`) || lender.lent != 0 {
		t.Fatalf("the control: %s %s, %q, %d are lent", r.Result, r.Message, got, lender.lent)
	}
	none, small := within, within
	none.Secrets, small.Budget.BytesOut = nil, 100
	for name, c := range map[string]struct {
		in     object
		within egress.Reach
		code   reason.Code
		sent   int
	}{
		"a host that was not granted":   {object{"url": "https://www.example.com/"}, within, reason.EgressDenied, 0},
		"a host that the rules deny":    {object{"url": "https://denied.example.com/"}, within, reason.EgressDenied, 0},
		"a host that leads inside":      {object{"url": "https://ten.example.com/"}, within, reason.EgressDenied, 0},
		"a redirect away":               {object{"url": "https://example.com/elsewhere"}, within, reason.EgressDenied, 1},
		"a secret that was not granted": {with("https://example.com/"), none, reason.EgressDenied, 0},
		"more than is left":             {object{"url": "https://example.com/"}, small, reason.QuotaExceeded, 0},
		"no request":                    {object{"uri": "https://example.com/"}, within, reason.InvalidInput, 0},
	} {
		if r := ask(c.in, c.within); r.Reason != string(c.code) || len(got) != c.sent {
			t.Errorf("%s: %s %s, and %d arrived", name, r.Reason, r.Message, len(got))
		}
	}
	// Only the gateway's rules apply if the guest has no limits.
	if r := ask(object{"url": "https://www.example.com/"}, egress.Reach{Budget: within.Budget}); r.Outcome != tool.Succeeded {
		t.Errorf("any host: %s %s", r.Reason, r.Message)
	}
}
