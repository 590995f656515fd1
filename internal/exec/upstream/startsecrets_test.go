//go:build unix

package upstream_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/lend"
	"palyra/internal/exec/upstream"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/vault"
	"palyra/internal/vault/vaulttest"
)

const rawValue = "raw-s3cr3t-value-0123456789"

var alice = gatewaytest.Person(policytest.Alice, access.RoleOwner)

// vaulted is a world with a vault that has one secret for programs.
type vaulted struct {
	*world

	vault *vault.Service
	kept  *vaulttest.Store
	ref   vault.Ref
}

func newVaulted(t *testing.T, change ...func(*upstream.Config)) *vaulted {
	t.Helper()
	w := &vaulted{kept: vaulttest.NewStore(t), ref: vault.Ref{Scope: "global", Key: "signing"}}
	w.vault = must.Get(vault.New(vault.Config{Store: w.kept, Keys: vault.NewWrapper(vaulttest.NewKeys(), w.kept), Judge: judge{}}))(t)
	desk := lend.New(time.Minute, slog.New(slog.DiscardHandler))
	desk.Serve(w.vault)
	must.Run(t, func(ctx context.Context) error { return w.vault.Leases.Run(ctx, func(error) {}) })
	w.put(t, rawValue)
	w.world = newWorld(t, append([]func(*upstream.Config){func(c *upstream.Config) { c.Lender = desk }}, change...)...)
	return w
}

func (w *vaulted) put(t *testing.T, value string) {
	t.Helper()
	env := "SIGNING_KEY"
	must.Get(w.vault.Put(t.Context(), alice, w.ref, []byte(value), vault.Metadata{Env: &env}))(t)
}

func injects(s *declared.Server) { s.Inject = []string{"global/signing"} }

// signer is a server that reads its variable: it returns its length, and the value in several
// encodings.
func signer(c *conversation) {
	value := ""
	for _, pair := range c.env {
		if v, is := strings.CutPrefix(pair, "SIGNING_KEY="); is {
			value = v
		}
	}
	serve(func(s *mcp.Server) {
		add(s, "length", "", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text(fmt.Sprint(len(value))), nil
		})
		add(s, "reveal", "", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			c.err([]byte(value))
			if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Message: value}); err != nil {
				return nil, err
			}
			return text(value + " " + base64.StdEncoding.EncodeToString([]byte(value))), nil
		})
	})(c)
}

// begin starts a call and returns a channel with its result.
func (w *vaulted) begin(c access.Caller, name string) func() (tool.Report, error) {
	type end struct {
		r   tool.Report
		err error
	}
	ended := make(chan end, 1)
	go func() {
		r, err := w.callAs(c, name, `{}`, tool.Peer{})
		ended <- end{r, err}
	}()
	return func() (tool.Report, error) { e := <-ended; return e.r, e.err }
}

// answer waits for a question and answers it.
func (w *vaulted) answer(allow bool) (rec approval.Record) {
	w.t.Helper()
	until(w.t, func() bool {
		list, _, err := w.Desk.Records.List(w.t.Context(), approval.Filter{Traits: approval.Traits{States: []approval.State{approval.Pending}}, PageSize: 10})
		if err != nil || len(list) == 0 {
			return false
		}
		rec = list[0]
		return true
	})
	must.Get(w.Desk.Votes.Decide(w.t.Context(), alice, rec.ID, approval.Ballot{Allow: allow}))(w.t)
	return rec
}

// addSigner adds the server, starts it for the operator, and inspects it.
func (w *vaulted) addSigner(change ...func(*declared.Server)) {
	w.t.Helper()
	state := w.add("signer", signer, append(change, injects)...)
	if state.Problem == "" || !strings.Contains(state.Remedy, "palyra mcp refresh signer") || w.runner.started() != 0 {
		w.t.Fatalf("before anybody said yes: %q, %q, %d started", state.Problem, state.Remedy, w.runner.started())
	}
	end := w.begin(operator, "signer/mcp.start")
	w.answer(true)
	if r, err := end(); err != nil || r.Outcome != tool.Succeeded {
		w.t.Fatalf("%v, %+v", err, r)
	}
	must.Get(w.Refresh(w.t.Context(), operator, "signer"))(w.t)
}

func (w *vaulted) leases() int {
	w.t.Helper()
	return len(must.Get(w.vault.Leases.List(alice))(w.t))
}

// TestStartSecrets: a server receives a secret as a plain value only after its start was approved. Its
// output is scrubbed of the value, and the lease lasts as long as the server runs.
func TestStartSecrets(t *testing.T) {
	t.Parallel()
	w := newVaulted(t)
	w.addSigner()
	// An agent has its own instance, whose start requires another approval.
	end := w.begin(gatewaytest.Agent, "signer/length")
	rec := w.answer(true)
	if rec.SubjectType != approval.SubjectSecretAccess || rec.SubjectID != "vault://global/signing@1" {
		t.Errorf("asked about %s %s", rec.SubjectType, rec.SubjectID)
	}
	prompt := rec.Prompt.Summary + strings.Join(rec.Prompt.Notes, "\n")
	for _, want := range []string{"agent:coder, for user:alice,", "the upstream server signer", "vault://global/signing, version 1", "variable SIGNING_KEY", "until the server stops, which is after 24h0m0s at the latest", "this start only"} {
		if !strings.Contains(prompt, want) {
			t.Errorf("%q is not in the prompt:\n%s", want, prompt)
		}
	}
	if r, err := end(); err != nil || resultText(t, r) != fmt.Sprint(len(rawValue)) {
		t.Fatalf("%v, %+v", err, r)
	}
	started := w.runner.started()
	reveal := func() (r tool.Report, progress string) {
		r, err := w.callAs(gatewaytest.Agent, "signer/reveal", `{}`, tool.Peer{Progress: func(p tool.Progress) { progress += p.Message }})
		if err != nil || r.Outcome != tool.Succeeded {
			t.Fatalf("%v, %+v", err, r)
		}
		return r, progress
	}
	r, progress := reveal()
	if progress != "[secret global/signing]" {
		t.Errorf("it tells the client %q", progress)
	}
	if w.runner.started() != started {
		t.Error("the next call started it anew")
	}
	if got := resultText(t, r); strings.Contains(got, rawValue) || strings.Contains(got, base64.StdEncoding.EncodeToString([]byte(rawValue))) || strings.Count(got, "[secret global/signing]") != 2 {
		t.Errorf("it says %q", got)
	}
	if n := w.leases(); n != 2 {
		t.Errorf("%d leases while it runs", n)
	}
	w.Pool.EndIdle()
	until(t, func() bool { return w.leases() == 0 })
	var codes []event.Code
	for _, e := range w.kept.Events() {
		codes = append(codes, e.Code)
		if strings.Contains(string(e.Payload), rawValue) {
			t.Errorf("the journal has it: %s", e.Payload)
		}
		if e.Code == event.SecretUsed && !strings.Contains(string(e.Payload), "variable SIGNING_KEY of the upstream server signer") {
			t.Errorf("it was for %s", e.Payload)
		}
	}
	if n := len(slices.DeleteFunc(codes, func(c event.Code) bool { return c != event.SecretLeased && c != event.SecretLeaseEnded })); n != 4 {
		t.Errorf("%d events of leases", n)
	}
	// Control: without scrubbing in the sandbox the value reaches the client.
	w.source = letsAll + `@id("signing") @waives("approval: a test") permit(principal, action == Action::"secret.inject", resource);`
	must.Do(t, w.Rebuild(t.Context(), ""))
	w.runner.mu.Lock()
	w.runner.unscrubbed = true
	w.runner.mu.Unlock()
	if _, progress := reveal(); progress != rawValue {
		t.Errorf("the control tells the client %q", progress)
	}
}

// TestStartSecretsDenied: no program starts after a refusal, and the error of the call contains
// the reason.
func TestStartSecretsDenied(t *testing.T) {
	t.Parallel()
	w := newVaulted(t)
	w.addSigner()
	w.Pool.EndIdle()
	started, events := w.runner.started(), len(w.kept.Events())
	end := w.begin(gatewaytest.Agent, "signer/length")
	w.answer(false)
	if r, err := end(); err != nil || r.Reason != string(reason.ApprovalDenied) || !strings.Contains(r.Message, "signer was not started") {
		t.Errorf("%v, %+v", err, r)
	}
	w.source = letsAll + `@id("no-signing") @reason("for nobody") forbid(principal, action == Action::"secret.inject", resource) when { context.injection.server == "signer" };`
	must.Do(t, w.Rebuild(t.Context(), ""))
	w.fails("signer/length", `{}`, reason.PolicyDenied)
	w.source = letsAll + `@id("no-start") @reason("for nobody") forbid(principal, action in Action::"mcp.start", resource);`
	must.Do(t, w.Rebuild(t.Context(), ""))
	w.fails("signer/length", `{}`, reason.PolicyDenied)
	if got := w.runner.started(); got != started || w.leases() != 0 || len(w.kept.Events()) != events {
		t.Errorf("%d started, %d before; %d leases", got, started, w.leases())
	}
	// Control: policy may waive the approval, and then the same call runs.
	w.source = letsAll + `@id("signing") @waives("approval: a test") permit(principal, action == Action::"secret.inject", resource) when { context.injection.server == "signer" };`
	must.Do(t, w.Rebuild(t.Context(), ""))
	if got := resultText(t, w.works("signer/length", `{}`)); got != fmt.Sprint(len(rawValue)) {
		t.Errorf("it got %q", got)
	}
}

// TestStartSecretsRevoked: a running program ends when its secret is removed. Another value requires
// another approval.
func TestStartSecretsRevoked(t *testing.T) {
	t.Parallel()
	w := newVaulted(t)
	w.addSigner()
	w.Pool.EndIdle()
	w.source = letsAll + `@id("signing") @waives("approval: a test") permit(principal, action == Action::"secret.inject", resource);`
	must.Do(t, w.Rebuild(t.Context(), ""))
	first := w.works("signer/length", `{}`)
	w.put(t, rawValue+"-and-more")
	second := w.works("signer/length", `{}`)
	if resultText(t, second) != fmt.Sprint(len(rawValue+"-and-more")) || first.Executor.Instance == second.Executor.Instance {
		t.Errorf("after another value %s, %s", second.Result, second.Executor.Instance)
	}
	until(t, func() bool { return w.leases() == 1 })
	must.Do(t, w.vault.Remove(t.Context(), alice, w.ref))
	until(t, func() bool { return must.Get(w.Show("signer"))(t).Instances == 0 })
	w.fails("signer/length", `{}`, reason.NotFound)
}

// TestEndOfCaller: instances that belong to a caller, or were started by one of its calls, end
// immediately with their leases. They end even if they ignore the end of their input. Instances
// of others continue.
func TestEndOfCaller(t *testing.T) {
	t.Parallel()
	w := newVaulted(t)
	w.addSigner(func(s *declared.Server) { s.Shared = true })
	w.add("own", serve(hello))
	w.Pool.EndIdle()
	w.source = letsAll + `@id("signing") @waives("approval: a test") permit(principal, action == Action::"secret.inject", resource);`
	must.Do(t, w.Rebuild(t.Context(), ""))
	w.works("signer/length", `{}`)
	w.works("own/hello", `{}`)
	must.Get(w.callAs(alice, "own/hello", `{}`, tool.Peer{}))(t)
	instances := func(name string) int { return must.Get(w.Show(name))(t).Instances }
	if instances("signer") != 1 || instances("own") != 2 || w.leases() != 1 {
		t.Fatalf("%d and %d instances, %d leases", instances("signer"), instances("own"), w.leases())
	}
	must.Do(t, w.vault.EndOf(t.Context(), access.User("nobody")))
	if ended := w.Pool.EndOf(access.User("nobody")); len(ended) != 0 || instances("own") != 2 || w.leases() != 1 {
		t.Errorf("the end of another principal ended %v; %d instances are left, %d leases", ended, instances("own"), w.leases())
	}
	must.Do(t, w.vault.EndOf(t.Context(), gatewaytest.Agent.Principal))
	if w.leases() != 0 {
		t.Errorf("%d leases", w.leases())
	}
	w.Manager.Pool.EndOf(gatewaytest.Agent.Principal)
	until(t, func() bool { return instances("signer") == 0 && instances("own") == 1 })
	if ended := w.Manager.Pool.EndOf(gatewaytest.Agent.Principal); len(ended) != 0 {
		t.Errorf("a second end ended %v", ended)
	}
}

// TestEndOfCallerDuringACall: the end of a caller also ends its instance during a call that the
// server does not abort. On a shared instance that the caller's call started, a call of another
// principal is completed; the instance ends after it.
func TestEndOfCallerDuringACall(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %t", shared), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			entered, release := make(chan struct{}), make(chan struct{})
			done := sync.OnceFunc(func() { close(release) })
			t.Cleanup(done)
			w.add("held", func(c *conversation) {
				serve(func(s *mcp.Server) {
					add(s, "wait", "", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
						entered <- struct{}{}
						select {
						case <-release:
						case <-c.ctx.Done(): // the process is killed
						}
						return text("done"), nil
					})
				})(c)
			}, func(s *declared.Server) { s.Shared = shared })
			w.Pool.EndIdle()
			w.works("held/hello", `{}`) // starts the instance
			by := gatewaytest.Agent
			if shared {
				by = alice
			}
			answered := make(chan tool.Report, 1)
			go func() {
				r, _ := w.callAs(by, "held/wait", `{}`, tool.Peer{})
				answered <- r
			}()
			<-entered
			if ended := w.Manager.Pool.EndOf(gatewaytest.Agent.Principal); len(ended) != 1 || ended[0].Server != "held" || ended[0].Shared != shared {
				t.Errorf("%+v ended", ended)
			}
			if shared {
				done()
			}
			until(t, func() bool { return len(answered) == 1 })
			if r := <-answered; (r.Outcome == tool.Succeeded) != shared {
				t.Errorf("the call ended with %s: %s", r.Outcome, r.Message)
			}
			until(t, func() bool { return must.Get(w.Show("held"))(t).Instances == 0 })
		})
	}
}

// TestPermissionsReducedDuringStart: a server that started while its caller lost permissions ends, and the
// call is refused.
func TestPermissionsReducedDuringStart(t *testing.T) {
	t.Parallel()
	var reduced atomic.Bool
	w := newWorld(t, func(c *upstream.Config) {
		c.Standing = func(access.Caller) error {
			if reduced.Load() {
				return reason.Errorf(reason.Unauthenticated, "the device was revoked")
			}
			return nil
		}
	})
	w.add("own", serve(hello))
	w.Pool.EndIdle()
	w.works("own/hello", `{}`) // control
	w.Pool.EndIdle()
	reduced.Store(true)
	w.fails("own/hello", `{}`, reason.Unauthenticated)
	until(t, func() bool { return must.Get(w.Show("own"))(t).Instances == 0 })
}

// TestStartSecretsApprovedOnce: concurrent calls request one approval. A call that stops
// waiting does not affect the others.
func TestStartSecretsApprovedOnce(t *testing.T) {
	t.Parallel()
	w := newVaulted(t)
	w.addSigner()
	started := w.runner.started()
	var ends []func() (tool.Report, error)
	for range 3 {
		ends = append(ends, w.begin(gatewaytest.Agent, "signer/length"))
	}
	w.answer(true)
	for _, end := range ends {
		if r, err := end(); err != nil || r.Outcome != tool.Succeeded {
			t.Errorf("%v, %s %s", err, r.Reason, r.Message)
		}
	}
	if got := w.runner.started(); got != started+1 {
		t.Errorf("%d were started", got-started)
	}
}

// TestInjectDeclared covers invalid and conflicting declarations of injected secrets.
func TestInjectDeclared(t *testing.T) {
	t.Parallel()
	w := newVaulted(t)
	for name, s := range map[string]declared.Server{
		"a URL":          {URL: "https://mcp.example.org", Inject: []string{"global/signing"}},
		"both ways":      {Command: []string{"true"}, Hosts: []string{"a.example.org:443"}, Secrets: []string{"global/signing"}, Inject: []string{"global/signing"}},
		"another scheme": {Command: []string{"true"}, Inject: []string{"vault://global/signing"}},
	} {
		s.Name = "x"
		if err := s.Check(); reason.Of(err) != reason.InvalidInput {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A secret with hosts is used by its placeholder, so it may also be placed in a variable.
	hosts := []string{"api.example.org:443"}
	must.Get(w.vault.Put(t.Context(), alice, vault.Ref{Scope: "global", Key: "placed"}, []byte(rawValue), vault.Metadata{Hosts: &hosts}))(t)
	w.add("placed", signer, func(s *declared.Server) { s.Inject = []string{"global/placed"} })
	w.fails("placed/mcp.start", `{}`, reason.InvalidInput)
	w.add("taken", signer, injects, func(s *declared.Server) { s.Env = map[string]string{"SIGNING_KEY": "x"} })
	w.fails("taken/mcp.start", `{}`, reason.InvalidInput)
	if n := w.runner.started(); n != 0 {
		t.Errorf("%d were started", n)
	}
}
