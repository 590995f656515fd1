package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"palyra/internal/agent/edit/jsonc"
	"palyra/internal/agent/files"
	"palyra/internal/cli/command"
	"palyra/internal/core/reason"
)

// claude plans the hooks of Claude Code on a site.
type claude struct{ Site }

// plan plans the hook of Claude Code.
func (c claude) plan(w Wanted, token string) (*Plan, error) {
	p := &Plan{Hook: Hook{Agent: w.Agent, Scope: w.Scope, Project: w.Project, Address: c.Agents}}
	path, root := c.hookFile(w)
	if w.Scope == files.Managed {
		path, root = c.ManagedDropIn(), filepath.Dir(filepath.Dir(c.ManagedDropIn()))
	}
	e, err := Begin(p.Hook.Owner(), path, root)
	if err != nil {
		return nil, err
	}
	e.Whole = w.Scope == files.Managed
	public := w.Scope != files.User || e.File.Linked || inRepository(e.File.Path, c.Home)
	transport, why, err := c.transport(w, public)
	if err != nil {
		return nil, err
	}
	p.Hook.Transport = transport
	if why != "" {
		p.Notes = append(p.Notes, why)
	}
	handler := map[string]any{"type": "command"}
	p.Token = true
	if transport == TransportHTTP {
		handler = map[string]any{"type": "http", "url": c.HookURL(w.Agent)}
		if public {
			handler["headers"] = map[string]any{"Authorization": "Bearer $" + TokenVariable}
			handler["allowedEnvVars"] = []string{TokenVariable}
			p.Notes = append(p.Notes, "the token is read from the variable "+TokenVariable+", because "+e.File.Path+" may be published; until it is set, every tool is blocked")
		} else {
			p.InFile, e.Mode = true, 0o600
			if token == "" {
				token = placeholder
			}
			handler["headers"] = map[string]any{"Authorization": "Bearer " + token}
		}
	} else if err := p.holdToken(c.Site, token); err != nil {
		return nil, err
	}
	for _, event := range []struct {
		name    string
		matcher bool
		limit   int
	}{{"PreToolUse", true, c.limit()}, {"PostToolUse", true, reportLimit}, {"PostToolUseFailure", true, reportLimit}, {"SessionEnd", false, reportLimit}} {
		h := map[string]any{"timeout": event.limit}
		for key, value := range handler {
			h[key] = value
		}
		if transport == TransportCommand {
			if h["command"], err = c.command(w, event.limit); err != nil {
				return nil, err
			}
		}
		if event.name == "PreToolUse" {
			h["onFailure"] = "block"
		}
		group := map[string]any{"hooks": []any{h}}
		if event.matcher {
			group["matcher"] = "*"
		}
		if err := e.AddToList(group, mark(w, transport), "hooks", event.name); err != nil {
			return nil, err
		}
	}
	if !e.Whole && !strictJSON(e.File.Text) {
		return nil, reason.Errorf(reason.ConfigInvalid, "%s is not plain JSON: Claude Code ignores all of it, a hook in it included", path).
			WithRemedy("Remove the comments and the commas before closing brackets, and run this again.")
	}
	if w.Scope == files.Managed {
		e.Mode = 0o644 // readable for every user's Claude Code
	}
	p.Edits = append(p.Edits, e)
	return p, nil
}

// strictJSON reports whether Claude Code accepts a settings file: unlike editors, it silently
// ignores one with comments.
func strictJSON(text []byte) bool { return len(bytes.TrimSpace(text)) == 0 || json.Valid(text) }

// transport selects how Claude Code connects to palyrad. why explains the selection if it is not
// the http hook.
func (c claude) transport(w Wanted, public bool) (transport, why string, err error) {
	var against string
	switch {
	case c.Agents == "":
		against = "palyrad has no listener for agents (listen.agents)"
	case c.People > 1:
		against = "more than one person uses this machine, and another's program could take the port"
	case !c.Held:
		against = "no service manager holds the port while palyrad does not run, so that another program could take it"
	}
	if against == "" {
		if against, err = c.httpRefused(w.Agent, w.Project); err != nil {
			return "", "", err
		}
	}
	switch w.Transport {
	case TransportCommand:
		return TransportCommand, "", nil
	case TransportHTTP:
		if against != "" {
			return "", "", reason.Errorf(reason.ConfigInvalid, "the http hook cannot be used: %s", against).
				WithRemedy("Use --transport command.")
		}
		return TransportHTTP, "", nil
	case "":
	default:
		return "", "", command.Usage("--transport %q: want http or command", w.Transport)
	}
	switch {
	case against != "":
		return TransportCommand, "the command hook is used: " + against, nil
	case public:
		return TransportCommand, "the command hook is used, which needs no credential: the file may be published or read by others", nil
	}
	return TransportHTTP, "", nil
}

// claudeSettings are the settings of Claude Code that concern hooks.
type claudeSettings struct {
	AllowedHTTPHookURLs    *[]string                    `json:"allowedHttpHookUrls"`
	HTTPHookAllowedEnvVars *[]string                    `json:"httpHookAllowedEnvVars"`
	AllowManagedHooksOnly  bool                         `json:"allowManagedHooksOnly"`
	DisableAllHooks        bool                         `json:"disableAllHooks"`
	Hooks                  map[string][]hookGroup       `json:"hooks"`
	Permissions            struct{ DefaultMode string } `json:"permissions"`
	PluginsOn              map[string]bool              `json:"enabledPlugins"`
}

// hookGroup is a group of hooks.
type hookGroup struct {
	Matcher string           `json:"matcher"`
	Hooks   []map[string]any `json:"hooks"`
}

// readClaude reads one settings file; nil if it does not exist or this user may not read it.
func readClaude(path string) (*claudeSettings, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v := &claudeSettings{}
	if len(strings.TrimSpace(string(text))) == 0 {
		return v, nil
	}
	if err := jsonc.Decode(text, v); err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "%s:%w", path, err).WithRemedy("Correct the file first; nothing was written.")
	}
	return v, nil
}

// httpRefused returns the setting that forbids the http hook; "" for none.
func (c claude) httpRefused(a files.Agent, project string) (string, error) {
	url := c.HookURL(a)
	for _, f := range c.Files(a, project) {
		if !f.Has(files.Settings) {
			continue
		}
		v, err := readClaude(f.Path)
		if err != nil || v == nil || v.AllowedHTTPHookURLs == nil {
			if err != nil {
				return "", err
			}
			continue
		}
		allowed := false
		for _, pattern := range *v.AllowedHTTPHookURLs {
			allowed = allowed || wildcard(pattern, url)
		}
		if !allowed {
			return f.Path + " allows http hooks to other addresses alone (allowedHttpHookUrls)", nil
		}
	}
	return "", nil
}

// wildcard reports whether a pattern with "*" matches a text.
func wildcard(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}
