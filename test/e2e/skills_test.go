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
	"strings"
	"sync"
	"testing"

	"palyra/internal/dsse"
	"palyra/internal/must"
	"palyra/internal/skill"
	"palyra/internal/skill/workshop"
	"palyra/internal/wasm/structure"
	"palyra/test/wasm/wasmtest"
)

// unattendedSkills lets the tools of the tests' skills run unasked.
const unattendedSkills = `@id("skills")
@reason("the skills of these tests are their own")
@waives("approval: what they reach is the test's own")
permit(principal, action in Action::"tool.execute", resource) when { resource.name like "*/*" && context.egress.mode == "strict" };
`

// worker builds palyra-wasm once.
var worker = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(programs, "wasm")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return wasmtest.Build(dir, "palyra/cmd/palyra-wasm", "1")
})

// publisher signs the skills of the tests.
var publisher = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

// built are the packages of examples, each built once.
var built sync.Map

// example is an example skill, signed, with edits of its manifest: what is there, and what
// is in its place.
func example(t *testing.T, name string, edits ...string) []byte {
	t.Helper()
	make := sync.OnceValues(func() (*workshop.Built, error) {
		return workshop.Build(t.Context(), filepath.Join(repository, "examples/skills", name), workshop.Options{Limits: structure.DefaultLimits()})
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

// TestSkillRuns: an installed skill's tool runs by its name, its result is in the form of
// its schema, the attestation has its fuel, and a quarantine stops it at once.
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
	c.ok("skills", "enable", "json-transform", "1.0.0")
	c.ok("call", "json-transform/apply", "--input", input) // the control
}

var _ = pem.Encode
var _ = http.StatusOK
var _ = httptest.NewServer
