package webhook_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/identity/login"
	"palyra/internal/surface/notify"
	"palyra/internal/surface/notify/notifytest"
	"palyra/internal/surface/notify/webhook"
)

// receiver is a webhook endpoint.
type receiver struct {
	server *httptest.Server
	got    chan delivered

	mu     sync.Mutex
	answer func(w http.ResponseWriter, n int)
	n      int
}

type delivered struct {
	header http.Header
	body   []byte
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{got: make(chan delivered, 100)}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		n, answer := r.n, r.answer
		r.n++
		r.mu.Unlock()
		r.got <- delivered{req.Header, body}
		if answer != nil {
			answer(w, n)
		}
	}))
	t.Cleanup(r.server.Close)
	return r
}

func (r *receiver) next(t *testing.T) delivered {
	t.Helper()
	return must.Receive(t, "a delivery", r.got)
}

var (
	newKey = bytes.Repeat([]byte{1}, 32)
	oldKey = bytes.Repeat([]byte{2}, 24)
)

// lend lends the secrets of a vault.
func lend(_ context.Context, name, _, _ string) ([]byte, func(), error) {
	values := map[string]string{
		"vault://global/new": webhook.Prefix + base64.StdEncoding.EncodeToString(newKey), "vault://global/old": base64.StdEncoding.EncodeToString(oldKey), "vault://global/bad": "x",
	}
	value, ok := values[name]
	if !ok {
		return nil, nil, reason.Errorf(reason.NotFound, "there is no secret %s", name)
	}
	return []byte(value), func() {}, nil
}

func (r *receiver) target(t *testing.T, include notify.Include, rules egress.Rules, secrets ...string) notify.Target {
	t.Helper()
	if rules.Allow == nil {
		rules.Allow = must.Get(egress.ParseRules([]string{strings.TrimPrefix(r.server.URL, "http://")}))(t)
	}
	dialer := &egress.Dialer{Rules: rules}
	return notify.Target{
		Name: "ops", Type: notify.Webhook, MinSeverity: "low", Include: include,
		Sender: webhook.New(webhook.Config{Gateway: "gateway.test", URL: r.server.URL + "/hook", Secrets: secrets, Lend: lend, Client: login.NewClient(dialer.DialContext, nil)}),
	}
}

// TestSigned: a delivery is signed according to Standard Webhooks, with both secrets if there are
// two. It contains only the allowed details of the call.
func TestSigned(t *testing.T) {
	t.Parallel()
	w, r := notifytest.New(t), newReceiver(t)
	w.Start(r.target(t, notify.IncludeNone, egress.Rules{}, "vault://global/new", "vault://global/old"))
	rec := w.Ask()
	got := r.next(t)
	id, at := got.header.Get(webhook.HeaderID), got.header.Get(webhook.HeaderTimestamp)
	want := webhook.Sign(newKey, id, at, got.body) + " " + webhook.Sign(oldKey, id, at, got.body)
	if got.header.Get(webhook.HeaderSignature) != want {
		t.Errorf("signed %q, want %q", got.header.Get(webhook.HeaderSignature), want)
	}
	// Control: another body has another signature.
	if webhook.Sign(newKey, id, at, append(got.body, ' ')) == strings.Fields(want)[0] {
		t.Error("the signature does not depend on the body")
	}
	var b struct {
		Type string
		Data struct {
			Gateway  string
			Link     string
			Approval map[string]any
		}
	}
	must.Do(t, json.Unmarshal(got.body, &b))
	if b.Type != "palyra.approval_asked" || b.Data.Gateway != "gateway.test" || b.Data.Approval["call_digest"] != rec.CallDigest || b.Data.Approval["version"] != 1.0 || !strings.HasSuffix(b.Data.Link, rec.ID) {
		t.Errorf("sent %s", got.body)
	}
	for _, told := range []string{"make", "argv", "Makefile"} {
		if bytes.Contains(got.body, []byte(told)) {
			t.Errorf("%s is in the body: %s", told, got.body)
		}
	}
	if d := w.Ended("ops", notify.ApprovalAsked); d.State != notify.Delivered || d.Attempts != 1 || d.ID != id {
		t.Errorf("kept %+v", d)
	}
	if list := w.Events(event.Notified); len(list) != 1 || !strings.Contains(string(list[0].Payload), rec.ID) {
		t.Errorf("journaled %v", list)
	}
	// This vector comes from the libraries of the specification.
	key := must.Get(webhook.Key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))(t)
	if got := webhook.Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`)); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("the vector is %s", got)
	}
}

// TestInclude: the summary and the arguments are sent to the targets that include them, without
// secrets.
func TestInclude(t *testing.T) {
	t.Parallel()
	w, r := notifytest.New(t), newReceiver(t)
	w.Start(r.target(t, notify.IncludeFull, egress.Rules{}, "vault://global/new"))
	w.Ask(func(a *approval.Ask) {
		a.Proposal.Tool.SecretPaths = []string{"/password"}
		a.Proposal.Input = json.RawMessage(`{"argv":["make","test"],"password":"hunter2"}`)
		a.Prompt.RequesterReason = "OPS-1, with AKIAIOSFODNN7EXAMPLE \u202e"
	})
	body := string(r.next(t).body)
	if !strings.Contains(body, "Run make test in default.") || !strings.Contains(body, `"command_line":"make test"`) || strings.Contains(body, "hunter2") ||
		!strings.Contains(body, `"requester_reason":"OPS-1, with [redacted]`) || strings.Contains(body, "AKIA") || strings.Contains(body, "\u202e") {
		t.Errorf("sent %s", body)
	}
}

// TestEgress: the egress rules apply to an endpoint. Listeners of the gateway, denied hosts,
// addresses without a rule, and redirect targets are not reached. Control: TestSigned.
func TestEgress(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	for name, rules := range map[string]egress.Rules{
		"a listener of the gateway": {Gateway: func() *egress.Gateway {
			g := &egress.Gateway{}
			g.Listen(r.server.Listener.Addr())
			return g
		}()},
		"a denied host":     {Deny: must.Get(egress.ParseRules([]string{"127.0.0.1"}))(t)},
		"no rule names it":  {Allow: must.Get(egress.ParseRules([]string{"example.org:443"}))(t)},
		"another port only": {Allow: must.Get(egress.ParseRules([]string{"127.0.0.1:1"}))(t)},
	} {
		target := r.target(t, notify.IncludeNone, rules, "vault://global/new")
		if _, err := target.Sender.Send(t.Context(), notify.Message{ID: "x"}); err == nil || strings.Contains(err.Error(), r.server.URL) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(r.got) != 0 {
		t.Fatalf("%d requests arrived", len(r.got))
	}
	other := newReceiver(t)
	r.answer = func(w http.ResponseWriter, _ int) {
		w.Header().Set("Location", other.server.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
	both := must.Get(egress.ParseRules([]string{strings.TrimPrefix(r.server.URL, "http://"), strings.TrimPrefix(other.server.URL, "http://")}))(t)
	target := r.target(t, notify.IncludeNone, egress.Rules{Allow: both}, "vault://global/new")
	if _, err := target.Sender.Send(t.Context(), notify.Message{ID: "x"}); err == nil || len(other.got) != 0 {
		t.Errorf("a redirect: %v, and %d arrived there", err, len(other.got))
	}
}

// TestDeliveryIsRetried: a failed delivery is attempted again with the same id, also after a restart. After a
// permanent error it is not.
func TestDeliveryIsRetried(t *testing.T) {
	t.Parallel()
	w, r := notifytest.New(t), newReceiver(t)
	r.answer = func(w http.ResponseWriter, n int) {
		if n < 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	target := r.target(t, notify.IncludeNone, egress.Rules{}, "vault://global/new")
	_, stop := w.Start(target)
	w.Ask()
	first := r.next(t)
	w.UntilStored(func() bool {
		list := must.Get(w.Store.Deliveries(t.Context(), notify.Filter{Size: 10}))(t)
		return len(list) == 1 && list[0].Attempts == 1 && list[0].Problem != "" && list[0].NextAt.After(list[0].QueuedAt)
	})
	stop() // the time of the retry is stored
	w.Hurry()
	_, stop = w.Start(target)
	second := r.next(t)
	w.UntilStored(func() bool {
		list := must.Get(w.Store.Deliveries(t.Context(), notify.Filter{Size: 10}))(t)
		return list[0].Attempts == 2
	})
	stop()
	w.Hurry()
	w.Start(target)
	third := r.next(t)
	if a, b, c := first.header.Get(webhook.HeaderID), second.header.Get(webhook.HeaderID), third.header.Get(webhook.HeaderID); a != b || b != c {
		t.Errorf("ids %s, %s, %s", a, b, c)
	}
	if d := w.Ended("ops", notify.ApprovalAsked); d.State != notify.Delivered || d.Attempts != 3 {
		t.Errorf("kept %+v", d)
	}
	r.answer = func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusGone) }
	w.Ask(func(a *approval.Ask) { a.Plan.Binding.Argv = []string{"make", "other"} })
	r.next(t)
	w.Until(func() bool {
		list := must.Get(w.Store.Deliveries(t.Context(), notify.Filter{Size: 1}))(t)
		return list[0].State == notify.Failed && list[0].Attempts == 1
	})
}

// TestSlowReceiver: a receiver that does not respond delays neither a vote nor another target.
func TestSlowReceiver(t *testing.T) {
	t.Parallel()
	w, dead, quick := notifytest.New(t), newReceiver(t), newReceiver(t)
	hold := make(chan struct{})
	dead.answer = func(http.ResponseWriter, int) { <-hold }
	t.Cleanup(func() { close(hold) })
	slow, fast := dead.target(t, notify.IncludeNone, egress.Rules{}, "vault://global/new"), quick.target(t, notify.IncludeNone, egress.Rules{}, "vault://global/new")
	slow.Name = "slow"
	w.Start(slow, fast)
	rec := w.Ask()
	dead.next(t) // it has received the request, and does not respond
	must.Get(w.Desk.Votes.Decide(t.Context(), approvaltest.Caller("ann"), rec.ID, approval.Ballot{Allow: true}))(t)
	for _, d := range must.Get(w.Store.Deliveries(t.Context(), notify.Filter{Target: "slow", Size: 10}))(t) {
		if d.State != notify.Queued || d.Attempts > 0 {
			t.Errorf("the vote took as long as a try to deliver: %+v", d)
		}
	}
	quick.next(t)
	if got := quick.next(t); !bytes.Contains(got.body, []byte("approval_decided")) {
		t.Errorf("the other target got %s", got.body)
	}
}

// TestHostileReceiver: the response of a receiver fills neither the memory nor the journal.
func TestHostileReceiver(t *testing.T) {
	t.Parallel()
	w, r := notifytest.New(t), newReceiver(t)
	r.answer = func(w http.ResponseWriter, _ int) {
		w.WriteHeader(http.StatusInternalServerError)
		for range 1000 {
			if _, err := w.Write(bytes.Repeat([]byte("\x1b[2J<script>"), 1000)); err != nil {
				return
			}
		}
	}
	s, _ := w.Start(r.target(t, notify.IncludeNone, egress.Rules{}, "vault://global/new"))
	d := must.Get(s.Test(t.Context(), "ops"))(t)
	if d.State != notify.Failed || strings.ContainsAny(d.Problem, "\x1b<") || len(d.Problem) > 300 {
		t.Errorf("kept %+v", d)
	}
	if n := s.Notices(); len(n) != 1 || !strings.Contains(n[0], "500") {
		t.Errorf("notices %q", n)
	}
	if _, err := s.Test(t.Context(), "none"); reason.Of(err) != reason.NotFound {
		t.Errorf("a test of an unknown target: %v", err)
	}
}

// TestQueueIsBounded: a target with a full queue drops further deliveries, and the drop is
// recorded.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	w, r := notifytest.New(t), newReceiver(t)
	target := r.target(t, notify.IncludeNone, egress.Rules{}, "vault://global/new")
	w.Fill("ops", 1000)
	w.Start(target)
	w.Ask()
	if d := w.Ended("ops", notify.ApprovalAsked); d.State != notify.Dropped || d.Problem == "" {
		t.Errorf("kept %+v", d)
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "whsec_", "whsec_!", base64.StdEncoding.EncodeToString(make([]byte, 23)), base64.StdEncoding.EncodeToString(make([]byte, 65))} {
		if _, err := webhook.Key(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	r := newReceiver(t)
	for _, name := range []string{"vault://global/bad", "vault://global/none"} {
		if _, err := r.target(t, notify.IncludeNone, egress.Rules{}, name).Sender.Send(t.Context(), notify.Message{ID: "x"}); err == nil || len(r.got) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
