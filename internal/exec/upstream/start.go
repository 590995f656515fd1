package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/oklog/ulid/v2"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/egress/secret"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/exec/upstream/oauth"
)

// starter starts and dials instances.
type starter struct {
	use      *Config
	catalog  *catalog
	asker    *asker
	watchers *watchers
	states   states
	// processes counts the programs that run.
	processes sync.WaitGroup
}

// start starts or dials a server and completes the handshake. The end of ctx stops only this
// step, not the instance.
func (st *starter) start(ctx context.Context, l launch, lent []egress.Secret) (*instance, error) {
	in := &instance{
		id: l.server.Name + "/" + ulid.Make().String(), server: l.server, owner: l.owner, startedBy: l.by.Principal, made: l.key(),
		used: time.Now(), calls: calls{list: map[string]tool.Call{}}, handed: l.handed,
	}
	defer in.till.open(lent)()
	ctx, cancel := context.WithTimeoutCause(ctx, st.use.ConnectTime, reason.Errorf(reason.UpstreamUnavailable, "the upstream server %s did not answer within %s", l.server.Name, st.use.ConnectTime))
	defer cancel()
	var transport mcp.Transport
	var remote *mcp.StreamableClientTransport
	var err error
	if l.server.Remote() {
		remote, err = st.dial(in, l)
		transport = remote
		in.watching.listen = func(ctx context.Context) (*mcp.ClientSession, error) {
			further, err := st.dial(in, l)
			if err != nil {
				return nil, err
			}
			further.DisableStandaloneSSE = false
			return st.client(in).Connect(ctx, further, nil)
		}
	} else if err = st.spawn(ctx, in, l); err == nil {
		transport = in.process.pipe
	}
	if err == nil {
		in.session, err = st.client(in).Connect(ctx, transport, nil)
	}
	if err != nil {
		switch {
		case remote != nil && in.remote.speaksOld(ctx, remote):
			err = errOldTransport
		case ctx.Err() != nil:
			err = in.late(context.Cause(ctx))
		}
		in.close(err)
		in.discard()
		in.handed.forget() // also if the program was never started
		return nil, in.unavailable(err)
	}
	return in, nil
}

// spawn starts the program of a server in a sandbox and returns when it runs.
func (st *starter) spawn(ctx context.Context, in *instance, l launch) error {
	if pkg := l.server.Package; pkg != nil {
		if err := st.use.Prefixes.Check(l.server.Name, *pkg); err != nil {
			return err
		}
	}
	state, err := st.states.openState(l)
	if err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	p := &process{pipe: newPipe(write), ended: make(chan struct{})}
	in.process = p
	p.pipe.onNotification = in.calls.forward
	p.pipe.stray = func(line []byte) { st.stray(in, line) }
	st.catalog.noted(l.server.Name, func(k *kept) { k.stray = "" })
	started := make(chan struct{})
	spec := st.spec(in, l)
	spec.Caches = state
	spec.Session = &sandbox.Session{Stdin: read, Started: func(u sandbox.Underway) {
		p.underway = u
		close(started)
	}}
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	p.stop = stop
	if in.handed != nil {
		in.handed.given.Into(&spec)
		st.processes.Go(in.guard)
	}
	st.processes.Go(func() {
		defer in.handed.end()
		defer close(p.ended)
		p.final, p.failed = st.use.Runner.Run(running, spec)
		_ = p.pipe.fill.CloseWithError(io.EOF)
		stop(nil)
	})
	defer read.Close()
	select {
	case <-started:
		return nil
	case <-p.ended:
		return cmpErr(p.failed, errors.New("it ended before it started"))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func cmpErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// spec returns the sandbox specification.
func (st *starter) spec(in *instance, l launch) sandbox.Spec {
	limits := st.use.Limits
	// A server lives until it is idle. Its limits are memory, processes and written bytes.
	limits.CPU = mostCPU
	return sandbox.Spec{
		Argv: l.argv, Executable: l.program, WorkspaceRoot: l.root, WorkspaceName: l.server.Workspace, Workspace: l.mode, Protected: l.protected,
		Toolchains: l.chains, Env: l.server.Environment(), Limits: limits, Egress: egress.Strict, Network: st.network(l, &in.till), Required: st.use.Required,
		Owner: "mcp/" + l.server.Name + "/" + l.owner.String(),
		Output: func(stream string, chunk []byte) {
			if stream == "stderr" {
				in.process.stderr.add(chunk)
				return
			}
			_, _ = in.process.pipe.fill.Write(chunk) // without a reader the chunk is dropped
		},
	}
}

// mostCPU is the processor time of one instance. An idle server is ended long before.
const mostCPU = 24 * time.Hour

// network returns the hosts that the program may reach, nil for none.
func (st *starter) network(l launch, t *till) *egress.Reach {
	reach, err := l.server.Reach()
	if err != nil || len(reach.Rules.Allow) == 0 {
		return nil // an invalid rule allows nothing
	}
	reach.Rules.Gateway = st.use.Gateway
	reach.Secrets = t.from(l.secrets)
	return &reach
}

// dial returns the transport for a server with a URL. It reaches only the server's host and
// follows no redirects.
func (st *starter) dial(in *instance, l launch) (*mcp.StreamableClientTransport, error) {
	u, target, err := l.server.Target()
	if err != nil {
		return nil, err
	}
	allowed, err := egress.ParseRule(target.String())
	if err != nil {
		return nil, err
	}
	if in.remote.exchange == nil {
		in.remote.connections = egress.NewConnectionLog(time.Now())
		in.remote.exchange = secret.New("", in.till.from(l.visibleSecrets()))
	}
	dialer := &egress.Dialer{
		Rules: egress.Rules{Allow: []egress.Rule{allowed}, Deny: st.use.Denied, Gateway: st.use.Gateway}, Log: in.remote.connections, Resolver: st.use.Resolver, Interfaces: st.use.Interfaces,
	}
	plain := &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: st.use.Roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		MaxResponseHeaderBytes: 64 << 10, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 4,
	}
	return &mcp.StreamableClientTransport{
		Endpoint: u.String(),
		HTTPClient: &http.Client{
			Transport: inspectingTransport{addressed{secret.Transport{Next: measured{lingering{plain, st.use.LingerTime}}, Secrets: in.remote.exchange}, l.server, l.token, in.remote.exchange}, &in.calls, &in.remote},
			CheckRedirect: func(r *http.Request, _ []*http.Request) error {
				return reason.Errorf(reason.EgressDenied, "the upstream server %s redirects to %s, but the gateway does not follow redirects", l.server.Name, clean(r.URL.Redacted(), 200)).
					WithRemedy("If the new URL is correct, have an operator add the server again with that URL.")
			},
		},
		// A server may close the stream of a call, and the client then resumes it.
		MaxRetries: mostResumed, DisableStandaloneSSE: true,
	}, nil
}

// mostResumed is how often in a row a stream is resumed without progress.
const mostResumed = 2

// addressed adds the headers of a server, with placeholders for its secrets.
type addressed struct {
	next     http.RoundTripper
	server   declared.Server
	token    []egress.Secret
	exchange *secret.Exchange
}

// RoundTrip implements http.RoundTripper.
func (a addressed) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := r.Context(), context.CancelFunc(nil)
	if r.Method == http.MethodDelete { // the end of a session, which runs without a caller
		ctx, cancel = context.WithTimeout(ctx, graceTime)
		defer cancel()
	}
	r = r.Clone(ctx)
	r.Header.Set("User-Agent", "palyra")
	for _, h := range a.server.Headers {
		value := a.exchange.Placeholder(h.Secret)
		if h.Scheme != "" {
			value = h.Scheme + " " + value
		}
		r.Header.Set(h.Name, value)
	}
	for _, t := range a.token {
		r.Header.Set(t.Header, "Bearer "+a.exchange.Placeholder(t.Name))
	}
	response, err := a.next.RoundTrip(r)
	if err == nil && len(a.token) > 0 && response.StatusCode == http.StatusUnauthorized {
		_ = response.Body.Close()
		return nil, oauth.Rejected(a.server)
	}
	return response, err
}

// measured limits the size of a response.
type measured struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (m measured) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := m.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	most := int64(mostMessage)
	if response.Header.Get("Content-Type") != "application/json" {
		most = mostStream
	}
	response.Body = &bounding{response.Body, most}
	return response, nil
}

// mostStream is the maximum size of a message stream over HTTP.
const mostStream = 16 << 20

// bounding is a body that fails when it exceeds its limit.
type bounding struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *bounding) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, reason.Errorf(reason.UpstreamUnavailable, "the response of the upstream server is too large and was dropped")
	}
	return n, err
}
