// Package clitest provides a test environment for commands: a fake gateway with approvals, runs and
// a journal, and a machine with a credential bundle for it.
package clitest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/timestamppb"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/cli"
	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/ca/catest"
	"palyra/internal/store/sqlite"
)

// World is a fake gateway and a machine with a credential bundle for it.
type World struct {
	T       *testing.T
	Gateway *Gateway
	Server  *httptest.Server
	Address string
	Home    string
	Bundle  string
	Env     map[string]string
	// Now is the CLI's clock, with the time of golden files.
	Now time.Time
	Arm time.Duration
	CA  *catest.Authority
	// Again, if set, is the second interrupt of a run.
	Again <-chan struct{}
	// Terminal is the session of the terminal in which commands run, "" for none.
	Terminal string
}

// Now is the time of golden files.
var Now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

const serverName = "gateway.test"

// NewWorld returns a world whose gateway runs until the test ends.
func NewWorld(t *testing.T) *World {
	t.Helper()
	w := &World{
		T: t, Home: t.TempDir(), Now: Now, CA: NewAuthority(t),
	}
	w.Gateway = newFakeGateway(w)
	w.Bundle = filepath.Join(w.Home, "bundle")
	w.Env = map[string]string{
		"HOME": w.Home, "PALYRA_CREDENTIALS": w.Bundle,
		"XDG_STATE_HOME": filepath.Join(w.Home, "state"), "XDG_CONFIG_HOME": filepath.Join(w.Home, "config"),
	}
	w.serve()
	life, end := context.WithCancel(context.Background())
	w.Gateway.life, w.Gateway.hangUp = life, w.Server.CloseClientConnections
	t.Cleanup(func() { end(); w.Gateway.Runs.Wait.Wait() })
	w.WriteBundle(time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
	return w
}

func (w *World) serve() {
	w.T.Helper()
	w.Server = httptest.NewUnstartedServer(known(w.Gateway.handler()))
	w.Server.EnableHTTP2 = true
	pool := x509.NewCertPool()
	pool.AddCert(w.CA.Cert)
	w.Server.TLS = &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool,
		Certificates: []tls.Certificate{w.CA.Issue(w.T, &x509.Certificate{
			DNSNames: []string{serverName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		})},
	}
	w.Server.StartTLS()
	w.T.Cleanup(func() {
		w.Server.CloseClientConnections()
		w.Server.Close()
	})
	w.Address = w.Server.Listener.Addr().String()
}

// known admits requests with a certificate or the one token, and the requests of a login.
func known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r, ok := stranger(r); ok {
			next.ServeHTTP(rw, r)
			return
		}
		strange := strings.HasPrefix(r.URL.Path, "/"+palyrav1connect.LoginServiceName+"/") && r.URL.Path != palyrav1connect.LoginServiceEndLoginProcedure
		if !strange && len(r.TLS.PeerCertificates) == 0 && r.Header.Get("Authorization") != "Bearer "+TokenText {
			_ = connect.NewErrorWriter().Write(rw, r, GatewayError(connect.CodeUnauthenticated, reason.Unauthenticated, "a client certificate or a token is required", nil))
			return
		}
		next.ServeHTTP(rw, r)
	})
}

// WriteBundle writes a credential bundle with a validity period.
func (w *World) WriteBundle(from, to time.Time) {
	w.T.Helper()
	key := catest.Key(w.T)
	must.Do(w.T, identity.WriteBundle(w.Bundle, identity.Bundle{
		Root: w.CA.Cert, Chain: []*x509.Certificate{w.deviceCertificate(BundleDevice, key.Public(), from, to)}, Key: key,
		Address: w.Address, ServerName: serverName,
	}))
}

// deviceCertificate returns a certificate for the key of a device.
func (w *World) deviceCertificate(id string, public any, from, to time.Time) *x509.Certificate {
	w.T.Helper()
	return w.CA.Sign(w.T, &x509.Certificate{
		URIs:      []*url.URL{{Scheme: "spiffe", Host: "test", Path: "/device/" + id}},
		NotBefore: from, NotAfter: to, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, public)
}

func certificatePEM(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

// Result is the result of a command.
type Result struct {
	Code int
	Out  string
	Err  string
}

// Run runs a command without a terminal.
func (w *World) Run(args ...string) Result { return w.With(printer.Streams{}, args...) }

// With runs a command with the given streams; unset streams are empty.
func (w *World) With(s printer.Streams, args ...string) Result {
	w.T.Helper()
	return w.Within(context.Background(), s, args...)
}

// Within is With with a context.
func (w *World) Within(ctx context.Context, s printer.Streams, args ...string) Result {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	if s.In == nil {
		s.In = bytes.NewReader(nil)
	}
	s.Out = also(&out, s.Out)
	s.Err = also(&errs, s.Err)
	s.Getenv = func(name string) string { return w.Env[name] }
	s.Environ = func() (list []string) {
		for name, value := range w.Env {
			list = append(list, name+"="+value)
		}
		return list
	}
	a := client.NewApp(s)
	a.VerifyStore = sqlite.Verify
	a.Now = func() time.Time { return w.Now }
	a.Arm = w.Arm
	a.Retry, a.Terminal = time.Millisecond, w.Terminal
	a.Interrupt = w.interrupt
	code := cli.Execute(ctx, a, args)
	return Result{Code: code, Out: out.String(), Err: errs.String()}
}

// interrupt replaces the signal of a second Ctrl-C.
func (w *World) interrupt(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-w.Again:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func also(to io.Writer, more io.Writer) io.Writer {
	if more == nil {
		return to
	}
	return io.MultiWriter(to, more)
}

// Typing returns the streams of a person who types lines at a terminal without colours.
func Typing(lines string) printer.Streams {
	return printer.Streams{In: bytes.NewReader([]byte(lines)), InTerminal: true, OutTerminal: true, ErrTerminal: true}
}

// Want fails the test unless a command exited with a code.
func (w *World) Want(r Result, code int) {
	w.T.Helper()
	if r.Code != code {
		w.T.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.Code, code, r.Out, r.Err)
	}
}

// Cases are commands with their exit codes and a part of their output.
type Cases = []struct {
	Name string
	Args []string
	Code int
	Want string
}

// Cases runs commands that have their first words in common. None of them writes a control
// sequence.
func (w *World) Cases(first string, list Cases) {
	w.T.Helper()
	for _, c := range list {
		w.T.Run(c.Name, func(t *testing.T) {
			r := w.Run(append(strings.Fields(first), c.Args...)...)
			if r.Code != c.Code || !strings.Contains(r.Out+r.Err, c.Want) {
				t.Errorf("exit %d, want %d with %q:\n%s%s", r.Code, c.Code, c.Want, r.Out, r.Err)
			}
			if strings.Contains(r.Out+r.Err, "\x1b[2J") {
				t.Error("a control sequence reached the terminal")
			}
		})
	}
}

// NewAuthority returns a separate CA.
func NewAuthority(t *testing.T) *catest.Authority {
	t.Helper()
	return catest.New(t, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour))
}

// ClosedAddress is an address without a listener: port 1 is unassigned, and a listener on port
// 0 never gets it.
const ClosedAddress = "127.0.0.1:1"

// Plays makes a call send exactly these events.
func (w *World) Plays(list ...*palyrav1.CallToolResponse) {
	w.Gateway.Play = func(_ context.Context, _ *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error {
		return Play(send, list...)
	}
}

// Answered makes a call require an approval, which another user decides immediately.
func (w *World) Answered(state palyrav1.ApprovalState) {
	v := SomeApproval()
	w.Gateway.Asks(v, Finished("succeeded", "", `{}`))
	inner := w.Gateway.Play
	w.Gateway.Play = func(ctx context.Context, req *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error {
		return inner(ctx, req, func(m *palyrav1.CallToolResponse) error {
			err := send(m)
			if m.GetApprovalRequested() != nil {
				go w.Gateway.Change(func() { w.Gateway.Approvals[ApprovalID].State = state })
			}
			return err
		})
	}
}

// Pending adds a pending approval to the gateway.
func (w *World) Pending() { w.Gateway.Approvals[ApprovalID] = SomeApproval() }

// Decided adds a denied approval to the gateway.
func (w *World) Decided() {
	w.Pending()
	w.Gateway.Approvals[ApprovalID].State = palyrav1.ApprovalState_APPROVAL_STATE_DENIED
}

// Write writes a file below the home directory and returns its path.
func (w *World) Write(name, text string) string {
	w.T.Helper()
	path := filepath.Join(w.Home, name)
	must.Do(w.T, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(w.T, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Read reads a file.
func (w *World) Read(path string) string {
	w.T.Helper()
	text := must.Get(os.ReadFile(path))(w.T)
	return string(text)
}

// Config writes palyra.toml.
func (w *World) Config(text string) { w.Write("config/palyra/palyra.toml", text) }

// DecideArgs returns the arguments that answer the approval with the digest of its call.
func DecideArgs(args ...string) []string {
	return append([]string{"approvals", "decide", ApprovalID, "--digest", SomeApproval().GetCallDigest()}, args...)
}

// ProcessJSON returns a result in the form of process.run; a negative exit code is omitted.
func ProcessJSON(code int, stdout, stderr string) string {
	stream := func(s string) printer.Object {
		return printer.Object{{"content", s}, {"encoding", "utf-8"}, {"total_bytes", len(s)}, {"truncated", false}}
	}
	body := printer.Object{{"stdout", stream(stdout)}, {"stderr", stream(stderr)}}
	if code >= 0 {
		body = append(body, printer.Member{"exit_code", code})
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Populate adds objects of every kind to the gateway.
func (w *World) Populate() {
	g := w.Gateway
	g.frozen = nil
	g.Runs.Listed = OlderRuns()
	g.Listed = OlderCalls()
	g.Approvals[ApprovalID] = SomeApproval()
	old := SomeApproval()
	old.ApprovalId, old.State, old.AnsweredAt = "01APPROVA00000000000000000", palyrav1.ApprovalState_APPROVAL_STATE_CONSUMED, ago(time.Minute)
	old.Severity, old.Missing = "low", ""
	g.Approvals[old.ApprovalId] = old
	g.Grants["01GRANT0000000000000000000"] = &palyrav1.Grant{
		GrantId: "01GRANT0000000000000000000", ApprovalId: ApprovalID, Scope: palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED,
		Match: palyrav1.GrantMatch_GRANT_MATCH_SUBJECT, Tool: "process.run", Subject: "process.run:/usr/bin/git@demo", Principal: "agent:claude",
		Session: "default", Approvers: []string{"user:ada"}, CreatedAt: ago(time.Hour), ExpiresAt: timestamppb.New(Now.Add(90 * time.Minute)),
		Uses: 3, LastUsedAt: ago(time.Minute),
	}
	g.Devices = []*palyrav1.Device{{DeviceId: "01DEVICE000000000000000000", Principal: "user:ada", Name: "laptop", CreatedAt: now, CertificateExpiresAt: timestamppb.New(Now.Add(time.Hour))}}
	g.changeSets = someChangeSets()
	g.Tools = []*palyrav1.Tool{{
		Name: "process.run", Title: "Run a program", Description: "Runs a program in a sandbox.\nIt has no network.", InputSchemaJson: []byte(`{"type":"object","properties":{"argv":{"type":"array"}}}`),
		Capabilities: []string{"process_exec"}, Executor: "sandbox_tier_c_linux_bubblewrap", Destructive: true, Sensitive: true, MayAsk: true, DefinitionDigest: "sha256:dd",
	}}
	g.Hidden = []*palyrav1.HiddenTool{{
		Tool:   &palyrav1.Tool{Name: "http.fetch", Title: "Fetch a page", InputSchemaJson: []byte(`{"properties":{"url":{"type":"string"}}}`), Executor: "gateway", DefinitionDigest: "sha256:ee"},
		Reason: "POLICY_DENIED", Message: "the tool is not among the allowed tools", Remedy: "Ask an operator to add the tool to allowed_tools.",
		Determining: []*palyrav1.Determining{{PolicyId: "ceiling.tool-allowlist", File: "10-ceilings.cedar", Line: 4, Effect: "forbid"}},
	}}
	g.findings = []*palyrav1.PolicyFinding{{
		Severity: "error", Code: "unknown_name", File: "20-exec.cedar", Line: 3, Column: 9, Message: "context.args.pth is not known",
		SourceLine: "  when { context.args.pth == 1 };", Help: "did you mean path?", PolicyId: "exec.git",
	}}
}

// Unsafe reports a control character or an invisible character.
func Unsafe(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) ||
		unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Variation_Selector, r))
}
