package install

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"palyra/internal/core/reason"
)

// listedHook is a hook as Codex's own server lists it.
type listedHook struct {
	Key         string `json:"key"`
	EventName   string `json:"eventName"`
	Command     string `json:"command"`
	SourcePath  string `json:"sourcePath"`
	Source      string `json:"source"`
	Enabled     bool   `json:"enabled"`
	Managed     bool   `json:"isManaged"`
	CurrentHash string `json:"currentHash"`
	TrustStatus string `json:"trustStatus"`
}

// askTime bounds a conversation with Codex's server.
const askTime = 30 * time.Second

// codexHooks asks `codex app-server` which hooks it would run in a directory, and which it
// trusts. Codex computes the hashes itself. home is a copy of its directory: Codex writes
// into it.
func codexHooks(ctx context.Context, program, home, cwd string, environ []string) ([]listedHook, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "app-server")
	cmd.Env = append(environ, "CODEX_HOME="+home, "HOME="+filepath.Dir(home))
	cmd.Dir = home
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, noServer(program, err)
	}
	hooks, err := converse(in, bufio.NewReader(out), cwd)
	cancel() // it would serve forever
	_ = cmd.Wait()
	if err != nil {
		return nil, noServer(program, err)
	}
	return hooks, nil
}

func noServer(program string, err error) error {
	return reason.Errorf(reason.NotFound, "asking `%s app-server` for its hooks: %w", program, err).
		WithRemedy("Codex silently ignores hooks that it does not trust: update Codex, and run this again. Nothing was installed.")
}

// maxAnswers bounds the output that is read from the server.
const maxAnswers = 16 << 20

// converse asks for the hooks and waits for the answer.
func converse(to io.Writer, from *bufio.Reader, cwd string) ([]listedHook, error) {
	lines := bufio.NewReader(io.LimitReader(from, maxAnswers))
	say := func(v any) error {
		text, err := json.Marshal(v)
		if err == nil {
			_, err = to.Write(append(text, '\n'))
		}
		return err
	}
	hear := func(id int, result any) error {
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return fmt.Errorf("it ended before it answered: %w", err)
			}
			var m struct {
				ID     *int            `json:"id"`
				Method string          `json:"method"`
				Result json.RawMessage `json:"result"`
				Error  *struct {
					Message string `json:"message"`
				} `json:"error"`
			}
			if json.Unmarshal(line, &m) != nil || m.ID == nil || *m.ID != id || m.Method != "" {
				continue // a notification, or text for users
			}
			if m.Error != nil {
				return errors.New(m.Error.Message)
			}
			return json.Unmarshal(m.Result, result)
		}
	}
	type request struct {
		ID     int    `json:"id,omitempty"`
		Method string `json:"method"`
		Params any    `json:"params,omitempty"`
	}
	if err := say(request{1, "initialize", map[string]any{"clientInfo": map[string]any{"name": "palyra", "version": "1"}}}); err != nil {
		return nil, err
	}
	var ignored json.RawMessage
	if err := hear(1, &ignored); err != nil {
		return nil, err
	}
	if err := errors.Join(say(request{Method: "initialized"}), say(request{2, "hooks/list", map[string]any{"cwds": []string{cwd}}})); err != nil {
		return nil, err
	}
	var answer struct {
		Data []struct {
			Hooks  []listedHook      `json:"hooks"`
			Errors []json.RawMessage `json:"errors"`
		} `json:"data"`
	}
	if err := hear(2, &answer); err != nil {
		return nil, err
	}
	var hooks []listedHook
	for _, d := range answer.Data {
		if len(d.Errors) > 0 {
			return nil, fmt.Errorf("it finds errors in its hooks: %s", d.Errors[0])
		}
		hooks = append(hooks, d.Hooks...)
	}
	return hooks, nil
}

// copyCodex creates a Codex directory with only the configuration of hooks: queries to Codex there
// do not affect the real one. The directory is private, and replaces standIn in the configuration.
func copyCodex(config, hooks []byte, standIn string) (home string, err error) {
	dir, err := os.MkdirTemp("", "palyra-codex-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	home = filepath.Join(dir, ".codex")
	if err := os.Mkdir(home, 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(home, "config.toml"), bytes.ReplaceAll(config, []byte(standIn), []byte(home)), 0o600); err != nil {
		return "", err
	}
	return home, os.WriteFile(filepath.Join(home, "hooks.json"), hooks, 0o600)
}

// environ returns the environment of Codex for such a query: without variables that select another
// directory or an account.
func environ(getenv func(string) string) []string {
	var list []string
	for _, name := range []string{"PATH", "LANG", "TMPDIR", "SystemRoot", "SYSTEMROOT"} {
		if v := getenv(name); v != "" {
			list = append(list, name+"="+v)
		}
	}
	return list
}
