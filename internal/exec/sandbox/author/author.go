// Package author finds out whom git names in the commits of the person who runs
// palyrad, by asking git. Of that person's configuration it takes user.name and
// user.email and nothing else.
package author

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"palyra/internal/exec/sandbox"
)

const (
	// patience is how long git may take to read its configuration, which could
	// include a file that never ends.
	patience = 2 * time.Second
	// current is how long what was found counts, so that a name that somebody
	// sets is there for the next calls.
	current = 10 * time.Second
)

// Of is whom git names in the commits of whoever has this home directory, "" for
// nobody. It is nobody, too, where git is missing or fails.
func Of(home string) sandbox.Author {
	if home == "" {
		return sandbox.Author{}
	}
	git := sandbox.Namesakes("git", sandbox.SearchPath(), nil)
	if len(git) == 0 {
		return sandbox.Author{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, git[0], "config", "--null", "--includes", "--get-regexp", `^user\.(name|email)$`)
	cmd.Dir, cmd.Env, cmd.WaitDelay = "/", environment(home), patience
	out, err := cmd.Output()
	if err != nil {
		return sandbox.Author{} // it also fails where neither is set
	}
	return parse(string(out))
}

// environment lets git see the configuration of one person, and neither that of
// the machine nor that of a repository.
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

// parse reads key, line end, value and NUL of each setting; the last one of a key
// counts, as it does for git.
func parse(out string) sandbox.Author {
	var a sandbox.Author
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

// Author is asked for again as time goes by. It may be used by several goroutines.
type Author struct {
	home string

	mu    sync.Mutex
	found sandbox.Author
	until time.Time
}

// New returns the author of whoever has this home directory, "" for nobody.
func New(home string) *Author { return &Author{home: home} }

// Now is who it is.
func (a *Author) Now() sandbox.Author {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.After(a.until) {
		a.found, a.until = Of(a.home), now.Add(current)
	}
	return a.found
}
