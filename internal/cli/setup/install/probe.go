package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/agent/files"
	"palyra/internal/agent/watch"
)

// Proof is the result of a call that must be denied.
type Proof struct {
	// Alive is true if the hook denied the call.
	Alive bool
	// Detail explains the result.
	Detail string
}

// probeTime is the timeout of such a call. A denial does not wait for approval.
const probeTime = 15 * time.Second

// maxAnswer bounds a hook's answer.
const maxAnswer = 1 << 20

// probeCall is a call that the default policies forbid to every hooked agent: a write to that
// agent's own settings. It is never executed.
func (s Site) probeCall(a files.Agent) []byte {
	target, tool := filepath.Join(s.ClaudeDir(), "settings.json"), "Write"
	input := map[string]any{"file_path": target, "content": "{}"}
	if a == files.Codex {
		target, tool = filepath.Join(s.CodexDir(), "config.toml"), "apply_patch"
		input = map[string]any{"command": "*** Begin Patch\n*** Add File: " + target + "\n+# from palyra hook status\n*** End Patch\n"}
	}
	text, _ := json.Marshal(map[string]any{
		"hook_event_name": "PreToolUse", "session_id": "palyra-hook-status", "tool_use_id": "palyra-" + ulid.Make().String(),
		"tool_name": tool, "tool_input": input, "cwd": s.Home, "transcript_path": "", "permission_mode": "default",
	})
	return text
}

// Prove makes a call that must be denied. Like the agent, it uses the settings in the file, not
// the intended ones.
func (s Site) Prove(ctx context.Context, h Hook) Proof {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	handler, err := s.installedHandler(h)
	if err != nil {
		return Proof{Detail: err.Error()}
	}
	if handler == nil {
		return Proof{Detail: "no hook of Palyra stands in the settings"}
	}
	if url, ok := handler["url"].(string); ok {
		return proveHTTP(ctx, s.Getenv, url, handler, s.probeCall(h.Agent))
	}
	line, _ := handler["command"].(string)
	return proveCommand(ctx, line, s.Home, s.probeCall(h.Agent))
}

// installedHandler returns the handler of the installed hook before a tool runs, as in the file;
// nil for none.
func (s Site) installedHandler(h Hook) (map[string]any, error) {
	w := Wanted{Agent: h.Agent, Scope: h.Scope, Project: h.Project}
	path, _ := s.hookFile(w)
	format := files.JSON
	if h.Scope == files.Managed {
		if path = s.ManagedDropIn(); h.Agent == files.Codex {
			path, format = codex{s}.requirements(), files.TOML
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if h.Agent == files.ClaudeCode && !strictJSON(text) {
		return nil, fmt.Errorf("%s is not plain JSON (a comment, or a comma before a closing bracket): Claude Code ignores all of it", path)
	}
	raw, err := watch.Lookup(format, text, []string{"hooks", "PreToolUse"})
	if err != nil || raw == nil {
		return nil, err
	}
	var groups []hookGroup
	if err := json.Unmarshal(raw, &groups); err != nil {
		return nil, err
	}
	for _, g := range groups {
		for _, one := range g.Hooks {
			text, err := json.Marshal(one)
			if err == nil && bytes.Contains(text, []byte(mark(w, h.Transport))) {
				return one, nil
			}
		}
	}
	return nil, nil
}

func proveHTTP(ctx context.Context, getenv func(string) string, url string, handler map[string]any, call []byte) Proof {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(call))
	if err != nil {
		return Proof{Detail: err.Error()}
	}
	if host, _, err := net.SplitHostPort(req.URL.Host); err != nil || net.ParseIP(host) == nil || !net.ParseIP(host).IsLoopback() {
		return Proof{Detail: "the hook leads to " + req.URL.Host + ", which is not this machine: nothing was sent"}
	}
	req.Header.Set("Content-Type", "application/json")
	headers, _ := handler["headers"].(map[string]any)
	for name, value := range headers {
		text, _ := value.(string)
		req.Header.Set(name, os.Expand(text, getenv))
	}
	client := &http.Client{Transport: &http.Transport{Proxy: nil}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(req)
	if err != nil {
		return Proof{Detail: "palyrad does not answer, so that the agent runs no tool: " + err.Error()}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return Proof{Detail: err.Error()}
	}
	if answer.StatusCode != http.StatusOK {
		return Proof{Detail: fmt.Sprintf("the endpoint answers %s, so that the agent runs no tool", answer.Status)}
	}
	return denied(body)
}

// denied returns the proof that a hook's answer gives.
func denied(body []byte) Proof {
	var v struct {
		Output struct {
			Decision string `json:"permissionDecision"`
			Reason   string `json:"permissionDecisionReason"`
		} `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return Proof{Detail: "the answer is not JSON: the agent would run the tool"}
	}
	if v.Output.Decision != "deny" {
		return Proof{Detail: fmt.Sprintf("a call that has to be denied was answered %q", v.Output.Decision)}
	}
	return Proof{Alive: true, Detail: v.Output.Reason}
}

func proveCommand(ctx context.Context, line, home string, call []byte) Proof {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Stdin = bytes.NewReader(call)
	cmd.Dir, cmd.WaitDelay = home, time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	said := strings.TrimSpace(errs.String())
	switch {
	case err == nil && bytes.Contains(out.Bytes(), []byte(`"deny"`)):
		return denied(out.Bytes())
	case err == nil:
		return Proof{Detail: "a call that has to be denied was let through"}
	case errors.As(err, &exit) && exit.ExitCode() == 2:
		// A hook that could not reach the gateway denies as well, which does not prove that it
		// works.
		if p := denied(out.Bytes()); p.Alive {
			return p
		}
		return Proof{Detail: "the hook blocks every call, because it cannot ask: " + said}
	}
	return Proof{Detail: fmt.Sprintf("the hook ended with %v: the agent would run the tool. %s", err, said)}
}
