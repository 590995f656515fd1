package catalog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/catalog"
	"palyra/internal/exec/wasm/guest"
	"palyra/internal/store/sqlite/guestdata"
	"palyra/internal/store/sqlite/sqlitetest"
)

// smallest is a command with a memory and an empty _start.
const smallest = "\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x05\x03\x01\x00\x01\x07\x13\x02\x06memory\x02\x00\x06_start\x00\x00\x0a\x04\x01\x02\x00\x0b"

// world is the environment of a catalog. Tests define its guest.
type world struct {
	t     *testing.T
	guest func(h guest.Host, c guest.Call) (sandbox.Report, error)
	calls []guest.Call
	// fetched are the grants of the requests.
	fetched []egress.Reach
	answer  tool.Report
	// secrets are the names and values of the secrets in the vault.
	secrets  map[string]string
	returned int
	broken   error
	config   catalog.Config
	pkg      *skill.Package
}

const manifest = `format = "palyra-skill/v1"
id = "notes"
name = "Notes"
version = "1.2.0"
publisher = "example.org"
[compatibility]
interface = "0.1.0"
[quotas]
wall_ms = 2000
uses = 5
[[tools]]
id = "go"
description = "Does something."
module = "modules/m.wasm"
input_schema = '{"type": "object"}'
output_schema = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
fuel = 500
risk = 33
[tools.capabilities]
`

func newWorld(t *testing.T, capabilities string) *world {
	t.Helper()
	w := &world{t: t, secrets: map[string]string{"global/api": "a value of the vault", "own/key": "another value"}, answer: tool.Report{Outcome: tool.Succeeded, Result: json.RawMessage(`{"status":200}`)}}
	m := must.Get(skill.ParseManifest([]byte(manifest + capabilities)))(t)
	w.pkg = &skill.Package{Manifest: m, Modules: map[string][]byte{"modules/m.wasm": []byte(smallest)}, Digest: "sha256:one"}
	w.guest = func(guest.Host, guest.Call) (sandbox.Report, error) {
		return sandbox.Report{Stdout: sandbox.Stream{Head: []byte(`{"n": 1}`)}}, nil
	}
	w.config = catalog.Config{
		Packages: w, Guests: w, Ready: func() error { return w.broken },
		Limits:      guest.Limits{Fuel: 100, MemoryBytes: 4 << 16, TableElements: 10, Wall: time.Minute, Output: 1000},
		FuelCeiling: 1000, ModuleBytes: 1 << 20, BytesOut: 1000, Web: w, Lender: w, Storage: guestdata.New(sqlitetest.Open(t)), StorageBytes: 50, Log: slog.New(slog.DiscardHandler),
	}
	return w
}

func (w *world) Load(context.Context, string, string) (*skill.Package, error) { return w.pkg, nil }

func (w *world) Run(_ context.Context, c guest.Call) (sandbox.Report, error) {
	w.calls = append(w.calls, c)
	return w.guest(c.Host, c)
}

func (w *world) Fetch(_ context.Context, _ tool.Call, _ json.RawMessage, within egress.Reach) tool.Report {
	w.fetched = append(w.fetched, within)
	return w.answer
}

func (w *world) Offers(_ context.Context, _ tool.Proposal, _ int, wanted func(egress.Secret) bool) (list []egress.Secret, more bool, err error) {
	for name := range w.secrets {
		if s := (egress.Secret{Name: name, Version: 3, Header: "Authorization"}); wanted(s) {
			list = append(list, s)
		}
	}
	return list, false, nil
}

func (w *world) Injectable(_ context.Context, _ tool.Proposal, name string) (tool.Injection, error) {
	if w.secrets[name] == "" {
		return tool.Injection{}, reason.Errorf(reason.NotFound, "secret %s not found", name)
	}
	return tool.Injection{Secret: name, Version: 3, Env: "API"}, nil
}

func (w *world) Inject(_ context.Context, _ tool.Call, list []tool.Injection, _ string) ([][]byte, func(), error) {
	var values [][]byte
	for _, i := range list {
		values = append(values, []byte(w.secrets[i.Secret]))
	}
	return values, func() { w.returned++ }, nil
}

func (w *world) tool() catalog.Tool {
	w.t.Helper()
	return must.Get(catalog.New(w.config).Tools(w.pkg.Manifest, w.pkg.Digest))(w.t)[0]
}

func proposal(who access.Caller) tool.Proposal {
	return tool.Proposal{ID: "01", Caller: who, Input: json.RawMessage(`{"x":1}`)}
}

var ann = access.Caller{Principal: access.Agent("helper"), OnBehalfOf: access.User("ann")}

// run plans, prepares and runs a call.
func (w *world) run(who access.Caller) tool.Report {
	w.t.Helper()
	prepared := must.Get(w.tool().Prepare(w.t.Context(), proposal(who)))(w.t)
	return prepared.Run(w.t.Context(), tool.Call{Proposal: proposal(who), Plan: prepared.Plan})
}

// asking makes the guest send requests, and do checks the answers.
func (w *world) asking(do func(ask func(function string, numbers []int32, first, second string) (int32, string))) {
	w.guest = func(h guest.Host, _ guest.Call) (sandbox.Report, error) {
		do(func(function string, numbers []int32, first, second string) (int32, string) {
			a := must.Get(h.Answer(w.t.Context(), function, numbers, []byte(first), []byte(second)))(w.t)
			return a.Value, string(a.Result)
		})
		return sandbox.Report{Stdout: sandbox.Stream{Head: []byte(`{"n": 1}`)}}, nil
	}
}

// TestPlan: the plan of a call contains all resources of the guest. Another package is another
// call.
func TestPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `http = ["api.example.org:443"]
secrets = [{name = "api", use = "placeholder"}, {name = "own/key", use = "read"}]
storage_bytes = 100
clock = true
`)
	one := w.tool()
	d := one.Descriptor()
	if d.Name != "notes/go" || d.Skill != "notes" || d.Executor != tool.TierAWasmtime || !d.Sensitive() || !slices.Equal(d.Capabilities, []tool.Capability{tool.Network, tool.SecretsRead}) || d.ReadOnly {
		t.Errorf("%+v", d)
	}
	p := must.Get(one.Plan(t.Context(), proposal(ann)))(t)
	if !slices.Equal(p.Facts.EgressHosts, []string{"api.example.org:443"}) || !slices.Equal(p.Facts.Secrets, []string{"global/api", "own/key"}) || p.Facts.Risk != 33 || p.Facts.SandboxTier != "a" || p.MaySend != 1000 {
		t.Errorf("%+v", p.Facts)
	}
	if len(p.Injections) != 1 || p.Injections[0].Secret != "own/key" || p.Injections[0].Env != "" {
		t.Errorf("%+v", p.Injections)
	}
	said := fmt.Sprint(p.Binding, p.Preview)
	for _, wants := range []string{"sha256:one", "notes 1.2.0", "fuel 500", "2s", "placeholder=secret:global/api@3", "read=secret:own/key@3", "storage of 50 bytes", "the real time", "It may send requests to api.example.org:443."} {
		if !strings.Contains(said, wants) {
			t.Errorf("the plan does not say %q: %s", wants, said)
		}
	}
	was := must.Get(p.Binding.Digest())(t)
	other := *w.pkg
	other.Digest = "sha256:two"
	w.pkg = &other
	if _, err := one.Plan(t.Context(), proposal(ann)); reason.Of(err) != reason.BindingMismatch {
		t.Errorf("a tool of another package: %v", err)
	}
	if is := must.Get(must.Get(w.tool().Plan(t.Context(), proposal(ann)))(t).Binding.Digest())(t); is == was {
		t.Error("another package is the same call")
	}
}

// TestPlanRefuses: a call that cannot run is refused before an approval. Control: TestPlan.
func TestPlanRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		capabilities string
		change       func(*world)
		code         reason.Code
	}{
		"no Tier A":                          {"", func(w *world) { w.broken = reason.Errorf(reason.SandboxUnavailable, "none") }, reason.SandboxUnavailable},
		"too much fuel":                      {"", func(w *world) { w.config.FuelCeiling = 499 }, reason.QuotaExceeded},
		"a module that is none":              {"", func(w *world) { w.pkg.Modules["modules/m.wasm"] = []byte("no") }, reason.InvalidInput},
		"a module too large":                 {"", func(w *world) { w.config.ModuleBytes = 10 }, reason.InputTooLarge},
		"a secret to read that is not there": {`secrets = [{name = "none", use = "read"}]`, func(*world) {}, reason.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.capabilities)
			c.change(w)
			if _, err := w.tool().Plan(t.Context(), proposal(ann)); reason.Of(err) != c.code {
				t.Errorf("%v, want %s", err, c.code)
			}
			if len(w.calls) > 0 {
				t.Error("a guest ran")
			}
		})
	}
}

// TestNothingWithoutAGrant: a guest without grants receives no resource, for any request and
// any guessed handle.
func TestNothingWithoutAGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.asking(func(ask func(string, []int32, string, string) (int32, string)) {
		for kind := range int32(8) {
			if h, _ := ask("grant_open", []int32{kind}, "storage", ""); h != -1 {
				t.Errorf("it opens kind %d: %d", kind, h)
			}
			if n, _ := ask("grant_count", []int32{kind}, "", ""); n != 0 {
				t.Errorf("it has %d of kind %d", n, kind)
			}
		}
		for handle := int32(-2); handle < 40; handle++ {
			for _, function := range []string{"http_request", "secret_read", "channel_send", "storage_get", "storage_put", "storage_delete", "storage_list", "grant_name"} {
				if n, text := ask(function, []int32{handle}, "k", "v"); n != -1 || text != "" {
					t.Errorf("%s of the handle %d gives %d %q", function, handle, n, text)
				}
			}
		}
		for _, function := range []string{"now", "random", "result_read", "exec"} {
			if n, _ := ask(function, nil, "", ""); n != -1 {
				t.Errorf("%s gives %d", function, n)
			}
		}
	})
	r := w.run(ann)
	if r.Outcome != tool.Succeeded || len(w.fetched) > 0 || w.calls[0].Clock || w.calls[0].Random {
		t.Errorf("%+v", r)
	}
	for _, g := range r.Grants {
		if g.Uses != 0 || g.Refused == 0 {
			t.Errorf("the report says %+v", g)
		}
	}
	if len(r.Grants) == 0 || len(r.Grants) > 40 {
		t.Errorf("%d grants are listed", len(r.Grants))
	}
}

// TestExactlyWhatIsGranted is the control of TestNothingWithoutAGrant. Each grant is used by
// its own handle and counted, and a handle cannot be used for another kind of grant.
func TestExactlyWhatIsGranted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `http = ["api.example.org:443", "*.wild.example"]
secrets = [{name = "api", use = "placeholder"}]
storage_bytes = 100
channels = ["chat"]
`)
	w.asking(func(ask func(string, []int32, string, string) (int32, string)) {
		open := func(kind int32, name string) []int32 {
			h, _ := ask("grant_open", []int32{kind}, name, "")
			return []int32{h}
		}
		if h := open(1, "*.wild.example"); h[0] != -1 {
			t.Error("a wildcard is granted that the settings do not allow")
		}
		web, storage, chat := open(1, "api.example.org:443"), open(3, "storage"), open(4, "chat")
		if n, text := ask("http_request", web, `{"url":"https://api.example.org/"}`, ""); n != int32(len(text)) || text != `{"status":200}` {
			t.Errorf("a request gives %d %s", n, text)
		}
		if n, _ := ask("storage_get", web, "k", ""); n != -1 {
			t.Errorf("the handle of a host stores: %d", n)
		}
		if n, text := ask("secret_read", open(2, "api"), "", ""); n != -2 || strings.Contains(text, "value of") {
			t.Errorf("a placeholder is read: %d %s", n, text)
		}
		if n, text := ask("channel_send", chat, "hello", ""); n != -2 || !strings.Contains(text, "not configured") {
			t.Errorf("%d %s", n, text)
		}
		if n, _ := ask("storage_put", storage, "k", "v"); n != 0 {
			t.Errorf("put gives %d", n)
		}
		if n, text := ask("storage_put", storage, "large", strings.Repeat("x", 60)); n != -5 {
			t.Errorf("too much is stored: %d %s", n, text)
		}
		if n, text := ask("storage_get", storage, "k", ""); n != -5 || text == "" {
			t.Errorf("the sixth use gives %d %s", n, text)
		}
	})
	r := w.run(ann)
	if got := fmt.Sprint(r.Grants); got != "[{channel chat 0 1} {http *.wild.example 0 1} {http api.example.org:443 1 0} {secret api 0 1} {storage  0 1} {storage storage 1 2}]" {
		t.Errorf("the report says %s", got)
	}
	if len(w.fetched) != 1 || fmt.Sprint(w.fetched[0].Rules.Allow) != "[api.example.org:443]" || len(w.fetched[0].Secrets) != 1 || w.fetched[0].Budget.BytesOut != 1000 {
		t.Errorf("asked was %+v", w.fetched)
	}
	// The storage of ann's agent belongs to ann, and others cannot read it.
	kept := func(who access.Caller) (n int32) {
		w.asking(func(ask func(string, []int32, string, string) (int32, string)) {
			h, _ := ask("grant_open", []int32{3}, "storage", "")
			n, _ = ask("storage_get", []int32{h}, "k", "")
		})
		w.run(who)
		return n
	}
	if n := kept(access.Caller{Principal: access.User("ann"), OnBehalfOf: access.User("ann")}); n != 1 {
		t.Errorf("ann reads %d", n)
	}
	if n := kept(access.Caller{Principal: access.Agent("helper"), OnBehalfOf: access.User("bob")}); n != -6 {
		t.Errorf("bob reads %d", n)
	}
}

// TestRequestsEnd: the number of bytes that a call sends is limited over all its requests.
func TestRequestsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `http = ["api.example.org:443"]`)
	w.answer.Egress.Observed = []tool.Connection{{Host: "api.example.org", BytesOut: 600}}
	w.asking(func(ask func(string, []int32, string, string) (int32, string)) {
		h, _ := ask("grant_open", []int32{1}, "api.example.org:443", "")
		for i, want := range []bool{true, true, false} {
			if n, text := ask("http_request", []int32{h}, `{}`, ""); (n > 0) != want {
				t.Errorf("request %d: %d %s", i, n, text)
			}
		}
	})
	if r := w.run(ann); len(w.fetched) != 2 || w.fetched[1].Budget.BytesOut != 400 || len(r.Egress.Observed) != 2 {
		t.Errorf("%+v %+v", w.fetched, r.Egress)
	}
	// The guest can read the reason of a refusal.
	w.answer = tool.Report{Outcome: tool.Failed, Reason: string(reason.EgressDenied), Message: "it is denied"}
	w.asking(func(ask func(string, []int32, string, string) (int32, string)) {
		h, _ := ask("grant_open", []int32{1}, "api.example.org:443", "")
		if n, text := ask("http_request", []int32{h}, `{}`, ""); n != -2 || text != "it is denied" {
			t.Errorf("%d %s", n, text)
		}
	})
	w.run(ann)
}

// TestSecretRead: a guest receives a secret that it may read, and its worker is not reused. The
// lease ends with the call, and the output does not contain the value. Control: the output
// contains a value that was not read.
func TestSecretRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `secrets = [{name = "api", use = "read"}]`)
	value := w.secrets["global/api"]
	spent, read := false, true
	w.guest = func(h guest.Host, _ guest.Call) (sandbox.Report, error) {
		if read {
			open := must.Get(h.Answer(t.Context(), "grant_open", []int32{2}, []byte("api"), nil))(t)
			a := must.Get(h.Answer(t.Context(), "secret_read", []int32{open.Value}, nil, nil))(t)
			if string(a.Result) != value || int(a.Value) != len(value) {
				t.Errorf("it reads %q", a.Result)
			}
			spent = a.Spent
		}
		return sandbox.Report{Stdout: sandbox.Stream{Head: fmt.Appendf(nil, `{"n": 1, "text": %q}`, value)}, Stderr: sandbox.Stream{Head: []byte("I have " + value)}}, nil
	}
	var logged string
	run := func() tool.Report {
		prepared := must.Get(w.tool().Prepare(t.Context(), proposal(ann)))(t)
		return prepared.Run(t.Context(), tool.Call{Proposal: proposal(ann), Plan: prepared.Plan, Output: func(_ string, chunk []byte) { logged = string(chunk) }})
	}
	r := run()
	if !spent || w.returned != 1 || strings.Contains(string(r.Result)+logged, value) || !strings.Contains(string(r.Result), "[secret global/api]") || len(r.Outputs.Redactions) != 1 {
		t.Errorf("spent %t, returned %d: %s %s", spent, w.returned, r.Result, logged)
	}
	read = false
	if r := run(); !strings.Contains(string(r.Result), value) || w.returned != 1 {
		t.Errorf("the control: %s", r.Result)
	}
}

// TestResults: a result conforms to the manifest, or the call fails with the guest's log.
func TestResults(t *testing.T) {
	t.Parallel()
	for output, says := range map[string]string{
		` {"n": 2, "m": [1]}` + "\n": "",
		`{"n": "two"}`:               "output_schema",
		`{}`:                         "output_schema",
		`[1]`:                        "not a JSON object",
		`hello`:                      "not JSON",
		``:                           "not JSON",
	} {
		w := newWorld(t, "")
		w.guest = func(guest.Host, guest.Call) (sandbox.Report, error) {
			return sandbox.Report{Stdout: sandbox.Stream{Head: []byte(output)}, Stderr: sandbox.Stream{Head: []byte("my last words")}}, nil
		}
		r := w.run(ann)
		switch {
		case says == "" && (r.Outcome != tool.Succeeded || string(r.Result) != `{"m":[1],"n":2}`):
			t.Errorf("%q: %+v", output, r)
		case says != "" && (r.Outcome != tool.Failed || r.Reason != string(reason.ToolFailed) || !strings.Contains(r.Message, says) || !strings.Contains(r.Message, "my last words")):
			t.Errorf("%q: %s %s", output, r.Reason, r.Message)
		}
	}
	w := newWorld(t, "")
	w.guest = func(guest.Host, guest.Call) (sandbox.Report, error) {
		return sandbox.Report{Usage: tool.Usage{Fuel: 500}}, reason.Errorf(reason.QuotaExceeded, "fuel: the guest used all")
	}
	if r := w.run(ann); r.Reason != string(reason.QuotaExceeded) {
		t.Errorf("%+v", r)
	}
}

// TestEndlessRequests: a guest that sends requests without end is stopped.
func TestEndlessRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.guest = func(h guest.Host, _ guest.Call) (sandbox.Report, error) {
		for range 2_000_000 {
			if _, err := h.Answer(t.Context(), "grant_count", []int32{1}, nil, nil); err != nil {
				return sandbox.Report{}, err
			}
		}
		t.Error("it asks for ever")
		return sandbox.Report{}, nil
	}
	if r := w.run(ann); r.Reason != string(reason.QuotaExceeded) {
		t.Errorf("%+v", r)
	}
}
