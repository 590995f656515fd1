package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

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
		return claude{s}.plan(w, token)
	case files.Codex:
		return codex{s}.plan(ctx, w, token)
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
