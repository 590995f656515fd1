package builtin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/egress/secret"
)

// InterfaceLister lists the machine's own addresses.
type InterfaceLister = func() ([]netip.Addr, error)

const fetchName = "http.fetch"

// The risk of a fetch; see the table in docs/tools.md.
const (
	riskFetch       = 30
	riskSend        = 50
	riskFetchDelete = 60
	riskPlainHTTP   = 10
	riskAddress     = 10
	riskCredential  = 10
)

// fetch makes one HTTP request.
type fetch struct {
	policy  HTTPPolicy
	lender  Lender
	version string
	most    time.Duration
	// headers are the headers that a call may set without a placeholder. credentials are the
	// subset of headers that is redacted in the record and is not sent to another host on a
	// redirect. Both are in lower case.
	headers, credentials []string
	// within are the hosts to which the call is restricted in addition to the rules. It is empty
	// for calls that were decided with their own target.
	within []egress.Rule
	// dial replaces the dialer's own function unless nil.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func newFetch(cfg Config) fetch {
	policy := cfg.HTTP
	policy.MaxBytes = cmp.Or(policy.MaxBytes, 4<<20)
	policy.Timeout = min(cmp.Or(policy.Timeout, 30*time.Second), cfg.MaxTimeout)
	t := fetch{policy: policy, lender: cfg.Lender, version: cfg.Version, most: policy.Timeout}
	t.headers = union(requestHeaders, secretHeaders(policy.Secrets))
	t.credentials = union(credentialHeaders, secretHeaders(policy.Secrets))
	return t
}

// union returns the sorted union without duplicates.
func union(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}

type fetchInput struct {
	Method     string            `json:"method"`
	URL        string            `json:"url"`
	Headers    map[string]string `json:"headers"`
	Body       *string           `json:"body"`
	BodyBase64 *string           `json:"body_base64"`
	TimeoutMS  int64             `json:"timeout_ms"`
	MaxBytes   int64             `json:"max_bytes"`
}

// requestHeaders are the headers that a call may set, in addition to the headers of the operator's
// secrets and the headers that hold the placeholder of a lent secret. Host, forwarding and
// connection headers are excluded, because they could contradict the URL that was decided on.
var requestHeaders = []string{
	"accept", "accept-language", "authorization", "cache-control", "content-language", "content-type", "idempotency-key",
	"if-match", "if-modified-since", "if-none-match", "if-unmodified-since", "prefer", "range", "user-agent", "x-api-key", "x-request-id", "x-requested-with",
}

// credentialHeaders are the request headers that carry credentials.
var credentialHeaders = []string{"authorization", "x-api-key"}

// headerForm matches a header name in lower case. The headers that a call may set depend on the
// caller, so the plan checks them.
const headerForm = "^[a-z0-9!#$%&'*+.^_`|~-]{1,64}$"

// secretPaths returns all headers except the known headers without credentials. The other
// headers that carry a secret depend on the caller.
func (t fetch) secretPaths() []string {
	paths := []string{"/headers/*"}
	for _, name := range t.headers {
		if !slices.Contains(t.credentials, name) {
			paths = append(paths, "!/headers/"+name)
		}
	}
	return paths
}

func (t fetch) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		Name: fetchName, Title: "Fetch a URL",
		Description: "Make one HTTP request and return status, headers and body. Only http and https; private, local and cloud metadata addresses are refused. " +
			"Redirects are followed at most 5 times, on the same host or to hosts that the operator lists; another redirect is returned with its location, for a call of its own." + secretsToldOf(t.policy.Secrets),
		InputSchema: schema(`"url"`,
			`"url": {"type": "string", "minLength": 1, "maxLength": 8192, "description": "Absolute http or https URL, without user and password."}`,
			`"method": {"type": "string", "enum": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"], "description": "Default GET."}`,
			fmt.Sprintf(`"headers": {"type": "object", "maxProperties": 20, "propertyNames": {"pattern": "%s"}, "additionalProperties": {"type": "string", "maxLength": 8192}, "description": "Request headers, names in lower case: %s, and the header that %s tells for a secret, with its placeholder."}`,
				headerForm, strings.Join(t.headers, ", "), listSecretsName),
			`"body": {"type": "string", "description": "Request body as text. Send this or body_base64, not with GET or HEAD."}`,
			`"body_base64": {"type": "string", "description": "Request body as base64."}`,
			`"timeout_ms": {"type": "integer", "minimum": 1, "maximum": 86400000, "description": "Longest time for the whole call in milliseconds. Default and most: the operator's limit."}`,
			`"max_bytes": {"type": "integer", "minimum": 1, "maximum": 268435456, "description": "Most bytes of the body to return. Default and most: the operator's limit."}`,
		),
		Capabilities: []tool.Capability{tool.Network}, Executor: tool.Builtin, OpenWorld: true, Destructive: true,
		SecretPaths: t.secretPaths(),
	}
}

// request is a validated input.
type request struct {
	method  string
	url     *url.URL
	host    egress.Host
	port    uint16
	headers map[string]string
	body    []byte
	timeout time.Duration
	bytes   int64
	// secrets are the secrets behind its placeholders.
	secrets []secret.Use
	// credentials are its headers that carry credentials: the usual ones, and the headers of its
	// secrets.
	credentials []string
}

func (t fetch) check(ctx context.Context, p tool.Proposal) (request, error) {
	in, err := decode[fetchInput](p.Input)
	if err != nil {
		return request{}, err
	}
	r := request{method: cmp.Or(in.Method, http.MethodGet), headers: in.Headers}
	if r.url, err = url.Parse(in.URL); err != nil {
		return r, reason.Errorf(reason.InvalidInput, "input at /url is not a URL").WithField("pointer", "/url")
	}
	if r.host, r.port, err = judgeURL(r.url); err != nil {
		return r, err
	}
	if r.body, err = given(in.Body, in.BodyBase64, "body"); err != nil {
		return r, err
	}
	if len(r.body) > 0 && (r.method == http.MethodGet || r.method == http.MethodHead) {
		return r, reason.Errorf(reason.InvalidInput, "a %s request has no body", r.method).WithField("pointer", "/body")
	}
	if err := checkHeaders(in.Headers); err != nil {
		return r, err
	}
	if err := checkTimeout("timeout_ms", in.TimeoutMS, t.most); err != nil {
		return r, err
	}
	r.timeout = t.most
	if in.TimeoutMS > 0 {
		r.timeout = time.Duration(in.TimeoutMS) * time.Millisecond
	}
	if r.bytes = cmp.Or(in.MaxBytes, t.policy.MaxBytes); r.bytes > t.policy.MaxBytes {
		return r, reason.Errorf(reason.InvalidInput, "input at /max_bytes: %d is greater than the operator's limit of %d", r.bytes, t.policy.MaxBytes).
			WithField("pointer", "/max_bytes")
	}
	if err := t.judgeTarget(r.host, r.port); err != nil {
		return r, err
	}
	if r.secrets, err = t.uses(ctx, p, r); err != nil {
		return r, err
	}
	r.credentials = t.credentials
	for _, u := range r.secrets {
		r.credentials = union(r.credentials, []string{strings.ToLower(u.Header)})
	}
	return r, t.judgeHeaders(r)
}

// judgeHeaders refuses a header that calls must not set, unless it holds the placeholder of a
// secret for that header.
func (t fetch) judgeHeaders(r request) error {
	for _, name := range slices.Sorted(maps.Keys(r.headers)) {
		if !slices.Contains(t.headers, name) && !slices.Contains(r.credentials, name) {
			return reason.Errorf(reason.InvalidInput, "input at /headers/%s: the header can be set only with the placeholder of a secret for that header", name).
				WithRemedy("List the usable secrets with the tool %s; the headers that accept any value are in the schema of %s.", listSecretsName, fetchName).
				WithField("pointer", "/headers/"+name)
		}
	}
	return nil
}

func checkHeaders(headers map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		for _, c := range []byte(headers[name]) {
			if c < ' ' && c != '\t' || c >= 0x7f {
				return reason.Errorf(reason.InvalidInput, "input at /headers/%s: a header holds only printable ASCII", name)
			}
		}
	}
	return nil
}

// judgeURL checks a URL and makes its host canonical in place.
func judgeURL(u *url.URL) (egress.Host, uint16, error) {
	port := uint16(443)
	switch u.Scheme {
	case "https":
	case "http":
		port = 80
	default:
		return egress.Host{}, 0, reason.Errorf(reason.InvalidInput, "scheme %s is not supported; use https or http", quoteLine(u.Scheme)).WithField("pointer", "/url")
	}
	if u.User != nil {
		return egress.Host{}, 0, reason.Errorf(reason.InvalidInput, "the URL contains a user or password").
			WithRemedy("Send credentials in the authorization header.").WithField("pointer", "/url")
	}
	if u.Opaque != "" || u.Host == "" {
		return egress.Host{}, 0, reason.Errorf(reason.InvalidInput, "the URL has no host").WithField("pointer", "/url")
	}
	host, err := egress.CanonicalHost(u.Hostname())
	if err != nil {
		return egress.Host{}, 0, err
	}
	explicit := u.Port()
	if explicit != "" {
		if port, err = egress.ParsePort(explicit); err != nil {
			return egress.Host{}, 0, err
		}
	} else if strings.HasSuffix(u.Host, ":") {
		return egress.Host{}, 0, reason.Errorf(reason.HostInvalid, "the URL has an empty port")
	}
	u.Host = host.String()
	if explicit != "" || strings.Contains(u.Host, ":") {
		u.Host = host.Join(port)
	}
	u.Fragment, u.RawFragment = "", ""
	return host, port, nil
}

func (t fetch) rules() egress.Rules {
	return egress.Rules{Allow: t.policy.Allowed, Deny: t.policy.Denied, Gateway: t.policy.Gateway}
}

// judgeTarget refuses a target that the rules or its address exclude, before any name is
// resolved.
func (t fetch) judgeTarget(host egress.Host, port uint16) error {
	if len(t.within) > 0 {
		if err := (egress.Rules{Allow: t.within}).Check(host, port); err != nil {
			return reason.Errorf(reason.EgressDenied, "%s is not covered by the grant: %s", host.Join(port), egress.Named(texts(t.within)))
		}
	}
	if err := t.rules().Check(host, port); err != nil {
		return err
	}
	return t.rules().CheckAddress(host, port)
}

func texts(rules []egress.Rule) (list []string) {
	for _, r := range rules {
		list = append(list, r.String())
	}
	return list
}

// maySend returns the maximum number of bytes that the request can send. Each redirect may send
// the request again.
func (r request) maySend() int64 {
	const handshake = 16 << 10 // the overhead of a connection, with a margin
	size := len(r.url.String()) + len(r.body)
	for name, value := range r.headers {
		size += len(name) + len(value)
	}
	return int64(maxRedirects+1) * int64(size+handshake)
}

func (t fetch) Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error) {
	r, err := t.check(ctx, p)
	if err != nil {
		return tool.Plan{}, err
	}
	return t.plan(r), nil
}

// Prepare holds no resources: a name's addresses are checked when they are dialed.
func (t fetch) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	r, err := t.check(ctx, p)
	if err != nil {
		return tool.Prepared{}, err
	}
	run := func(ctx context.Context, c tool.Call) tool.Report { return t.run(ctx, c, r) }
	return tool.Prepared{Plan: t.plan(r), Run: run}, nil
}

func (t fetch) plan(r request) tool.Plan {
	reach := []string{r.host.Join(r.port)}
	if r.url.Scheme == "http" && r.port == 80 {
		// A redirect to https on the same host is followed.
		reach = append(reach, r.host.Join(443))
	}
	for _, rule := range t.policy.Allowed {
		reach = append(reach, rule.String())
	}
	slices.Sort(reach)
	reach = slices.Compact(reach)
	plan := tool.Plan{
		Binding: tool.Binding{Egress: reach, Environment: secretBinding(r.secrets)},
		Facts: tool.Facts{
			Host: r.host.String(), Domain: r.host.Domain(), Port: int(r.port), Method: r.method, Risk: t.risk(r), Secrets: secretNames(r.secrets),
			SandboxTier: "builtin", SandboxLevel: "none", EgressMode: egress.Strict.String(), EgressHosts: reach,
		},
		Preview: tool.Preview{
			Summary: fmt.Sprintf("%s %s", r.method, text.Ellipsis(r.url.String(), 300)), Lead: r.method + " " + r.url.String(),
		},
		Subject: fmt.Sprintf("%s:%s %s", fetchName, r.method, r.host.String()),
		MaySend: r.maySend(),
	}
	if standard := map[string]uint16{"http": 80, "https": 443}[r.url.Scheme]; r.port != standard {
		plan.Subject = fmt.Sprintf("%s:%s %s", fetchName, r.method, r.host.Join(r.port))
	}
	if r.url.Scheme == "http" {
		plan.Subject += " (plain http)"
		plan.Preview.Notes = append(plan.Preview.Notes, "The request is not encrypted.")
	}
	if len(r.secrets) > 0 {
		// A grant for the same request without secrets does not cover this request.
		plan.Subject += " (with secret " + strings.Join(secretNames(r.secrets), ", ") + ")"
		plan.Preview.Notes = append(plan.Preview.Notes, secretNotes(r.secrets, r.host.Join(r.port))...)
	}
	if len(r.body) > 0 {
		plan.Preview.Notes = append(plan.Preview.Notes, fmt.Sprintf("Sends a body of %d bytes.", len(r.body)))
	}
	_, to, _ := strings.Cut(plan.Subject, " ")
	plan.SubjectCovers = fmt.Sprintf("any %s request to %s, any path and content", r.method, to)
	return plan
}

func (t fetch) risk(r request) int {
	risk := riskFetch
	switch r.method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		risk = riskSend
	case http.MethodDelete:
		risk = riskFetchDelete
	}
	if r.url.Scheme == "http" {
		risk += riskPlainHTTP
	}
	if _, ok := r.host.Addr(); ok {
		risk += riskAddress
	}
	if slices.ContainsFunc(r.credentials, func(h string) bool { return r.headers[h] != "" }) {
		risk += riskCredential
	}
	return risk
}
