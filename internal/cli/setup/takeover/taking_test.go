package takeover_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/agent/files"
	"palyra/internal/cli/setup/takeover"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// gateway is a gateway in memory.
type gateway struct {
	servers map[string]*palyrav1.UpstreamServer
	secrets map[string]*palyrav1.PutSecretRequest
	// installed lists the installed packages, each with its server.
	installed []string
	// problem is the problem of connecting to a server, by name.
	problem map[string]string
}

func (g *gateway) Servers(context.Context) (list []string, err error) {
	for name := range g.servers {
		list = append(list, name)
	}
	return list, nil
}

func (g *gateway) Add(_ context.Context, s *palyrav1.UpstreamServer) (*palyrav1.Upstream, error) {
	if g.servers[s.GetName()] != nil {
		return nil, reason.Errorf(reason.AlreadyExists, "there is one")
	}
	g.servers[s.GetName()] = s
	problem := g.problem[s.GetName()]
	if s.GetOauth() != nil {
		problem = "it needs a login"
	}
	return &palyrav1.Upstream{Server: s, Problem: problem}, nil
}

func (g *gateway) Remove(_ context.Context, name string) error {
	if g.servers[name] == nil {
		return reason.Errorf(reason.NotFound, "there is none")
	}
	delete(g.servers, name)
	return nil
}

func (g *gateway) Has(_ context.Context, ref string) (bool, error) { return g.secrets[ref] != nil, nil }

func (g *gateway) Put(_ context.Context, req *palyrav1.PutSecretRequest) error {
	g.secrets[req.GetRef()] = req
	return nil
}

func (g *gateway) Forget(_ context.Context, ref string) error {
	delete(g.secrets, ref)
	return nil
}

// Install installs a package of the fake registry; the package gone does not exist.
func (g *gateway) Install(_ context.Context, server string, f takeover.Fetched) (made takeover.Installed, err error) {
	if f.Name == "gone" {
		return made, reason.Errorf(reason.ToolFailed, "npm failed: 404")
	}
	g.installed = append(g.installed, server+" "+f.Ecosystem+" "+f.Named())
	made.Package.Prefix, made.Program, made.Programs = "sha256:"+server, "mcp-"+server, []string{"mcp-" + server, "other"}
	return made, nil
}

const claude = `{
  // what I use
  "theme": "dark",
  "mcpServers": {
    "Files": {"command": "/usr/bin/mcp-files", "args": ["/workspace"], "env": {"LOG": "debug"}},
    "github": {
      "command": "github-mcp-server", "args": ["stdio"],
      "env": {"GITHUB_TOKEN": "ghp_abcdefghijklmnop"}, // mine
    },
    "nohosts": {"command": "x", "env": {"API_KEY": "sk-1234567890"}},
    "broken": {"command": "mcp-broken"},
    "search": {"type": "http", "url": "https://mcp.example.org/mcp", "headers": {"Authorization": "Bearer abcdefgh12345678"}},
    "linear": {"type": "http", "url": "https://mcp.linear.app/mcp"},
    "fetcher": {"command": "npx", "args": ["-y", "@x/y@1.2", "/data"], "env": {"LOG": "debug"}},
    "python": {"command": "uvx", "args": ["--from", "z[cli]==3.1", "other", "--fast"]},
    "gone": {"command": "npx", "args": ["gone"]},
    "git": {"command": "npx", "args": ["-y", "github:x/y"]},
    "with": {"command": "uvx", "args": ["--with", "a", "b"]},
    "boxed": {"command": "docker", "args": ["run", "-i", "x"]},
    "shell": {"command": "sh", "args": ["-c", "exec y"]},
    "old": {"type": "sse", "url": "https://old.example/sse"},
    "filled": {"command": "y", "args": ["${HOME}"]},
    "palyra": {"command": "palyra", "args": ["mcp", "serve"]}
  },
  "projects": {
    "/home/me/a": {"allowedTools": [], "mcpServers": {"notes": {"command": "mcp-notes"}, "github": {"command": "other-github"}}},
    "/home/me/b": {"mcpServers": {"notes": {"command": "mcp-notes"}}, "history": [1]}
  }
}
`

const codex = `# mine
model = "o5"

[mcp_servers.docs]
command = "mcp-docs"
args = ["--all"]

[mcp_servers.docs.env]
MODE = "fast"

[mcp_servers.tok]
url = "https://x.example/mcp"
bearer_token_env_var = "X"
`

type world struct {
	*takeover.Taker

	gateway *gateway
	home    string
	files   map[string]string
}

func newWorld(t *testing.T) *world {
	home := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	g := &gateway{
		servers: map[string]*palyrav1.UpstreamServer{}, secrets: map[string]*palyrav1.PutSecretRequest{},
		problem: map[string]string{"broken": "it does not start", "linear": "calling initialize: Unauthorized"},
	}
	w := &world{gateway: g, home: home, files: map[string]string{
		filepath.Join(home, ".claude.json"):          claude,
		filepath.Join(home, ".codex", "config.toml"): codex,
	}}
	w.Taker = &takeover.Taker{
		Machine: files.Machine{Home: home, OS: "linux", Getenv: func(string) string { return "" }, System: filepath.Join(home, "system")},
		Record:  filepath.Join(home, "state", "mcp-import.json"), Gateway: g, Hosts: map[string][]string{"github": {"api.github.com:443"}},
	}
	for path, text := range w.files {
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o640))
	}
	return w
}

func (w *world) plan(t *testing.T) []takeover.Server {
	t.Helper()
	return must.Get(w.Plan(t.Context(), files.All, ""))(t)
}

// wantUnchanged compares the files with the original ones, byte by byte.
func (w *world) wantUnchanged(t *testing.T) {
	t.Helper()
	for path, text := range w.files {
		if got := must.Get(os.ReadFile(path))(t); string(got) != text {
			t.Errorf("%s is\n%s", path, got)
		}
		if info := must.Get(os.Stat(path))(t); info.Mode().Perm() != 0o640 {
			t.Errorf("%s has the mode %s", path, info.Mode())
		}
	}
}

func TestPlanAndTake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	why := map[string]string{}
	for _, s := range w.plan(t) {
		why[strings.TrimPrefix(s.Project+" "+s.Entry, " ")] = s.Why
	}
	for entry, want := range map[string]string{
		"Files": "", "github": "", "search": "", "linear": "", "docs": "", "broken": "",
		"nohosts": "--host nohosts=HOST:PORT", "fetcher": "", "python": "", "gone": "", "git": "not a registry package", "with": "--with", "boxed": "docker starts", "shell": "may start anything", "old": "SSE",
		"filled": "fills in", "palyra": "Palyra's own", "tok": "fills in",
		// Entries of projects: identical entries are one server, and an entry that only shares a name
		// stays.
		"/home/me/a notes": "", "/home/me/b notes": "", "/home/me/a github": "has a server of that name",
	} {
		if got, there := why[entry]; !there || (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", entry, got, want)
		}
	}
	w.wantUnchanged(t)
	done := must.Get(w.Take(t.Context(), w.plan(t), ""))(t)
	for _, s := range done {
		if s.Entry == "broken" && s.Why != "it does not start" || s.Entry == "linear" && !s.Login {
			t.Errorf("%+v", s)
		}
	}
	if names := must.Get(w.gateway.Servers(t.Context()))(t); len(names) != 8 || slices.Contains(names, "broken") {
		t.Errorf("declared %v", names)
	}
	if want := []string{"fetcher npm @x/y 1.2", "python pypi z[cli] 3.1"}; !slices.Equal(w.gateway.installed, want) {
		t.Errorf("installed %q, want %q", w.gateway.installed, want)
	}
	for name, want := range map[string]string{"fetcher": "mcp-fetcher /data", "python": "other --fast"} {
		if s := w.gateway.servers[name]; strings.Join(s.GetCommand(), " ") != want || s.GetPackage().GetPrefix() != "sha256:"+name {
			t.Errorf("%s is declared as %v", name, s)
		}
	}
	github := w.gateway.servers["github"]
	kept := w.gateway.secrets["global/mcp.github.github_token"]
	if string(kept.GetValue()) != "ghp_abcdefghijklmnop" || kept.GetEnv() != "GITHUB_TOKEN" || len(github.GetEnv()) > 0 || github.GetSecrets()[0] != "global/mcp.github.github_token" {
		t.Errorf("github: %v, %v", github, kept)
	}
	search := w.gateway.servers["search"].GetHeaders()[0]
	if search.GetScheme() != "Bearer" || string(w.gateway.secrets[search.GetSecret()].GetValue()) != "abcdefgh12345678" {
		t.Errorf("search: %v", search)
	}
	after := string(must.Get(os.ReadFile(filepath.Join(w.home, ".claude.json")))(t))
	for _, gone := range []string{"Files", "ghp_", "search", "linear", "fetcher", "python", "mcp-notes"} {
		if strings.Contains(after, gone) {
			t.Errorf("%s is still in\n%s", gone, after)
		}
	}
	for _, stays := range []string{"// what I use", "broken", "gone", "theme", "other-github", "allowedTools", `"history": [1]`} {
		if !strings.Contains(after, stays) {
			t.Errorf("%s is not in\n%s", stays, after)
		}
	}
	if info := must.Get(os.Stat(w.Record))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("the record has the mode %s", info.Mode())
	}
	if _, err := w.Take(t.Context(), w.plan(t), ""); reason.Of(err) != reason.AlreadyExists {
		t.Errorf("a second import: %v", err)
	}
	must.Get(w.Undo(t.Context()))(t)
	w.wantUnchanged(t)
	if len(w.gateway.servers)+len(w.gateway.secrets) > 0 {
		t.Errorf("left %v, %v", w.gateway.servers, w.gateway.secrets)
	}
	if _, err := os.Stat(w.Record); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the record: %v", err)
	}
}

// TestEditedSince: an undo does not overwrite later edits of a file.
func TestEditedSince(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must.Get(w.Take(t.Context(), w.plan(t), ""))(t)
	path := filepath.Join(w.home, ".claude.json")
	must.Do(t, os.WriteFile(path, []byte("{}"), 0o600))
	if _, err := w.Undo(t.Context()); reason.Of(err) != reason.FactsChanged {
		t.Errorf("undone: %v", err)
	}
	if got := must.Get(os.ReadFile(path))(t); string(got) != "{}" || len(w.gateway.servers) == 0 {
		t.Errorf("it became %s", got)
	}
}

// TestKeepsSecretsOfOthers: existing secrets of the vault are neither replaced nor removed.
func TestKeepsSecretsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const ref = "global/mcp.github.github_token"
	w.gateway.secrets[ref] = &palyrav1.PutSecretRequest{Ref: ref, Value: []byte("other")}
	must.Get(w.Take(t.Context(), w.plan(t), ""))(t)
	must.Get(w.Undo(t.Context()))(t)
	if string(w.gateway.secrets[ref].GetValue()) != "other" {
		t.Error("the secret of somebody else is gone")
	}
	w.wantUnchanged(t)
}

// TestStops: after a stop at any step, the undo restores everything.
func TestStops(t *testing.T) {
	t.Parallel()
	errStop := errors.New("stop")
	for at := 0; ; at++ {
		w := newWorld(t)
		count := 0
		w.Reached = func(string) error {
			if count++; count > at {
				return errStop
			}
			return nil
		}
		_, err := w.Take(t.Context(), w.plan(t), "")
		if err == nil {
			if at < 3 {
				t.Errorf("there were %d steps", at)
			}
			return
		}
		if !errors.Is(err, errStop) {
			t.Fatal(err)
		}
		w.Reached = nil
		must.Get(w.Undo(t.Context()))(t)
		w.wantUnchanged(t)
		if len(w.gateway.servers)+len(w.gateway.secrets) > 0 {
			t.Errorf("a stop at step %d left %v, %v", at, w.gateway.servers, w.gateway.secrets)
		}
	}
}

// TestTakeInjected: the secrets of a named server are moved to the vault without hosts, with
// their variables, for a program that gets the values themselves. Control: the other server
// stays unchanged.
func TestTakeInjected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.files[filepath.Join(w.home, ".claude.json")] = strings.Replace(claude, `"broken":`, `"other": {"command": "x", "env": {"API_KEY": "sk-1234567890"}}, "broken":`, 1)
	must.Do(t, os.WriteFile(filepath.Join(w.home, ".claude.json"), []byte(w.files[filepath.Join(w.home, ".claude.json")]), 0o640))
	w.Inject = []string{"nohosts"}
	why := map[string]string{}
	for _, s := range must.Get(w.Take(t.Context(), w.plan(t), ""))(t) {
		why[s.Entry] = s.Why
	}
	const ref = "global/mcp.nohosts.api_key"
	s, kept := w.gateway.servers["nohosts"], w.gateway.secrets[ref]
	if why["nohosts"] != "" || !slices.Equal(s.GetInject(), []string{ref}) || len(s.GetSecrets())+len(s.GetEnv()) > 0 {
		t.Errorf("%q, declared %v", why["nohosts"], s)
	}
	if kept.GetEnv() != "API_KEY" || len(kept.GetHosts().GetHosts()) > 0 || string(kept.GetValue()) != "sk-1234567890" {
		t.Errorf("kept %v", kept)
	}
	if !strings.Contains(why["other"], "--inject other") || w.gateway.servers["other"] != nil {
		t.Errorf("the control: %q", why["other"])
	}
}
