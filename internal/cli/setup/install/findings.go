package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"palyra/internal/agent/files"
	"palyra/internal/agent/watch"
)

// Finding is a setting of an agent that affects the hook.
type Finding struct {
	// Bad is true if it can replace, disable or bypass the hook.
	Bad  bool
	Path string
	What string
}

// String returns the finding as one line.
func (f Finding) String() string { return f.Path + ": " + f.What }

// Findings returns the other hooks of an agent, and the settings that can rewrite, disable or
// bypass a hook of Palyra. Settings of a project are included.
func (s Site) Findings(a files.Agent, project string, h *Hook) ([]Finding, error) {
	var list []Finding
	managed := false
	for _, f := range s.Files(a, project) {
		text, err := os.ReadFile(f.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			list = append(list, Finding{true, f.Path, "cannot be read: " + err.Error()})
			continue
		}
		if len(strings.TrimSpace(string(text))) == 0 {
			continue
		}
		found, err := s.look(a, f, text, h)
		if err != nil {
			list = append(list, Finding{true, f.Path, "does not parse: " + err.Error()})
			continue
		}
		managed = managed || f.Scope == files.Managed
		slices.SortFunc(found, func(a, b Finding) int { return strings.Compare(a.What, b.What) })
		list = append(list, found...)
	}
	if a == files.ClaudeCode && !managed {
		list = append(list, Finding{false, "managed settings", "none: any program that can write the person's settings can remove the hook (install with --managed, as root)"})
	}
	return list, nil
}

// look checks one file.
func (s Site) look(a files.Agent, f files.File, text []byte, h *Hook) ([]Finding, error) {
	var list []Finding
	add := func(bad bool, format string, args ...any) {
		list = append(list, Finding{bad, f.Path, fmt.Sprintf(format, args...)})
	}
	if a == files.ClaudeCode && f.Has(files.Settings) && !strictJSON(text) {
		add(true, "is not plain JSON (a comment, or a comma before a closing bracket): Claude Code ignores all of it, hooks included")
	}
	at := func(keys ...string) (raw json.RawMessage, err error) { return watch.Lookup(f.Format, text, keys) }
	if f.Has(files.Hooks) || f.Has(files.Settings) {
		raw, err := at("hooks")
		if err != nil {
			return nil, err
		}
		for _, one := range otherHooks(raw) {
			add(one.rewrites, "%s", one.text)
		}
	}
	if f.Has(files.Servers) {
		if raw, _ := at(f.Key, "palyra"); raw != nil && f.Scope == files.Project {
			add(true, "a project names a server of its own palyra: its tools are not Palyra's")
		}
	}
	if !f.Has(files.Settings) {
		return list, nil
	}
	if a == files.Codex {
		return append(list, lookCodex(f, text, h)...), nil
	}
	v, err := readClaude(f.Path)
	if err != nil || v == nil {
		return list, err
	}
	ours := h != nil && h.Transport == TransportHTTP
	if v.DisableAllHooks {
		add(true, "disableAllHooks is true: no hook runs")
	}
	if v.AllowManagedHooksOnly {
		add(h != nil && h.Scope != files.Managed, "allowManagedHooksOnly is true: hooks of people and projects do not run")
	}
	if v.AllowedHTTPHookURLs != nil {
		allowed := false
		for _, pattern := range *v.AllowedHTTPHookURLs {
			allowed = allowed || wildcard(pattern, s.HookURL(a))
		}
		add(ours && !allowed, "allowedHttpHookUrls is %q", *v.AllowedHTTPHookURLs)
	}
	if v.HTTPHookAllowedEnvVars != nil {
		named := ours && h.Scope == files.Project
		for _, name := range *v.HTTPHookAllowedEnvVars {
			named = named && name != TokenVariable
		}
		add(named, "httpHookAllowedEnvVars is %q", *v.HTTPHookAllowedEnvVars)
	}
	if mode := v.Permissions.DefaultMode; mode != "" && mode != "default" && mode != "plan" {
		add(false, "permissions.defaultMode is %q: Claude Code itself asks less; what Palyra decides holds all the same", mode)
	}
	for name, on := range v.PluginsOn {
		if on {
			add(false, "the plugin %s is enabled: plugins can have hooks, which can change the input of a tool", name)
		}
	}
	return list, nil
}

func lookCodex(f files.File, text []byte, h *Hook) []Finding {
	var list []Finding
	is := func(want string, keys ...string) bool {
		raw, err := watch.Lookup(f.Format, text, keys)
		return err == nil && string(raw) == want
	}
	if is("false", "features", "hooks") || is("false", "features", "codex_hooks") {
		list = append(list, Finding{true, f.Path, "features.hooks is false: no hook runs"})
	}
	if is("true", "allow_managed_hooks_only") {
		list = append(list, Finding{h != nil && h.Scope != files.Managed && f.Scope == files.Managed, f.Path, "allow_managed_hooks_only is true: hooks of people and projects do not run"})
	}
	raw, _ := watch.Lookup(f.Format, text, []string{"hooks", "state"})
	var state map[string]struct {
		Enabled *bool `json:"enabled"`
	}
	if json.Unmarshal(raw, &state) == nil {
		for key, one := range state {
			if one.Enabled != nil && !*one.Enabled {
				list = append(list, Finding{strings.Contains(key, "pre_tool_use"), f.Path, "the hook " + key + " is switched off"})
			}
		}
	}
	if is(`"danger-full-access"`, "sandbox_mode") {
		list = append(list, Finding{false, f.Path, "sandbox_mode is danger-full-access: Codex's own sandbox is off"})
	}
	return list
}

// otherHook is a hook that is not Palyra's.
type otherHook struct {
	text     string
	rewrites bool
}

// otherHooks returns the hooks in the settings that are not Palyra's. A hook before a tool can
// change the tool's input after Palyra has decided.
func otherHooks(raw json.RawMessage) []otherHook {
	var events map[string]json.RawMessage
	if json.Unmarshal(raw, &events) != nil {
		return nil
	}
	var list []otherHook
	for event, text := range events {
		var groups []hookGroup
		if json.Unmarshal(text, &groups) != nil {
			continue
		}
		for _, g := range groups {
			for _, one := range g.Hooks {
				what := fmt.Sprint(one["type"])
				for _, key := range []string{"command", "url", "server"} {
					if v, ok := one[key].(string); ok {
						what += " " + v
					}
				}
				if strings.Contains(what, "palyra-hook") || strings.Contains(what, "/hooks/v1/") {
					continue
				}
				rewrites := event == "PreToolUse" || event == "PermissionRequest"
				say := "another hook of " + event + ": " + what
				if rewrites {
					say += " (it can change the input of a tool, or answer in its place)"
				}
				list = append(list, otherHook{say, rewrites})
			}
		}
	}
	return list
}

// Strength describes how an installed and working hook can be bypassed.
func (s Site) Strength(h Hook) string {
	switch {
	case h.Scope == files.Managed:
		return "managed: only root can take it out"
	case h.Transport == TransportHTTP && s.Held:
		return "http, and the service manager holds the port: a program that runs as you can still edit the settings (palyrad sees it)"
	case h.Transport == TransportHTTP:
		return "http, and the port is free while palyrad does not run: another program of this machine could use it"
	}
	return "command: every end but 0 blocks, but for a hook that Claude Code or Codex itself gives up on (see docs/hooks.md); a program that runs as you can edit the settings (palyrad sees it)"
}
