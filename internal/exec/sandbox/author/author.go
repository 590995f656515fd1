// Package author determines the git author of the person who runs palyrad, by calling git. It
// reads only user.name and user.email of that person's configuration.
package author

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"palyra/internal/exec/program/command"
)

const (
	// patience is the timeout for git, because its configuration could include a file that never
	// ends.
	patience = 2 * time.Second
	// current is how long a result is cached, so that a changed name takes effect soon.
	current = 10 * time.Second
)

// Of returns the git author of the owner of the directory home. It returns an empty author if
// home is empty, or if git is missing or fails.
func Of(home string) command.Author {
	if home == "" {
		return command.Author{}
	}
	git := command.Namesakes("git", command.SearchPath(), nil)
	if len(git) == 0 {
		return command.Author{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, git[0], "config", "--null", "--includes", "--get-regexp", `^user\.(name|email)$`)
	cmd.Dir, cmd.Env, cmd.WaitDelay = "/", environment(home), patience
	out, err := cmd.Output()
	if err != nil {
		return command.Author{} // git also fails if neither is set
	}
	return parse(string(out))
}

// environment returns the environment of git. git reads the configuration of the owner of home,
// but not the machine's or a repository's configuration.
func environment(home string) []string {
	env := []string{
		"HOME=" + home, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR=" + os.DevNull, "GIT_TERMINAL_PROMPT=0",
		"GIT_TRACE2=0", "GIT_TRACE2_EVENT=0", "GIT_TRACE2_PERF=0",
	}
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		env = append(env, "XDG_CONFIG_HOME="+dir)
	}
	return env
}

// parse parses settings, each a key, a line end, a value and a NUL. As in git, the last setting
// of a key takes precedence.
func parse(out string) command.Author {
	var a command.Author
	for setting := range strings.SplitSeq(out, "\x00") {
		switch key, value, _ := strings.Cut(setting, "\n"); key {
		case "user.name":
			a.Name = value
		case "user.email":
			a.Email = value
		}
	}
	return a.Fit()
}

// Author caches the author for a short time. It is safe for concurrent use.
type Author struct {
	home string

	mu    sync.Mutex
	found command.Author
	until time.Time
}

// New returns the author for the owner of the directory home. An empty home means no author.
func New(home string) *Author { return &Author{home: home} }

// Now returns the current author.
func (a *Author) Now() command.Author {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.After(a.until) {
		a.found, a.until = Of(a.home), now.Add(current)
	}
	return a.found
}
