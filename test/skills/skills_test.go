//go:build linux && cgo

package skills

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/config"
	"palyra/internal/core/limit"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/workshop"
	engine "palyra/internal/exec/wasm"
	"palyra/internal/exec/wasm/guest"
	"palyra/internal/exec/wasm/module"
	"palyra/internal/exec/wasm/wire"
	"palyra/test/wasm/wasmtest"
)

func TestMain(m *testing.M) { wasmtest.Main(m) }

// packed builds a skill, signs it, and reads the file as palyrad does.
func packed(t *testing.T, dir string) *skill.Package {
	t.Helper()
	built := must.Get(workshop.Build(t.Context(), dir, workshop.Options{Limits: module.DefaultLimits()}))(t)
	p := must.Get(skill.Open(must.Get(skill.Sign(built.Package, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))))(t)))(t)
	if found := skill.Audit(p, skill.DefaultLimits()); len(found) > 0 {
		t.Fatalf("%+v", found)
	}
	return p
}

// calling calls a tool in the way that its manifest specifies.
func calling(t *testing.T, r *engine.Runner, p *skill.Package, id, input string, host guest.Host) (sandbox.Report, error) {
	t.Helper()
	is, ok := p.Manifest.Tool(id)
	if !ok {
		t.Fatalf("tool %s not found", id)
	}
	text := p.Modules[is.Module]
	m := must.Get(module.Check(text, module.DefaultLimits()))(t)
	limits := wasmtest.Limits()
	limits.Fuel = is.FuelOf()
	return r.Run(t.Context(), guest.Call{
		Caller: limit.Who{Owner: "user:alice", Principal: "user:alice"}, Module: guest.Module{Bytes: text, Digest: sha256.Sum256(text), Kind: m.Kind, Features: wire.Features{SIMD: is.Features.SIMD, MultiValue: is.Features.MultiValue}},
		Tool: id, Input: []byte(input), Limits: limits, Host: host,
	})
}

// grants answers as docs/format/skill.md specifies, for the granted items. The handles of
// storage, a host and a secret are 30, 10 and 20.
type grants struct {
	http, secret string
	storage      map[string]string
	requests     []string
	logged       []string
}

func answer(value int, text string) (guest.Answer, error) {
	return guest.Answer{Value: int32(value), Result: []byte(text)}, nil
}

func sized(text string) (guest.Answer, error) { return answer(len(text), text) }

func (g *grants) Answer(_ context.Context, function string, n []int32, first, second []byte) (guest.Answer, error) {
	key := string(first)
	switch {
	case function == "log":
		g.logged = append(g.logged, fmt.Sprint(n[0], " ", key))
		return answer(0, "")
	case function == "grant_open" && n[0] == 1 && g.http != "" && key == g.http, function == "grant_at" && n[0] == 1 && n[1] == 0 && g.http != "":
		return answer(10, "")
	case function == "grant_open" && n[0] == 2 && g.secret != "" && key == g.secret:
		return answer(20, "")
	case function == "grant_open" && n[0] == 3 && g.storage != nil && key == "storage":
		return answer(30, "")
	case function == "grant_count" && n[0] == 1 && g.http != "":
		return answer(1, "")
	case function == "grant_count":
		return answer(0, "")
	case function == "grant_name" && n[0] == 10:
		return sized(g.http)
	case function == "http_request" && n[0] == 10:
		g.requests = append(g.requests, key)
		return sized(`{"status": 200, "url": "https://api.example.org/v1", "content": "{\"answer\": 42}"}`)
	case function == "storage_put" && n[0] == 30:
		g.storage[key] = string(second)
		return answer(0, "")
	case function == "storage_get" && n[0] == 30:
		if value, there := g.storage[key]; there {
			return sized(value)
		}
		return answer(-6, "nothing is there")
	case function == "storage_delete" && n[0] == 30:
		delete(g.storage, key)
		return answer(0, "")
	case function == "storage_list" && n[0] == 30:
		keys := slices.DeleteFunc(slices.Sorted(maps.Keys(g.storage)), func(k string) bool { return !strings.HasPrefix(k, key) })
		text, err := json.Marshal(keys)
		return guest.Answer{Value: int32(len(text)), Result: text}, err
	}
	return answer(-1, "")
}

const examples = "../../examples/skills/"

// TestNewSkillRuns: a skill from `palyra skills new` runs without changes, within the fuel of
// its manifest, and uses the same amount each time.
func TestNewSkillRuns(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "counter")
	must.Get(workshop.New(dir, "counter", "example.org"))(t)
	r, p := wasmtest.Runner(t), packed(t, dir)
	fuel := map[int64]bool{}
	for range 3 {
		report := must.Get(calling(t, r, p, "count", `{"text": "a b\na"}`, nil))(t)
		if got := strings.TrimSpace(string(report.Stdout.Head)); got != `{"lines":2,"words":3,"characters":5,"most":[{"word":"a","times":2},{"word":"b","times":1}]}` {
			t.Errorf("%s", got)
		}
		fuel[report.Usage.Fuel] = true
	}
	if len(fuel) != 1 {
		t.Errorf("the same call used %v of fuel", fuel)
	}
	large, err := json.Marshal(map[string]string{"text": strings.Repeat("some words of a text that is long\n", 3000)})
	must.Do(t, err)
	if report, err := calling(t, r, p, "count", string(large), nil); err != nil {
		t.Errorf("100 KB of text: %v, %d of fuel", err, report.Usage.Fuel)
	}
}

// TestExamplesRun runs each example with its grants and without them.
func TestExamplesRun(t *testing.T) {
	t.Parallel()
	r := wasmtest.Runner(t)
	for _, c := range []struct {
		dir, tool, input string
		host             *grants
		wants            string
	}{
		{"json-transform", "apply", `{"value": {"a": [1, 2]}, "steps": [{"do": "count", "at": "/a"}]}`, &grants{}, `{"value":2}`},
		{"checksum", "crc32", `{"text": "123456789"}`, &grants{}, `{"crc32":"cbf43926","bytes":9}`},
		{"checksum", "crc32", `{"text": "\u00e4\ud83d\ude00\n"}`, &grants{}, `{"crc32":"67553022","bytes":7}`},
		{"line-diff", "compare", `{"old": "a\nb\nc", "new": "a\nc\nd"}`, &grants{}, `{"added":1,"removed":1,"diff":"-b\n+d\n"}`},
		{"web-lookup", "get", `{"path": "/v1"}`, &grants{http: "api.example.org:443", secret: "global/lookup"}, `{"status":200,"url":"https://api.example.org/v1","json":{"answer":42}}`},
		{"web-lookup", "get", `{"path": "/v1"}`, &grants{}, "no host was granted"},
		{"notebook", "write", `{"title": "milk", "text": "two"}`, &grants{storage: map[string]string{}}, `{"written":"milk"}`},
		{"notebook", "read", `{"title": "milk"}`, &grants{storage: map[string]string{"note/milk": `{"text":"two","written":"2026-01-01T00:00:00Z"}`}}, `{"text":"two","written":"2026-01-01T00:00:00Z"}`},
		{"notebook", "read", `{}`, &grants{storage: map[string]string{"note/a": "", "note/b": "", "other": ""}}, `{"titles":["a","b"]}`},
		{"notebook", "read", `{"title": "milk"}`, &grants{storage: map[string]string{}}, "does not exist"},
		{"notebook", "read", `{"title": "milk"}`, &grants{}, "not granted"},
	} {
		p := packed(t, examples+c.dir)
		report, err := calling(t, r, p, c.tool, c.input, c.host)
		got := strings.TrimSpace(string(report.Stdout.Head))
		if err != nil {
			if reason.Of(err) != reason.ToolFailed {
				t.Errorf("%s: %v", c.dir, err)
			}
			got = string(report.Stderr.Head)
		}
		if got != c.wants && (err == nil || !strings.Contains(got, c.wants)) {
			t.Errorf("%s %s gives %q (%v), want %s", c.dir, c.input, got, err, c.wants)
		}
		switch c.dir {
		case "web-lookup":
			if len(c.host.requests) > 0 && !strings.Contains(c.host.requests[0], `"authorization":"Bearer palyra-sec-global~lookup"`) {
				t.Errorf("asked was %v", c.host.requests)
			}
		case "checksum":
			if fmt.Sprint(c.host.logged) != "[1 a checksum was made]" {
				t.Errorf("logged is %v", c.host.logged)
			}
		}
	}
}

// TestDefaultsAgree: the limits for a package outside a gateway equal the default limits of a
// gateway.
func TestDefaultsAgree(t *testing.T) {
	t.Parallel()
	c, l := config.Default().WASM, module.DefaultLimits()
	if int64(l.ModuleBytes) != c.MaxModuleBytes || int64(l.MemoryPages)<<16 != c.MaxMemoryBytes || int64(l.TableElements) != c.MaxTableElements {
		t.Errorf("modules are measured by %+v, and a gateway has %+v", l, c)
	}
	if int64(skill.DefaultFuel) != c.FuelBudget {
		t.Errorf("a tool that states nothing has %d, and a gateway %d", int64(skill.DefaultFuel), c.FuelBudget)
	}
}
