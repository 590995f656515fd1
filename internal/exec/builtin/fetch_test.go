package builtin

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
)

// names is a resolver with fixed answers.
type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, s := range n[strings.TrimSuffix(host, ".")] {
		out = append(out, netip.MustParseAddr(s))
	}
	if out == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host}
	}
	return out, nil
}

// internet is a server at every public address, and at a private one that must not be reached.
type internet struct {
	bench   *bench
	private int
}

// newInternet serves handler over TLS and plain HTTP for example.com and *.example.com (the
// names in httptest's certificate).
func newInternet(t *testing.T, handler http.HandlerFunc, change func(*HTTPPolicy)) *internet {
	t.Helper()
	secure := httptest.NewUnstartedServer(handler)
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(handler)
	t.Cleanup(plain.Close)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	net := &internet{}
	net.bench = newBench(t, func(c *Config) {
		c.HTTP = HTTPPolicy{
			Roots:      roots,
			Interfaces: func() ([]netip.Addr, error) { return nil, nil },
			Resolver: names{
				"example.com": {"1.1.1.1"}, "www.example.com": {"1.1.1.2"}, "evil.example.com": {"127.0.0.1"}, "meta.example.com": {"169.254.169.254"},
				"ten.example.com": {"10.0.0.1", "fd00::1"}, "nat.example.com": {"64:ff9b::7f00:1"}, "mixed.example.com": {"10.0.0.1", "1.1.1.1"},
			},
		}
		if change != nil {
			change(&c.HTTP)
		}
	})
	f := net.bench.tools["http.fetch"].(fetch)
	f.dial = net.dialer(secure.Listener.Addr().String(), plain.Listener.Addr().String())
	net.bench.tools["http.fetch"] = f
	return net
}

func (n *internet) dialer(secure, plain string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if class, _ := egress.Classify(netip.MustParseAddr(host)); class != egress.Public {
			n.private++
		}
		to := secure
		if port == "80" {
			to = plain
		}
		return (&net.Dialer{}).DialContext(ctx, network, to)
	}
}

func page(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

func TestFetch(t *testing.T) {
	t.Parallel()
	n := newInternet(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Set-Cookie", "secret=1")
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.Host, r.URL.RequestURI(), r.Header.Get("Authorization"), body)
	}, nil)
	report, r := n.bench.call(context.Background(), "http.fetch", object{
		"url": "https://EXAMPLE.com./p?q=1#f", "method": "POST", "headers": object{"authorization": "Bearer x", "content-type": "text/plain"}, "body": "hi",
	})
	if report.Outcome != tool.Succeeded || r["status"] != 200.0 || r["content"] != "POST example.com /p?q=1 Bearer x hi" {
		t.Fatalf("%+v %v", report, r)
	}
	headers := r["headers"].(object)
	if headers["content-type"] != "text/plain" || headers["set-cookie"] != nil {
		t.Errorf("headers %v", headers)
	}
	o := report.Egress.Observed
	if len(o) != 1 || o[0].Address != "1.1.1.1" || o[0].Host != "example.com" || o[0].Port != 443 || o[0].BytesIn == 0 || o[0].BytesOut == 0 {
		t.Errorf("observed %+v", o)
	}
	if o[0].Verdict != egress.VerdictAllowed || o[0].Leg != egress.LegTool || o[0].Reason != "" || o[0].Duration <= 0 {
		t.Errorf("observed %+v", o)
	}
	if report.Egress.Mode != "strict" || strings.Join(report.Egress.Allowed, " ") != "example.com:443" {
		t.Errorf("egress %+v", report.Egress)
	}
}

func TestFetchPlan(t *testing.T) {
	t.Parallel()
	n := newInternet(t, page("x"), nil)
	plan := must.Get(n.bench.plan("http.fetch", object{"url": "http://WWW.example.com/x", "method": "DELETE"}))(t)
	f := plan.Facts
	if f.Host != "www.example.com" || f.Domain != "example.com" || f.Port != 80 || f.Method != http.MethodDelete || f.Risk != riskFetchDelete+riskPlainHTTP || f.EgressMode != "strict" {
		t.Errorf("facts %+v", f)
	}
	if plan.Subject != "http.fetch:DELETE www.example.com (plain http)" {
		t.Errorf("subject %q", plan.Subject)
	}
	if plan, _ := n.bench.plan("http.fetch", object{"url": "https://example.com/"}); plan.Subject != "http.fetch:GET example.com" {
		t.Errorf("subject %q", plan.Subject)
	}
	if plan, _ := n.bench.plan("http.fetch", object{"url": "https://example.com:8443/"}); plan.Subject != "http.fetch:GET example.com:8443" {
		t.Errorf("subject %q", plan.Subject)
	}
}

func TestFetchRefusedBeforeAsking(t *testing.T) {
	t.Parallel()
	n := newInternet(t, page("x"), func(p *HTTPPolicy) { p.Denied = rules(t, "*.bad.example") })
	tests := []struct {
		in   object
		want reason.Code
	}{
		{object{"url": "https://user:pw@example.com/"}, reason.InvalidInput},
		{object{"url": "https://user@example.com/"}, reason.InvalidInput},
		{object{"url": "ftp://example.com/"}, reason.InvalidInput},
		{object{"url": "file:///etc/passwd"}, reason.InvalidInput},
		{object{"url": "//example.com/"}, reason.InvalidInput},
		{object{"url": "/path"}, reason.InvalidInput},
		{object{"url": "https:example.com"}, reason.InvalidInput},
		{object{"url": "https://"}, reason.InvalidInput},
		{object{"url": "https://exa mple.com/"}, reason.InvalidInput},
		{object{"url": "https://example.com\r\nX: y/"}, reason.InvalidInput},
		{object{"url": "https://example.com:0/"}, reason.HostInvalid},
		{object{"url": "https://example.com:/"}, reason.HostInvalid},
		{object{"url": "https://example.com:99999/"}, reason.HostInvalid},
		{object{"url": "https://127.1/"}, reason.HostInvalid},
		{object{"url": "https://0x7f000001/"}, reason.HostInvalid},
		{object{"url": "https://2130706433/"}, reason.HostInvalid},
		{object{"url": "https://b\u00fccher.example/"}, reason.HostInvalid},
		{object{"url": "https://127%2e0.0.1/"}, reason.InvalidInput},
		{object{"url": "https://127.0.0.1/"}, reason.EgressDenied},
		{object{"url": "https://[::1]/"}, reason.EgressDenied},
		{object{"url": "https://[::ffff:10.0.0.1]/"}, reason.EgressDenied},
		{object{"url": "http://169.254.169.254/latest/meta-data/"}, reason.EgressDenied},
		{object{"url": "https://[fe80::1%25eth0]/"}, reason.HostInvalid},
		{object{"url": "https://x.bad.example/"}, reason.EgressDenied},
		{object{"url": "https://example.com/", "method": "TRACE"}, reason.InvalidInput},
		{object{"url": "https://example.com/", "method": "CONNECT"}, reason.InvalidInput},
		{object{"url": "https://example.com/", "body": "x"}, reason.InvalidInput},
		{object{"url": "https://example.com/", "headers": object{"host": "evil"}}, reason.InvalidInput},
		{object{"url": "https://example.com/", "headers": object{"Accept": "x"}}, reason.InvalidInput},
		{object{"url": "https://example.com/", "headers": object{"cookie": "x"}}, reason.InvalidInput},
		{object{"url": "https://example.com/", "headers": object{"accept": "x\r\nhost: evil"}}, reason.InvalidInput},
		{object{"url": "https://example.com/", "timeout_ms": 3600000}, reason.InvalidInput},
		{object{"url": "https://example.com/", "max_bytes": 200000000}, reason.InvalidInput},
	}
	for _, test := range tests {
		n.bench.refused("http.fetch", test.in, test.want)
	}
}

func rules(t *testing.T, list ...string) []egress.Rule {
	t.Helper()
	return must.Get(egress.ParseRules(list))(t)
}

func TestFetchNamesOfPrivateAddresses(t *testing.T) {
	t.Parallel()
	n := newInternet(t, page("secret"), nil)
	for _, host := range []string{"evil", "meta", "ten", "nat"} {
		for _, scheme := range []string{"http", "https"} {
			report, _ := n.bench.call(context.Background(), "http.fetch", object{"url": scheme + "://" + host + ".example.com/"})
			if report.Outcome != tool.Failed || report.Reason != string(reason.EgressDenied) {
				t.Errorf("%s: %+v", host, report)
			}
			if o := report.Egress.Observed; len(o) == 0 || o[0].Verdict != egress.VerdictDenied || o[0].Reason != egress.ReasonAddressNotPublic {
				t.Errorf("%s: observed %+v", host, o)
			}
		}
	}
	if n.private != 0 {
		t.Errorf("private addresses were dialled %d times", n.private)
	}
	// The public address is used if a name has several addresses.
	r := n.bench.ok("http.fetch", object{"url": "http://mixed.example.com/"})
	if r["content"] != "secret" || n.private != 0 {
		t.Errorf("mixed: %v, private %d", r, n.private)
	}
}

// TestFetchNegativeControl disables the address check by rules that name the addresses, and
// verifies that the attacks above then succeed.
func TestFetchNegativeControl(t *testing.T) {
	t.Parallel()
	n := newInternet(t, page("secret"), func(p *HTTPPolicy) { p.Allowed = rules(t, "*.example.com", "127.0.0.0/8", "10.0.0.1") })
	for _, host := range []string{"evil", "ten"} {
		if r := n.bench.ok("http.fetch", object{"url": "http://" + host + ".example.com/"}); r["content"] != "secret" {
			t.Errorf("%s: %v", host, r)
		}
	}
	if n.private != 2 {
		t.Errorf("private addresses were dialled %d times", n.private)
	}
	report, _ := n.bench.call(context.Background(), "http.fetch", object{"url": "http://meta.example.com/"})
	if report.Reason != string(reason.EgressDenied) {
		t.Errorf("metadata: %+v", report)
	}
}

func TestFetchRedirects(t *testing.T) {
	t.Parallel()
	target := ""
	hops := 0
	handler := func(w http.ResponseWriter, r *http.Request) {
		hops++
		switch {
		case r.URL.Path == "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case r.URL.Path == "/start":
			http.Redirect(w, r, target, http.StatusFound)
		default:
			fmt.Fprintf(w, "%s auth=%q referer=%q", r.Host, r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"), r.Header.Get("Referer"))
		}
	}
	auth := object{"authorization": "Bearer x", "x-api-key": "k"}
	tests := []struct {
		name, from, to string
		allowed        []string
		want           reason.Code
		content        string
		notFollowed    string
	}{
		{name: "same host", from: "https", to: "/end", content: `example.com auth="Bearer xk" referer=""`},
		{name: "to https", from: "http", to: "https://example.com/end", content: `example.com auth="Bearer xk" referer=""`},
		{name: "to plain http", from: "https", to: "http://example.com/end", want: reason.EgressDenied},
		{name: "other host", from: "https", to: "https://www.example.com/end", notFollowed: "https://www.example.com/end"},
		{name: "other port", from: "https", to: "https://example.com:8443/end", notFollowed: "https://example.com:8443/end"},
		{name: "other host that is listed", from: "https", to: "https://www.example.com/end", allowed: []string{"example.com", "www.example.com"},
			content: `www.example.com auth="" referer=""`},
		{name: "loopback", from: "http", to: "http://127.0.0.1/", want: reason.EgressDenied},
		{name: "metadata", from: "http", to: "http://169.254.169.254/latest/", want: reason.EgressDenied},
		{name: "mapped", from: "http", to: "http://[::ffff:127.0.0.1]/", want: reason.EgressDenied},
		{name: "short address", from: "http", to: "http://127.1/", want: reason.HostInvalid},
		{name: "credentials", from: "https", to: "https://user:pw@example.com/", want: reason.InvalidInput},
		{name: "other scheme", from: "https", to: "file:///etc/passwd", want: reason.InvalidInput},
		{name: "listed name that leads inside", from: "http", to: "http://evil.example.com/", allowed: []string{"*.example.com", "example.com"}, want: reason.EgressDenied},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			target = test.to
			n := newInternet(t, handler, func(p *HTTPPolicy) { p.Allowed = rules(t, test.allowed...) })
			report, r := n.bench.call(context.Background(), "http.fetch", object{"url": test.from + "://example.com/start", "headers": auth})
			if n.private != 0 {
				t.Error("a private address was dialled")
			}
			if reason.Code(report.Reason) != test.want {
				t.Fatalf("%+v %v", report, r)
			}
			if test.want != "" {
				return
			}
			if test.notFollowed != "" {
				if r["not_followed"] != test.notFollowed || r["status"] != 302.0 {
					t.Errorf("%v", r)
				}
				return
			}
			if r["content"] != test.content || len(r["redirects"].([]any)) != 1 {
				t.Errorf("%v", r)
			}
		})
	}
	hops = 0
	n := newInternet(t, handler, nil)
	report, _ := n.bench.call(context.Background(), "http.fetch", object{"url": "https://example.com/loop"})
	if report.Reason != string(reason.FetchFailed) || hops != maxRedirects+1 {
		t.Errorf("loop: %+v after %d requests", report, hops)
	}
}

// TestFetchRedirectControls disables the restriction of each redirect case and verifies that
// the same redirect then succeeds.
func TestFetchRedirectControls(t *testing.T) {
	t.Parallel()
	target := ""
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/start" {
			http.Redirect(w, r, target, http.StatusFound)
			return
		}
		fmt.Fprintf(w, "arrived at %s", r.Host)
	}
	for _, test := range []struct {
		name, from, to string
		// fenced are the operator's hosts with the restriction, and open the hosts without it.
		fenced, open []string
		want         reason.Code
		notFollowed  bool
		private      int
	}{
		{name: "loopback", from: "http", to: "http://127.0.0.1/", open: []string{"example.com", "127.0.0.1"}, want: reason.EgressDenied, private: 1},
		{name: "mapped", from: "http", to: "http://[::ffff:127.0.0.1]/", open: []string{"example.com", "127.0.0.1"}, want: reason.EgressDenied, private: 1},
		{name: "name that leads inside", from: "http", to: "http://evil.example.com/", fenced: []string{"example.com", "*.example.com"},
			open: []string{"example.com", "*.example.com", "127.0.0.0/8"}, want: reason.EgressDenied, private: 1},
		{name: "other host", from: "https", to: "https://www.example.com/end", open: []string{"example.com", "www.example.com"}, notFollowed: true},
		{name: "other port", from: "https", to: "https://example.com:8443/end", open: []string{"example.com:443", "example.com:8443"}, notFollowed: true},
		// The next cases are restricted by the scheme; their controls start with the final scheme.
		{name: "to plain http", from: "https", to: "http://example.com/end", want: reason.EgressDenied},
		{name: "to plain http: control", from: "http", to: "http://example.com/end"},
	} {
		t.Run(test.name, func(t *testing.T) {
			target = test.to
			fetch := func(hosts []string) (*internet, tool.Report, object) {
				n := newInternet(t, handler, func(p *HTTPPolicy) { p.Allowed = rules(t, hosts...) })
				report, r := n.bench.call(context.Background(), "http.fetch", object{"url": test.from + "://example.com/start"})
				return n, report, r
			}
			n, report, r := fetch(test.fenced)
			if reason.Code(report.Reason) != test.want || (r["not_followed"] != nil) != test.notFollowed || n.private != 0 {
				t.Errorf("with the fence: %+v %v, %d private connections", report, r, n.private)
			}
			if test.open == nil {
				return
			}
			n, report, r = fetch(test.open)
			if text, _ := r["content"].(string); report.Outcome != tool.Succeeded || !strings.HasPrefix(text, "arrived at ") || n.private != test.private {
				t.Errorf("without the fence: %+v %v, %d private connections", report, r, n.private)
			}
		})
	}
}

// TestFetchCountsWhatWasSent: the report contains the number of sent bytes, even for a failed
// call.
func TestFetchCountsWhatWasSent(t *testing.T) {
	t.Parallel()
	// The server reads the whole body first, because a client stops sending after the response.
	n := newInternet(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
		func(p *HTTPPolicy) { p.Roots = x509.NewCertPool() })
	sent := func(in object) (total int64) {
		report, _ := n.bench.call(context.Background(), "http.fetch", in)
		for _, o := range report.Egress.Observed {
			total += o.BytesOut
		}
		return total
	}
	body := strings.Repeat("b", 10_000)
	with, without := sent(object{"url": "http://example.com/", "method": "POST", "body": body}), sent(object{"url": "http://example.com/", "method": "POST"})
	if with < without+int64(len(body)) || without == 0 {
		t.Errorf("%d bytes out with a body of %d, %d without", with, len(body), without)
	}
	if refused := sent(object{"url": "https://example.com/"}); refused == 0 {
		t.Error("a handshake that failed sent nothing")
	}
	if denied := sent(object{"url": "https://evil.example.com/"}); denied != 0 {
		t.Errorf("a connection that was denied sent %d bytes", denied)
	}
}

func TestFetchLimits(t *testing.T) {
	t.Parallel()
	block := make(chan struct{})
	defer close(block)
	n := newInternet(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/big":
			_, _ = w.Write([]byte(strings.Repeat("a", 5000)))
		case "/binary":
			_, _ = w.Write([]byte{0, 0xff})
		case "/slow":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			select {
			case <-block:
			case <-r.Context().Done():
			}
		}
	}, func(p *HTTPPolicy) { p.MaxBytes = 4096 })
	r := n.bench.ok("http.fetch", object{"url": "https://example.com/big"})
	if r["truncated"] != true || r["bytes"] != 4096.0 {
		t.Errorf("big: %v %v", r["truncated"], r["bytes"])
	}
	if r := n.bench.ok("http.fetch", object{"url": "https://example.com/big", "max_bytes": 10}); r["bytes"] != 10.0 {
		t.Errorf("smaller: %v", r["bytes"])
	}
	if r := n.bench.ok("http.fetch", object{"url": "https://example.com/binary"}); r["encoding"] != "base64" || r["content"] != "AP8=" {
		t.Errorf("binary: %v", r)
	}
	report, _ := n.bench.call(context.Background(), "http.fetch", object{"url": "https://example.com/slow", "timeout_ms": 50})
	if report.Outcome != tool.TimedOut || report.Reason != string(reason.TimedOut) || report.Usage.Wall > must.Patience {
		t.Errorf("slow: %+v", report)
	}
}

func TestFetchVerifiesCertificates(t *testing.T) {
	t.Parallel()
	n := newInternet(t, page("x"), func(p *HTTPPolicy) { p.Roots = x509.NewCertPool() })
	report, _ := n.bench.call(context.Background(), "http.fetch", object{"url": "https://example.com/"})
	if report.Reason != string(reason.FetchFailed) || !strings.Contains(report.Message, "certificate") {
		t.Errorf("%+v", report)
	}
}

// Not parallel: it sets HTTP_PROXY and HTTPS_PROXY of the process.
func TestFetchIgnoresProxySettings(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	n := newInternet(t, page("x"), nil)
	n.bench.ok("http.fetch", object{"url": "http://example.com/"})
}
