package install

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/agent/files"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

const claudeText = "{\n\n  \"model\":   \"opus\"\n}\n"

// TestPlanClaudeRefusesComments: Claude Code ignores a settings file that has comments, and
// with it the hook.
func TestPlanClaudeRefusesComments(t *testing.T) {
	t.Parallel()
	s := site(t, "")
	for _, text := range []string{"{\n  // mine\n  \"model\": \"opus\"\n}\n", "{\"model\": \"opus\",}\n"} {
		put(t, claudePath(s), text)
		if _, err := s.Plan(t.Context(), user(), secret); reason.Of(err) != reason.ConfigInvalid {
			t.Errorf("%q: %v", text, err)
		}
		found := must.Get(s.Findings(files.ClaudeCode, "", nil))(t)
		if !slices.ContainsFunc(found, func(f Finding) bool { return f.Bad && strings.Contains(f.What, "ignores all of it") }) {
			t.Errorf("%q: nothing is said: %v", text, found)
		}
	}
}

// secret is the text of a token.
const secret = "pal_01t0ken0000000000000000000_5ec2e7"

func claudePath(s Site) string { return filepath.Join(s.Home, ".claude", "settings.json") }

func user() Wanted { return Wanted{Agent: files.ClaudeCode, Scope: files.User} }

// last returns the edit of the settings, which follows the edit of the token's file.
func last(p *Plan) *Edit { return p.Edits[len(p.Edits)-1] }

// hookLine returns the command of a user's hook.
func hookLine(s Site, agent string, limit int) string {
	return fmt.Sprintf(`sh -c '"/opt/palyra/palyra-hook" %s -socket "%s/hooks.sock" -token-file "%s/hooks/%s.token" -limit %d || { echo "palyra: the call does not run" >&2; exit 2; }'`, agent, s.StateDir, s.ClientState(), agent, limit)
}

// handlers returns the hooks of an event in a settings file.
func handlers(t *testing.T, text []byte, event string) (list []map[string]any) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.json")
	must.Do(t, os.WriteFile(path, text, 0o600))
	v := must.Get(readClaude(path))(t)
	for _, g := range v.Hooks[event] {
		list = append(list, g.Hooks...)
	}
	return list
}

// TestSharedSocket: a user other than palyrad's uses the socket for several users. A project's
// settings contain no path of this machine.
func TestSharedSocket(t *testing.T) {
	t.Parallel()
	s := site(t, "")
	s.SharedSocket = "/run/palyra/hooks.sock"
	for scope, want := range map[files.Scope]string{
		files.User: ` -socket "/run/palyra/hooks.sock" `, files.Managed: ` -socket "/run/palyra/hooks.sock" `,
		files.Project: ` -socket "${XDG_STATE_HOME:-$HOME/.local/state}/palyra/hooks.sock" `,
	} {
		line, err := s.command(Wanted{Agent: files.Codex, Scope: scope}, 60)
		if err != nil || !strings.Contains(line, want) {
			t.Errorf("%s: %s, %v", scope, line, err)
		}
	}
	s.SharedSocket = "/run/$(id)/hooks.sock"
	if line, err := s.command(user(), 60); err == nil {
		t.Errorf("a shell would run what stands in the path: %s", line)
	}
}

func TestPlanClaudeByHTTP(t *testing.T) {
	t.Parallel()
	s := site(t, "")
	put(t, claudePath(s), claudeText)
	p := must.Get(s.Plan(t.Context(), user(), secret))(t)
	e := p.Edits[0]
	if p.Hook.Transport != TransportHTTP || !p.Token || !p.InFile || e.Mode != 0o600 {
		t.Errorf("planned %+v, mode %v", p.Hook, e.Mode)
	}
	if !strings.HasPrefix(string(e.After), "{\n\n  \"model\":   \"opus\",") {
		t.Errorf("the rest changed:\n%s", e.After)
	}
	h := handlers(t, e.After, "PreToolUse")[0]
	if h["type"] != "http" || h["url"] != "http://127.0.0.1:7143/hooks/v1/claude-code" || h["onFailure"] != "block" || h["timeout"] != 630.0 ||
		h["headers"].(map[string]any)["Authorization"] != "Bearer "+secret {
		t.Errorf("the hook is %v", h)
	}
	for _, event := range []string{"PostToolUse", "PostToolUseFailure", "SessionEnd"} {
		if len(handlers(t, e.After, event)) != 1 {
			t.Errorf("%s has no hook", event)
		}
	}
	// The displayed plan has no token.
	shown := must.Get(s.Plan(t.Context(), user(), ""))(t)
	if diff := shown.Edits[0].Diff(); strings.Contains(diff, secret) || !strings.Contains(diff, "Bearer pal_...") {
		t.Errorf("shown\n%s", diff)
	}
}

// TestCommandWhereHTTPIsWorse: the command is used if another program could listen in place of
// palyrad, or if the agent would not call the HTTP hook.
func TestCommandWhereHTTPIsWorse(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *Site){
		"the port is free":      func(s *Site) { s.Held = false },
		"several people":        func(s *Site) { s.People = 2 },
		"no listener":           func(s *Site) { s.Agents = "" },
		"other addresses alone": func(s *Site) { put(t, claudePath(*s), `{"allowedHttpHookUrls": ["https://hooks.example/*"]}`) },
		"managed: none at all": func(s *Site) {
			put(t, s.System+"/etc/claude-code/managed-settings.json", `{"allowedHttpHookUrls": []}`)
		},
		"a link of dotfiles":    func(s *Site) { linkSettings(t, *s) },
		"the home is published": func(s *Site) { must.Do(t, os.Mkdir(filepath.Join(s.Home, ".git"), 0o700)) },
		"its directory is, too": func(s *Site) {
			put(t, claudePath(*s), "{}")
			must.Do(t, os.Mkdir(filepath.Join(s.Home, ".claude", ".git"), 0o700))
		},
		"a worktree (file .git)": func(s *Site) { put(t, filepath.Join(s.Home, ".claude", ".git"), "gitdir: x") },
	} {
		s := site(t, "")
		change(&s)
		p := must.Get(s.Plan(t.Context(), user(), secret))(t)
		after := string(last(p).After)
		if p.Hook.Transport != TransportCommand || strings.Contains(after, secret) || strings.Contains(after, "Bearer") || len(p.Notes) == 0 {
			t.Errorf("%s: %s, notes %q\n%s", name, p.Hook.Transport, p.Notes, after)
		}
		if h := handlers(t, last(p).After, "PreToolUse"); h[len(h)-1]["command"] != hookLine(s, "claude-code", 630) {
			t.Errorf("%s: the command is %v", name, h)
		}
	}
	// Control: an allow list that includes the endpoint.
	s := site(t, "")
	put(t, claudePath(s), `{"allowedHttpHookUrls": ["http://127.0.0.1:*"]}`)
	if p := must.Get(s.Plan(t.Context(), user(), secret))(t); p.Hook.Transport != TransportHTTP {
		t.Errorf("allowed, and yet by %s", p.Hook.Transport)
	}
}

func linkSettings(t *testing.T, s Site) {
	put(t, filepath.Join(s.Home, "dotfiles", "claude.json"), claudeText)
	must.Do(t, os.MkdirAll(filepath.Join(s.Home, ".claude"), 0o700))
	must.Do(t, os.Symlink("../dotfiles/claude.json", claudePath(s)))
}

// TestNoCredentialInProject: by default a project has the command, found in the PATH. Over HTTP
// the token is read from a variable.
func TestNoCredentialInProject(t *testing.T) {
	t.Parallel()
	s := site(t, "")
	project := filepath.Join(s.Home, "src", "p")
	must.Do(t, os.MkdirAll(project, 0o700))
	w := Wanted{Agent: files.ClaudeCode, Scope: files.Project, Project: project}
	p := must.Get(s.Plan(t.Context(), w, secret))(t)
	h := handlers(t, last(p).After, "PreToolUse")[0]
	if line := fmt.Sprint(h["command"]); !strings.HasPrefix(line, `sh -c '"palyra-hook" claude-code -socket "${XDG_STATE_HOME:-$HOME/.local/state}/palyra/hooks.sock" -token-file "`) || strings.Contains(string(last(p).After), secret) || strings.Contains(line, s.Home) {
		t.Errorf("the hook is %v", h)
	}
	w.Transport = TransportHTTP
	p = must.Get(s.Plan(t.Context(), w, secret))(t)
	h = handlers(t, p.Edits[0].After, "PreToolUse")[0]
	text, _ := json.Marshal(h)
	if strings.Contains(string(text), secret) || h["headers"].(map[string]any)["Authorization"] != "Bearer $PALYRA_HOOK_TOKEN" || !strings.Contains(string(text), `"allowedEnvVars":["PALYRA_HOOK_TOKEN"]`) || p.InFile {
		t.Errorf("the hook is %s", text)
	}
	// Managed settings are readable by every user.
	m := must.Get(s.Plan(t.Context(), Wanted{Agent: files.ClaudeCode, Scope: files.Managed}, secret))(t)
	if m.Hook.Transport != TransportCommand || strings.Contains(string(last(m).After), secret) || !last(m).Whole || last(m).Mode != 0o644 {
		t.Errorf("managed: %+v\n%s", m.Hook, last(m).After)
	}
}

func TestRefusedSettings(t *testing.T) {
	t.Parallel()
	s := site(t, "")
	put(t, claudePath(s), "{\n  \"model\": opus\n}\n")
	_, err := s.Plan(t.Context(), user(), secret)
	if reason.Of(err) != reason.ConfigInvalid || !strings.Contains(err.Error(), "settings.json:2:12:") {
		t.Errorf("no JSON: %v", err)
	}
	put(t, filepath.Join(s.Home, "..", "outside-"+filepath.Base(s.Home)), "{}")
	t.Cleanup(func() { _ = os.Remove(filepath.Join(s.Home, "..", "outside-"+filepath.Base(s.Home))) })
	must.Do(t, os.Remove(claudePath(s)))
	must.Do(t, os.Symlink(filepath.Join(s.Home, "..", "outside-"+filepath.Base(s.Home)), claudePath(s)))
	if _, err := s.Plan(t.Context(), user(), secret); reason.Of(err) != reason.ConfigInvalid || !strings.Contains(err.Error(), "outside of") {
		t.Errorf("a link that leads out: %v", err)
	}
}

func TestPathForShell(t *testing.T) {
	t.Parallel()
	s := site(t, "")
	s.HookProgram = "/opt/it's/palyra-hook"
	s.Held = false
	if _, err := s.Plan(t.Context(), user(), ""); reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("a path that a shell reads: %v", err)
	}
}

// TestCommandBlocks runs the command of the hook in a shell, with hooks that exit in every way.
func TestCommandBlocks(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{"exit 0": 0, "exit 2": 2, "exit 1": 2, "kill -9 $$": 2, "exec /nowhere": 2} {
		s := site(t, "")
		s.HookProgram = filepath.Join(s.Home, "palyra-hook")
		must.Do(t, os.WriteFile(s.HookProgram, []byte("#!/bin/sh\n"+body+"\n"), 0o700))
		line := must.Get(s.command(user(), 630))(t)
		if got := exitOf(line); got != want {
			t.Errorf("%s: %d, want %d", body, got, want)
		}
		// Codex runs the call after exit code 2 without a message.
		said, _ := exec.Command("sh", "-c", line+" 2>&1").Output()
		if want == 2 && !strings.Contains(string(said), "palyra: the call does not run") {
			t.Errorf("%s: nothing is said: %s", body, said)
		}
		must.Do(t, os.Remove(s.HookProgram))
		if got := exitOf(line); got != 2 {
			t.Errorf("without the program: %d", got)
		}
	}
}
