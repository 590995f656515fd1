package install

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"palyra/internal/agent/files"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tomledit"
)

// codexEvents are the events for which Codex calls palyrad.
var codexEvents = []struct {
	name string
	asks bool
}{{"PreToolUse", true}, {"PostToolUse", false}, {"SessionEnd", false}}

// codex plans the hooks of Codex on a site.
type codex struct{ Site }

// plan plans the hook of Codex, and marks it as trusted in Codex's configuration.
func (c codex) plan(ctx context.Context, w Wanted, token string) (*Plan, error) {
	if w.Transport == TransportHTTP {
		return nil, reason.Errorf(reason.InvalidInput, "Codex has no http hook").WithRemedy("Omit --transport.")
	}
	p := &Plan{Hook: Hook{Agent: w.Agent, Scope: w.Scope, Project: w.Project, Transport: TransportCommand}}
	if err := p.holdToken(c.Site, token); err != nil {
		return nil, err
	}
	if w.Scope == files.Managed {
		return p, c.planManaged(p, w)
	}
	path, root := c.hookFile(w)
	hooks, err := Begin(p.Hook.Owner(), path, root)
	if err != nil {
		return nil, err
	}
	for _, event := range codexEvents {
		handler, err := c.handler(w, event.asks)
		if err != nil {
			return nil, err
		}
		group := map[string]any{"hooks": []any{handler}}
		if err := hooks.AddToList(group, mark(w, TransportCommand), "hooks", event.name); err != nil {
			return nil, err
		}
	}
	config, err := c.config(p.Hook.Owner())
	if err != nil {
		return nil, err
	}
	if err := c.trust(ctx, hooks, config, w); err != nil {
		return nil, err
	}
	if w.Scope == files.Project {
		p.Notes = append(p.Notes, "Codex reads a project's hooks once it trusts the project")
	}
	p.Edits = append(p.Edits, hooks, config)
	return p, nil
}

// handler returns the handler of an event. With asks it may wait for approval, otherwise it
// only reports.
func (c codex) handler(w Wanted, asks bool) (map[string]any, error) {
	limit := reportLimit
	if asks {
		limit = c.limit()
	}
	line, err := c.command(w, limit)
	return map[string]any{"type": "command", "command": line, "timeout": limit}, err
}

// config returns the user's configuration of Codex, which contains the trust in hooks.
func (c codex) config(owner string) (*Edit, error) {
	path := filepath.Join(c.CodexDir(), "config.toml")
	config, err := Begin(owner, path, c.root(path, Wanted{Scope: files.User}))
	if err != nil {
		return nil, err
	}
	if off, err := tomlValue(config.After, []string{"features", "hooks"}); err != nil {
		return nil, config.cannotEdit(err)
	} else if off == "false" {
		return nil, reason.Errorf(reason.ConfigInvalid, "%s switches hooks off (features.hooks)", config.File.Path).
			WithRemedy("Remove the line, and run this again.")
	}
	return config, nil
}

// trust marks the hooks of the planned file as trusted in the configuration of Codex. Codex
// computes the hashes, and then verifies the result.
func (c codex) trust(ctx context.Context, hooks, config *Edit, w Wanted) error {
	lines := make(map[string]bool)
	for _, event := range codexEvents {
		handler, err := c.handler(w, event.asks)
		if err != nil {
			return err
		}
		line, _ := handler["command"].(string)
		lines[line] = true
	}
	program, err := c.program()
	if err != nil {
		return err
	}
	untrusted, err := c.list(ctx, program, hooks, bareCodex(config.After))
	if err != nil {
		return err
	}
	ours := 0
	copyOf := bareCodex(config.After)
	for _, h := range untrusted {
		if !lines[h.Command] {
			continue
		}
		ours++
		at := strings.TrimPrefix(h.Key, h.SourcePath)
		if err := config.SetTOML(h.CurrentHash, "hooks", "state", hooks.File.Path+at, "trusted_hash"); err != nil {
			return err
		}
		if copyOf, _, err = tomledit.Set(copyOf, []string{"hooks", "state", h.Key, "trusted_hash"}, h.CurrentHash); err != nil {
			return err
		}
	}
	trusted := 0
	list, err := c.list(ctx, program, hooks, copyOf)
	if err != nil {
		return err
	}
	for _, h := range list {
		if lines[h.Command] && h.TrustStatus == "trusted" && h.Enabled {
			trusted++
		}
	}
	if ours != len(codexEvents) || trusted != ours {
		return reason.Errorf(reason.VerificationFailed, "Codex lists %s of Palyra and would run %d; it should be %d", text.Plural(ours, "hook"), trusted, len(codexEvents)).
			WithRemedy("This Codex is too old, or too new for this palyra: update both. Nothing was installed.")
	}
	return nil
}

// program is the program of Codex.
func (c codex) program() (string, error) {
	if c.Codex != "" {
		return c.Codex, nil
	}
	program, err := exec.LookPath(files.Codex.Program())
	if err != nil {
		return "", reason.Errorf(reason.NotFound, "codex is not in the PATH").
			WithRemedy("The check asks Codex itself: install it, and run this again.")
	}
	return filepath.Abs(program)
}

// copyHome stands for the temporary directory of the copy.
const copyHome = "/copy/.codex"

// list asks Codex for the hooks that it would have with these files.
func (c codex) list(ctx context.Context, program string, hooks *Edit, config []byte) (list []listedHook, err error) {
	home, err := copyCodex(config, hooks.After, copyHome)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(filepath.Dir(home))) }()
	list, err = codexHooks(ctx, program, home, filepath.Dir(home), environ(c.Getenv))
	for i := range list {
		list[i].Key = strings.Replace(list[i].Key, home, copyHome, 1)
		list[i].SourcePath = strings.Replace(list[i].SourcePath, home, copyHome, 1)
	}
	return list, err
}

// bareCodex returns a Codex configuration with only the settings of hooks. Servers and
// providers are omitted, because they contain credentials and must not be started.
func bareCodex(text []byte) []byte {
	var doc map[string]any
	if tomledit.Decode(text, &doc) != nil {
		return nil
	}
	var out []byte
	hooks, _ := doc["hooks"].(map[string]any)
	state, _ := hooks["state"].(map[string]any)
	for key, v := range state {
		one, _ := v.(map[string]any)
		if hash, ok := one["trusted_hash"].(string); ok {
			if edited, _, err := tomledit.Set(out, []string{"hooks", "state", key, "trusted_hash"}, hash); err == nil {
				out = edited
			}
		}
		if enabled, ok := one["enabled"].(bool); ok {
			if edited, _, err := tomledit.Set(out, []string{"hooks", "state", key, "enabled"}, enabled); err == nil {
				out = edited
			}
		}
	}
	return bytes.Clone(out)
}

// planManaged plans the hook in the requirements of Codex, which apply to every user of this
// machine.
func (c codex) planManaged(p *Plan, w Wanted) error {
	path := c.requirements()
	e, err := Begin(p.Hook.Owner(), path, filepath.Dir(path))
	if err != nil {
		return err
	}
	e.Mode = 0o644 // readable for every user's Codex
	for _, event := range codexEvents {
		handler, err := c.handler(w, event.asks)
		if err != nil {
			return err
		}
		if err := e.AppendTOML("palyra-hook", []string{"hooks", event.name}, tomledit.Pair{Key: "hooks", Value: []any{handler}}); err != nil {
			return err
		}
	}
	p.Edits = append(p.Edits, e)
	return nil
}

// requirements returns the file of the requirements for every user's Codex on this machine.
func (c codex) requirements() string {
	for _, f := range c.Files(files.Codex, "") {
		if f.Scope == files.Managed {
			return f.Path
		}
	}
	return ""
}
