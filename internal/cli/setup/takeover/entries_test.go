package takeover_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/cli/setup/takeover"
	"palyra/internal/core/must"
)

// rewrite replaces the files of the world.
func (w *world) rewrite(t *testing.T, files map[string]string) {
	t.Helper()
	for path := range w.files {
		must.Do(t, os.Remove(path))
	}
	w.files = map[string]string{}
	for name, text := range files {
		path := filepath.Join(w.home, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o640))
		w.files[path] = text
	}
}

// byEntry returns the servers of a plan by their names in the files.
func byEntry(plan []takeover.Server) map[string]takeover.Server {
	all := map[string]takeover.Server{}
	for _, s := range plan {
		all[s.Entry] = s
	}
	return all
}

// TestValuesOfOtherTypes: numbers, true and null in args and env are passed to the program as
// written. An object is refused with its reason.
func TestValuesOfOtherTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rewrite(t, map[string]string{
		".claude.json": `{"mcpServers": {
			"mixed": {"command": "x", "args": ["--port", 3000, null, true, 1.50], "env": {"DEFAULT_MINIMUM_TOKENS": 6000, "HTTP_PROXY": null, "DEBUG": true, "BIG": 12345678901234567890}},
			"bare": {"command": "x", "args": null, "env": null},
			"wrong": {"command": "x", "env": {"A": {"b": 1}}}, "words": {"command": "x", "args": "--a"}, "list": {"command": ["x"]}, "none": []
		}}`,
		".codex/config.toml": "[mcp_servers.toml]\ncommand = \"x\"\nargs = [5]\nenv = { MAX_TOKENS = 7 }\n[mcp_servers.off]\ncommand = [1]\n",
	})
	done := byEntry(must.Get(w.Take(t.Context(), w.plan(t), ""))(t))
	for name, want := range map[string]string{
		"mixed": "x --port 3000 null true 1.50 | BIG=12345678901234567890 DEBUG=true DEFAULT_MINIMUM_TOKENS=6000",
		"bare":  "x | ",
		"toml":  "x 5 | MAX_TOKENS=7",
	} {
		s := w.gateway.servers[name]
		if got := strings.Join(s.GetCommand(), " ") + " | " + strings.Join(s.GetEnv(), " "); got != want || len(s.GetSecrets()) > 0 {
			t.Errorf("%s is %s, want %s; it stays because %q", name, got, want, done[name].Why)
		}
	}
	for name, want := range map[string]string{
		"wrong": "its env has a value of the wrong type (object)", "words": "its args has a value of the wrong type (string)", "list": "its command has a value of the wrong type (array)",
		"none": "it is not an object", "off": "its command has a value of the wrong type (array)",
	} {
		if done[name].Why != want {
			t.Errorf("%s stays because %q, want %q", name, done[name].Why, want)
		}
	}
}

// TestSecrecy: numbers, options and displays are not secrets. A value is a secret if it has the
// form of one, or if its name says that it is one.
func TestSecrecy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rewrite(t, map[string]string{".cursor/mcp.json": `{"mcpServers": {"x": {"command": "x", "env": {
		"DEFAULT_MINIMUM_TOKENS": "6000", "NODE_OPTIONS": "--max-old-space-size=4096 --require /opt/a.js", "DISPLAY": ":0", "JAVA_TOOL_OPTIONS": "-Xmx512m -Dfile.encoding=UTF-8", "AUTH_ENABLED": "false",
		"TEMPERATURE_KEY": "-0.5", "TIMEOUT": "30s", "LANG": "en_US.UTF-8", "TZ": "Europe/Berlin", "LISTEN": "localhost:8080", "FEATURES": "search,fetch", "TOKEN_LIMIT": "1e5",
		"API_KEY": "sk-1234567890", "PLAIN": "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "OPTIONS": "--api-key=abcd", "FLAGS": "-pS3cr3tPassw0rd", "LOGIN": "admin:hunter2", "WORDS": "correct horse battery staple", "AUTH": "none-of-it", "BLOB": "dGhpcyBpcyBhIHNlY3JldA=="
	}}}}`})
	w.Inject = []string{"x"}
	must.Get(w.Take(t.Context(), w.plan(t), ""))(t)
	var kept []string
	for _, s := range w.gateway.secrets {
		kept = append(kept, s.GetEnv())
	}
	slices.Sort(kept)
	if want := []string{"API_KEY", "AUTH", "BLOB", "FLAGS", "LOGIN", "OPTIONS", "PLAIN", "WORDS"}; !slices.Equal(kept, want) {
		t.Errorf("the vault keeps %q, want %q", kept, want)
	}
	if got := w.gateway.servers["x"].GetEnv(); len(got) != 12 {
		t.Errorf("the server is declared with %q", got)
	}
}

// TestUnreadableFiles: an unreadable file, or part of one, is named and hides no other server.
// An empty file has no servers.
func TestUnreadableFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, want string }{
		"empty":                   {" \n", ""},
		"no bytes":                {"", ""},
		"a byte-order mark":       {"\ufeff{\"mcpServers\": {\"marked\": {\"command\": \"y\"}}}", "marked"},
		"cut off":                 {`{"mcpServers": {"a": `, "cannot be read: 1:"},
		"not UTF-8":               {"{\"a\": \"\xff\"}", "cannot be read: 1:"},
		"an array":                {"[]", "cannot be read: it is not an object"},
		"servers are an array":    {`{"mcpServers": []}`, "mcpServers is not an object"},
		"one project is a number": {`{"mcpServers": {"own": {"command": "y"}}, "projects": {"/a": 1, "/b": {"mcpServers": 2}, "/c": {"mcpServers": {"third": {"command": "y"}}}}}`, "the project /a is not an object"},
		"projects are an array":   {`{"projects": [], "mcpServers": {"own": {"command": "y"}}}`, "its projects is not an object"},
	} {
		w := newWorld(t)
		w.rewrite(t, map[string]string{".claude.json": c.file, ".cursor/mcp.json": `{"mcpServers": {"other": {"command": "x"}}}`})
		plan := w.plan(t)
		all := byEntry(plan)
		if other, there := all["other"]; !there || other.Why != "" {
			t.Errorf("%s: the other client's server: %+v", name, other)
		}
		if strings.Contains(c.file, "own") && all["own"].Name == "" || strings.Contains(c.file, "third") && all["third"].Name == "" {
			t.Errorf("%s: what is beside it in the file is not there: %+v", name, plan)
		}
		said := slices.ContainsFunc(plan, func(s takeover.Server) bool {
			return c.want != "" && s.Agent == "claude-code" && (s.Entry == c.want || strings.Contains(s.Why, c.want))
		})
		if said != (c.want != "") || c.want == "" && len(plan) != 1 {
			t.Errorf("%s: %+v, want %q", name, plan, c.want)
		}
	}
	w := newWorld(t)
	w.rewrite(t, map[string]string{".codex/config.toml": "x = \n", ".cursor/mcp.json": `{"mcpServers": {"other": {"command": "x"}}}`})
	must.Do(t, os.Symlink("/elsewhere/mcp.json", filepath.Join(w.home, ".claude.json")))
	plan := w.plan(t)
	if all := byEntry(plan); len(plan) != 3 || all["other"].Name != "other" {
		t.Errorf("a link out of the home directory and TOML that is none: %+v", plan)
	}
}

// TestLines: a command that is a whole line is split into words, or refused with its reason. A
// command that uv runs in a directory is refused with that reason.
func TestLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spaced := filepath.Join(w.home, "My App", "server")
	must.Do(t, os.MkdirAll(filepath.Dir(spaced), 0o700))
	must.Do(t, os.WriteFile(spaced, nil, 0o700))
	w.rewrite(t, map[string]string{".cursor/mcp.json": `{"mcpServers": {
		"line": {"command": "npx -y @scope/a"}, "more": {"command": "npx -y", "args": ["@scope/b@2", "--x"]}, "joined": {"command": "npx", "args": ["-y @scope/c", "d"]},
		"windows": {"command": "cmd", "args": ["/c", "npx", "-y", "@scope/e"]}, "spaced": {"command": "` + spaced + `"}, "plain": {"command": "mcp-files --root /data"},
		"shell": {"command": "npx -y a && b"}, "quoted": {"command": "node 'my file.js'"},
		"uv": {"command": "uv", "args": ["--directory", "/home/me/d", "run", "x.py"]}, "uvinside": {"command": "uv", "args": ["run", "--directory=/home/me/d", "x.py"]}, "uvline": {"command": "uv --project /home/me/d run x.py"},
		"npm": {"command": "npm", "args": ["--prefix", "/home/me/d", "run", "start"]}, "uvtool": {"command": "uv", "args": ["--directory", "/home/me/d", "tool", "run", "x"]}, "uvquiet": {"command": "uv", "args": ["-q", "tool", "run", "y"]}
	}}`})
	done := byEntry(must.Get(w.Take(t.Context(), w.plan(t), ""))(t))
	slices.Sort(w.gateway.installed)
	if want := []string{"joined npm @scope/c", "line npm @scope/a", "more npm @scope/b 2", "uvquiet pypi y", "windows npm @scope/e"}; !slices.Equal(w.gateway.installed, want) {
		t.Errorf("installed %q, want %q", w.gateway.installed, want)
	}
	for name, want := range map[string][]string{"spaced": {spaced}, "plain": {"mcp-files", "--root", "/data"}, "more": {"mcp-more", "--x"}, "joined": {"mcp-joined", "d"}} {
		if got := w.gateway.servers[name].GetCommand(); !slices.Equal(got, want) {
			t.Errorf("%s is declared as %q, want %q; it stays because %q", name, got, want, done[name].Why)
		}
	}
	for name, wants := range map[string][]string{
		"shell": {"a line for a shell"}, "quoted": {"a line for a shell"},
		"uv": {"uv run", "does not have the directory /home/me/d", ".venv/bin/python"}, "uvinside": {"uv run", "directory /home/me/d"}, "uvline": {"uv run", "directory /home/me/d"},
		"npm": {"npm run", "directory /home/me/d"}, "uvtool": {"uv tool run works in the directory /home/me/d"},
	} {
		for _, want := range wants {
			if !strings.Contains(done[name].Why, want) {
				t.Errorf("%s stays because %q, want %q", name, done[name].Why, want)
			}
		}
	}
}
