package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/agent/files"
	"palyra/internal/cli/setup/install/installtest"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tomledit"
)

// TestMain makes this program act as Codex when it runs as `codex app-server`.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "app-server" {
		installtest.Codex()
		return
	}
	os.Exit(m.Run())
}

// site returns a machine with its own home directory.
func site(t *testing.T, mode string) Site {
	home := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	env := map[string]string{"LANG": "fake-" + mode, "PATH": os.Getenv("PATH")}
	return Site{
		Machine:  files.Machine{Home: home, OS: "linux", System: filepath.Join(home, "system"), Getenv: func(name string) string { return env[name] }},
		StateDir: filepath.Join(home, ".local", "state", "palyra"), Agents: "127.0.0.1:7143", Held: true, People: 1, HookProgram: "/opt/palyra/palyra-hook", Wait: 10 * time.Minute,
		Codex: must.Get(os.Executable())(t),
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
}

const codexConfig = `model = "x" # mine

[mcp_servers.docs]
command = "docs"
env = { KEY = "value" }

[hooks.state."/other/hooks.json:pretooluse:0:0"]
trusted_hash = "sha256:1"
`

func TestPlanCodex(t *testing.T) {
	t.Parallel()
	s := site(t, "")
	put(t, filepath.Join(s.Home, ".codex", "config.toml"), codexConfig)
	put(t, filepath.Join(s.Home, ".codex", "hooks.json"), "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]}\n    ]\n  }\n}\n")
	p := must.Get(s.Plan(t.Context(), Wanted{Agent: files.Codex, Scope: files.User}, ""))(t)
	hooks, config := p.Edits[1], p.Edits[2]
	line := strings.ReplaceAll(hookLine(s, "codex", 630), `"`, `\"`)
	for _, want := range []string{`"command": "mine"`, line, `"timeout": 630`, `"PostToolUse"`, `"SessionEnd"`} {
		if !strings.Contains(string(hooks.After), want) {
			t.Errorf("%s is not in\n%s", want, hooks.After)
		}
	}
	if !strings.HasPrefix(string(config.After), codexConfig) {
		t.Errorf("the rest changed:\n%s", config.After)
	}
	key := filepath.Join(s.Home, ".codex", "hooks.json") + ":pretooluse:1:0"
	hash := must.Get(tomlValue(config.After, []string{"hooks", "state", key, "trusted_hash"}))(t)
	if hash == "" || strings.Contains(string(config.After), "/copy/") || strings.Contains(string(config.After), "palyra-codex") {
		t.Errorf("trust: %q in\n%s", hash, config.After)
	}
	if len(p.Watched()) != 6 {
		t.Errorf("watched: %d", len(p.Watched()))
	}
}

// TestCodexHasToTrust: no hook is installed if Codex would skip it silently.
func TestCodexHasToTrust(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]reason.Code{"distrusts": reason.VerificationFailed, "ends": reason.NotFound} {
		s := site(t, mode)
		if _, err := s.Plan(t.Context(), Wanted{Agent: files.Codex, Scope: files.User}, ""); reason.Of(err) != want {
			t.Errorf("%s: %v", mode, err)
		}
	}
	s := site(t, "")
	put(t, filepath.Join(s.Home, ".codex", "config.toml"), "[features]\nhooks = false\n")
	if _, err := s.Plan(t.Context(), Wanted{Agent: files.Codex, Scope: files.User}, ""); reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("hooks are off: %v", err)
	}
}

// TestCodexSeesNoCredentials: the configuration with which Codex is started contains no MCP
// servers.
func TestCodexSeesNoCredentials(t *testing.T) {
	t.Parallel()
	bare := string(bareCodex([]byte(codexConfig)))
	if strings.Contains(bare, "docs") || !strings.Contains(bare, "/other/hooks.json") {
		t.Errorf("bare: %s", bare)
	}
	var doc map[string]any
	must.Do(t, tomledit.Decode([]byte(bare), &doc))
}

// TestRealCodex runs against the real program that TEST_PALYRA_CODEX names.
func TestRealCodex(t *testing.T) {
	t.Parallel()
	program := os.Getenv("TEST_PALYRA_CODEX")
	if program == "" {
		t.Skip("TEST_PALYRA_CODEX names no program")
	}
	s := site(t, "")
	s.Codex = program
	put(t, filepath.Join(s.Home, ".codex", "config.toml"), codexConfig)
	p := must.Get(s.Plan(t.Context(), Wanted{Agent: files.Codex, Scope: files.User}, ""))(t)
	for _, e := range p.Edits {
		must.Do(t, os.MkdirAll(filepath.Dir(e.File.Path), 0o700))
		must.Do(t, e.File.Write(e.After, 0))
		t.Logf("%s\n%s", e.File.Path, e.After)
	}
	list := must.Get(codexHooks(t.Context(), program, s.CodexDir(), s.Home, environ(s.Getenv)))(t)
	for _, h := range list {
		if h.TrustStatus != "trusted" {
			t.Errorf("not trusted where it is installed: %+v", h)
		}
	}
	if len(list) != len(codexEvents) {
		t.Errorf("%d hooks", len(list))
	}
}
