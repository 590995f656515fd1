package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"palyra/internal/agent/edit/jsonc"
	"palyra/internal/agent/files"
	"palyra/internal/cli/command"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
)

// Site has the properties of this machine that determine how hooks are installed.
type Site struct {
	files.Machine
	// Agents is host:port of the listener for agents; "" for none.
	Agents string
	// Held is true if a service manager holds that port even while palyrad does not run.
	Held bool
	// People is the number of users of this machine.
	People int
	// HookProgram is the absolute path of palyra-hook; "" for none.
	HookProgram string
	// StateDir is where palyrad has its state, with the socket for hooks of its own user.
	StateDir string
	// SharedSocket is the socket for hooks of other users; "" for none.
	SharedSocket string
	// Wait is how long an approver may take to answer.
	Wait time.Duration
	// Codex is the program of Codex; "" searches the PATH.
	Codex string
}

// margin is how much longer the agent's timeout for its hook is than the hook's wait for approval.
const margin = 30 * time.Second

// limit is the timeout of a hook that may wait for approval.
func (s Site) limit() int { return int((s.Wait + margin) / time.Second) }

// reportLimit is the timeout in seconds of a hook that only reports.
const reportLimit = 30

// Wanted describes the requested hook.
type Wanted struct {
	Agent files.Agent
	Scope files.Scope
	// Project is the directory of a project.
	Project string
	// Transport is TransportHTTP or TransportCommand; "" selects one automatically.
	Transport string
}

// TokenVariable is the environment variable with the token of a project's hook.
const TokenVariable = "PALYRA_HOOK_TOKEN" //nolint:gosec // the name of a variable

// Plan lists the changes of an installation.
type Plan struct {
	Hook Hook
	// Edits are the changes of files, in their order.
	Edits []*Edit
	// Notes are remarks for the user before the installation.
	Notes []string
	// Token is true if the hook has a token. InFile is true if the token is stored in a file.
	Token, InFile bool
}

// placeholder is displayed instead of a token that is not created yet.
const placeholder = "pal_..."

// Plan plans the installation of a hook. token is the hook's token, "" if it does not exist yet:
// the plan is then for display only.
func (s Site) Plan(ctx context.Context, w Wanted, token string) (*Plan, error) {
	switch w.Agent {
	case files.ClaudeCode:
		return s.planClaude(w, token)
	case files.Codex:
		return s.planCodex(ctx, w, token)
	}
	return nil, command.Usage("%s takes no hooks", w.Agent.Title()).WithRemedy("Give it Palyra's tools: `palyra mcp config %s`.", w.Agent)
}

// hookFile returns the file for the hooks of an agent and a scope, and the directory that contains
// it. Edits must not leave that directory.
func (s Site) hookFile(w Wanted) (path, root string) {
	for _, f := range s.Files(w.Agent, w.Project) {
		if f.Scope == w.Scope && f.Has(files.Hooks) {
			path = f.Path
		}
	}
	return path, s.root(path, w)
}

// root returns the directory that a file belongs to: the home, the project, or the agent's
// configured directory.
func (s Site) root(path string, w Wanted) string {
	switch {
	case w.Scope == files.Project:
		return w.Project
	case w.Scope == files.Managed || !strings.HasPrefix(path, s.Home+string(filepath.Separator)):
		return filepath.Dir(path)
	}
	return s.Home
}

// TokenFile returns the token file of an agent's command hooks: a private file of the user, outside
// of repositories.
func (s Site) TokenFile(a files.Agent) string {
	return filepath.Join(s.ClientState(), "hooks", string(a)+".token")
}

// homeState is the user's state directory as a shell expression, for files that several users
// share.
const homeState = `${XDG_STATE_HOME:-$HOME/.local/state}`

// command returns the command line of the hook with its timeout in seconds. Every exit of
// palyra-hook except 0 blocks the call, and so does a missing palyra-hook. The command writes
// to standard error, because Codex treats exit 2 without output as a failed hook and then runs
// the call.
func (s Site) command(w Wanted, limit int) (string, error) {
	program, socket, token := "palyra-hook", homeState+"/palyra/hooks.sock", homeState+"/palyra-cli/hooks/"+string(w.Agent)+".token" //nolint:gosec // the names of files
	if w.Scope != files.Project {
		// A project's file is shared by all users of the project, in any location.
		if s.HookProgram == "" {
			return "", reason.Errorf(reason.NotFound, "palyra-hook is neither next to palyra nor in the PATH").
				WithRemedy("Install it next to palyra, and run this again.")
		}
		program = s.HookProgram
	}
	if w.Scope == files.User {
		socket, token = statedir.Hooks(s.StateDir), s.TokenFile(w.Agent)
	}
	if s.SharedSocket != "" && w.Scope != files.Project {
		socket = s.SharedSocket
	}
	for _, path := range []string{s.HookProgram, s.StateDir, s.SharedSocket, s.ClientState()} {
		if strings.ContainsAny(path, "'\"\\$`\n") {
			return "", reason.Errorf(reason.ConfigInvalid, "the path %q has a character that a shell interprets", path).
				WithRemedy("Use another directory.")
		}
	}
	return fmt.Sprintf(`sh -c '"%s" %s -socket "%s" -token-file "%s" -limit %d || { echo "palyra: the call does not run" >&2; exit 2; }'`, program, w.Agent, socket, token, limit), nil
}

// mark identifies a hook of palyra in an agent's settings.
func mark(w Wanted, transport string) string {
	if transport == TransportHTTP {
		return hookPath(w.Agent)
	}
	return "palyra-hook"
}

func hookPath(a files.Agent) string { return "/hooks/v1/" + string(a) }

// HookURL is the endpoint of an agent's http hook.
func (s Site) HookURL(a files.Agent) string { return "http://" + s.Agents + hookPath(a) }

// inRepository reports whether a file is in a git repository, and may therefore be published.
func inRepository(path, home string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return true
		} else if !errors.Is(err, fs.ErrNotExist) {
			return true // an unreadable directory counts as a repository
		}
		if dir == home || dir == filepath.Dir(dir) {
			return false
		}
	}
}

// planClaude plans the hook of Claude Code.
func (s Site) planClaude(w Wanted, token string) (*Plan, error) {
	p := &Plan{Hook: Hook{Agent: w.Agent, Scope: w.Scope, Project: w.Project, Address: s.Agents}}
	path, root := s.hookFile(w)
	if w.Scope == files.Managed {
		path, root = s.ManagedDropIn(), filepath.Dir(filepath.Dir(s.ManagedDropIn()))
	}
	e, err := Begin(p.Hook.Owner(), path, root)
	if err != nil {
		return nil, err
	}
	e.Whole = w.Scope == files.Managed
	public := w.Scope != files.User || e.File.Linked || inRepository(e.File.Path, s.Home)
	transport, why, err := s.transport(w, public)
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
		handler = map[string]any{"type": "http", "url": s.HookURL(w.Agent)}
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
	} else if err := p.holdToken(s, token); err != nil {
		return nil, err
	}
	for _, event := range []struct {
		name    string
		matcher bool
		limit   int
	}{{"PreToolUse", true, s.limit()}, {"PostToolUse", true, reportLimit}, {"PostToolUseFailure", true, reportLimit}, {"SessionEnd", false, reportLimit}} {
		h := map[string]any{"timeout": event.limit}
		for key, value := range handler {
			h[key] = value
		}
		if transport == TransportCommand {
			if h["command"], err = s.command(w, event.limit); err != nil {
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

// tokenOwner returns the owner of the change that creates an agent's token file. All command hooks
// of the agent share that file.
func tokenOwner(a files.Agent) string { return "token/" + string(a) }

// holdToken plans the file with the token of an agent's command hooks.
func (p *Plan) holdToken(s Site, token string) error {
	path := s.TokenFile(p.Hook.Agent)
	e, err := Begin(tokenOwner(p.Hook.Agent), path, s.ClientState())
	if err != nil {
		return err
	}
	e.Whole, e.Mode, e.secret = true, 0o600, true
	if token == "" {
		token = placeholder
	}
	e.After = []byte(token + "\n")
	p.Token, p.InFile = true, true
	p.Edits = append(p.Edits, e)
	return nil
}

// transport selects how Claude Code connects to palyrad. why explains the selection if it is not
// the http hook.
func (s Site) transport(w Wanted, public bool) (transport, why string, err error) {
	var against string
	switch {
	case s.Agents == "":
		against = "palyrad has no listener for agents (listen.agents)"
	case s.People > 1:
		against = "more than one person uses this machine, and another's program could take the port"
	case !s.Held:
		against = "no service manager holds the port while palyrad does not run, so that another program could take it"
	}
	if against == "" {
		if against, err = s.httpRefused(w.Agent, w.Project); err != nil {
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
func (s Site) httpRefused(a files.Agent, project string) (string, error) {
	url := s.HookURL(a)
	for _, f := range s.Files(a, project) {
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

// Watched returns the entries of a plan that palyrad watches.
func (p *Plan) Watched() []Watched {
	var list []Watched
	for _, e := range p.Edits {
		for _, entry := range e.Entries {
			list = append(list, Watched{Path: e.File.Path, Entry: entry})
		}
	}
	return list
}

// Watched is an entry in a file.
type Watched struct {
	Path string
	Entry
}
