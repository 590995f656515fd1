//go:build linux

package e2e

import (
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/evidence/dsse"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/workshop"
	"palyra/internal/exec/wasm"
	"palyra/internal/exec/wasm/module"
	"palyra/test/process"
)

// unattendedSkills lets the tools of the tests' skills run without approval.
const unattendedSkills = `@id("skills")
@reason("the skills of these tests are their own")
@waives("approval: what they reach is the test's own")
permit(principal, action in Action::"tool.execute", resource) when { resource.name like "*/*" && context.egress.mode == "strict" };
`

// worker builds palyra-wasm once.
var worker = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(programs, "wasm")
	return filepath.Join(dir, wasm.Worker), process.Install(dir, wasm.Worker)
})

// publisher is the key that signs the skills of the tests.
var publisher = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

// built caches the packages of the examples.
var built sync.Map

// example returns a signed example skill, with edits of its manifest: pairs of an old and a new
// text.
func example(t *testing.T, name string, edits ...string) []byte {
	t.Helper()
	make := sync.OnceValues(func() (*workshop.Built, error) {
		return workshop.Build(t.Context(), filepath.Join(repository, "examples/skills", name), workshop.Options{Limits: module.DefaultLimits()})
	})
	once, _ := built.LoadOrStore(name, make)
	p := *must.Get(once.(func() (*workshop.Built, error))())(t).Package
	p.ManifestText = []byte(strings.NewReplacer(edits...).Replace(string(p.ManifestText)))
	p.Manifest = must.Get(skill.ParseManifest(p.ManifestText))(t)
	return must.Get(skill.Sign(&p, publisher))(t)
}

// installs installs a package as the local operator.
func (c *client) installs(data []byte) {
	c.g.T.Helper()
	file := filepath.Join(c.g.T.TempDir(), "one"+skill.Extension)
	c.g.write(file, string(data))
	c.ok("skills", "install", file, "--yes", "--key-id", dsse.KeyID(publisher.Public().(ed25519.PublicKey)))
}

func skillGateway(t *testing.T, settings ...string) *gateway {
	t.Helper()
	g := newGateway(t, append([]string{"[wasm_runtime]", fmt.Sprintf("worker = %q", must.Get(worker())(t))}, settings...)...)
	g.policy("10.cedar", unattendedSkills)
	return g
}

// TestSkillRuns: an installed skill's tool runs by its name, and its result conforms to its
// schema. The attestation contains its fuel, and a quarantine stops it at once.
func TestSkillRuns(t *testing.T) {
	t.Parallel()
	g := skillGateway(t)
	g.Start()
	c := g.local()
	c.installs(example(t, "json-transform"))
	input := `{"value": {"a": [1, 2]}, "steps": [{"do": "count", "at": "/a"}]}`
	if got := strings.TrimSpace(c.ok("call", "json-transform/apply", "--input", input)); !strings.Contains(got, `"value":2`) {
		t.Errorf("%s", got)
	}
	p := c.lastAttestation().Statement.Predicate
	if p.Executor.Name != "sandbox_tier_a_wasmtime" || p.Usage.FuelReported <= 0 || len(p.Grants) != 0 {
		t.Errorf("%+v", p)
	}
	c.run("call", "json-transform/apply", "--input", `{"value": 1, "steps": 5}`).Want(t, 2)
	c.ok("skills", "quarantine", "json-transform", "--reason", "of the test")
	if r := c.run("call", "json-transform/apply", "--input", input); r.Code == 0 {
		t.Errorf("a quarantined skill runs: %s", r.Out)
	}
	c.ok("skills", "enable", "json-transform@1.0.0")
	c.ok("call", "json-transform/apply", "--input", input) // control
}

// TestSkillWithAHost: a guest fetches from its granted host. Its secret is sent only there, and
// the gateway's rules refuse any other host.
func TestSkillWithAHost(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.URL.Path+" "+r.Header.Get("Authorization"))
		fmt.Fprintf(w, `{"you sent": %q}`, r.Header.Get("Authorization"))
	}))
	t.Cleanup(server.Close)
	host := server.Listener.Addr().String()
	_, port, _ := strings.Cut(host, ":")
	g := skillGateway(t, "[http]", fmt.Sprintf("allowed_hosts = [%q]", host))
	roots := filepath.Join(g.Dir, "roots.pem")
	g.write(roots, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	g.Env = []string{"SSL_CERT_FILE=" + roots}
	g.Start()
	c := g.local()
	c.keep("vault://global/lookup", planted, "--host", host)
	c.installs(example(t, "web-lookup", "api.example.org:443", host))
	c.installs(example(t, "web-lookup", "api.example.org:443", "localhost:"+port, `id = "web-lookup"`, `id = "web-other"`))
	r := c.run("call", "web-lookup/get", "path=/v1/things")
	r.Want(t, 0)
	if len(got) != 1 || got[0] != "/v1/things Bearer "+planted || !strings.Contains(r.Out, "palyra-sec-global~lookup") {
		t.Errorf("the server got %q, and the caller %s", got, r.Out)
	}
	p := c.lastAttestation().Statement.Predicate
	if want := []grantUse{{"http", host, 1, 0}}; !slices.Equal(p.Grants, want) {
		t.Errorf("the attestation says %+v", p.Grants)
	}
	refused := c.run("call", "web-other/get", "path=/")
	if refused.Code == 0 || !strings.Contains(refused.Out+refused.Err, "is not on the allowlist") {
		t.Errorf("a host that is not allowed: %s%s", refused.Out, refused.Err)
	}
	if p := c.lastAttestation().Statement.Predicate; len(p.Grants) != 1 || p.Grants[0].Refused != 1 {
		t.Errorf("the attestation says %+v", p.Grants)
	}
	if len(got) != 1 {
		t.Errorf("the server got %q", got)
	}
	if n := found(t, g, r, refused, c.run("journal", "--json")); n != 0 {
		t.Errorf("%d forms of the secret are told", n)
	}
}

// TestSkillStorage: a guest's stored data survives a restart, is visible only to the user for
// whom it was stored, and is deleted with the skill.
func TestSkillStorage(t *testing.T) {
	t.Parallel()
	g := skillGateway(t)
	g.Start()
	c := g.local()
	notebook := example(t, "notebook")
	c.installs(notebook)
	c.ok("call", "notebook/write", "title=milk", "text=two litres")
	bob := g.add("bob", "--role", "operator")
	if r := bob.run("call", "notebook/read", "title=milk"); r.Code == 0 || !strings.Contains(r.Out+r.Err, "does not exist") {
		t.Errorf("bob reads %s%s", r.Out, r.Err)
	}
	g.Stop()
	g.Start()
	if out := c.ok("call", "notebook/read", "title=milk"); !strings.Contains(out, "two litres") {
		t.Errorf("after a restart: %s", out)
	}
	if p := c.lastAttestation().Statement.Predicate; !slices.Equal(p.Grants, []grantUse{{"storage", "storage", 1, 0}}) {
		t.Errorf("the attestation says %+v", p.Grants)
	}
	c.ok("skills", "remove", "notebook", "--yes")
	c.installs(notebook)
	if r := c.run("call", "notebook/read", "title=milk"); r.Code == 0 || strings.Contains(r.Out, "litres") {
		t.Errorf("after its skill was removed: %s", r.Out)
	}
}

// reader is a guest that reads a secret and returns its value.
const reader = `package main

import (
	"fmt"
	"os"

	"reader/host"
)

func main() {
	grant, err := host.Secret("skill:reader/api")
	if err == nil {
		var value []byte
		if value, err = grant.Secret(); err == nil {
			fmt.Printf("{\"length\": %d, \"value\": %q}", len(value), value)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
`

// TestSkillReadsASecret: a person is asked about the secret itself, at each call. The guest
// gets the value, which no stored data contains. The secret is in the scope of the skill, and
// no other tool uses it.
func TestSkillReadsASecret(t *testing.T) {
	t.Parallel()
	g := skillGateway(t)
	g.Start()
	c := g.local()
	dir := filepath.Join(g.Dir, "reader")
	must.Get(workshop.New(dir, "reader", "example.org"))(t)
	g.write(filepath.Join(dir, "modules/count/main.go"), reader)
	must.Do(t, os.Remove(filepath.Join(dir, "modules/count/main_test.go")))
	text := string(must.Get(os.ReadFile(filepath.Join(dir, "skill.toml")))(t))
	before, _, _ := strings.Cut(text, "output_schema = '''")
	g.write(filepath.Join(dir, "skill.toml"), strings.Replace(before, "[[tools]]", "[compatibility]\ninterface = \"0.1.0\"\n\n[[tools]]", 1)+
		"\n[tools.capabilities]\nsecrets = [{name = \"skill:reader/api\", use = \"read\"}]\n")
	p := must.Get(workshop.Build(t.Context(), dir, workshop.Options{Limits: module.DefaultLimits()}))(t)
	c.installs(must.Get(skill.Sign(p.Package, publisher))(t))
	call := []string{"call", "reader/count", "text=x"}
	if r := c.run(call...); r.Code == 0 || !strings.Contains(r.Out+r.Err, "skill:reader/api") {
		t.Errorf("without the secret: %s%s", r.Out, r.Err)
	}
	c.keep("vault://skill:reader/api", planted, "--env", "API")
	if r := c.run("call", "process.run", "--input", `{"argv":["true"],"secrets":["skill:reader/api"]}`); r.Code == 0 || !strings.Contains(r.Out+r.Err, "secret.lease") {
		t.Errorf("a program gets the secret of a skill: %s%s", r.Out, r.Err)
	}
	if list := c.ok("call", "secrets.list"); strings.Contains(list, "reader") {
		t.Errorf("everybody's calls are offered %s", list)
	}
	denied := c.begin(call...)
	c.deny(denied.asked()).Want(t, 0)
	denied.wait().Want(t, 4, "APPROVAL_DENIED")
	call[2] = "text=y" // a denial is remembered for a while
	asked := c.begin(call...)
	waiting := asked.asked()
	if shown := c.ok("approvals", "show", waiting.ID); !strings.Contains(shown, "the guest of the skill reader") {
		t.Errorf("who decides is shown %s", shown)
	}
	c.allow(waiting).Want(t, 0)
	yes := asked.wait()
	yes.Want(t, 0)
	if !strings.Contains(yes.Out, fmt.Sprintf(`"length":%d`, len(planted))) || !strings.Contains(yes.Out, "[secret skill:reader/api]") {
		t.Errorf("the guest says %s", yes.Out)
	}
	if p := c.lastAttestation().Statement.Predicate; !slices.Equal(p.Grants, []grantUse{{"secret", "skill:reader/api", 1, 0}}) {
		t.Errorf("the attestation says %+v", p.Grants)
	}
	if n := found(t, g, yes, c.run("journal", "--json")); n != 0 {
		t.Errorf("%d forms of the secret are told", n)
	}
}
