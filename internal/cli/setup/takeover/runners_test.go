package takeover_test

import (
	"reflect"
	"strings"
	"testing"

	"palyra/internal/cli/setup/takeover"
)

// TestFetch: a command that fetches a package at each start is parsed to that package. A
// command that cannot be pinned is refused with a reason.
func TestFetch(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]takeover.Fetched{
		"npx -y @modelcontextprotocol/server-memory": {Ecosystem: "npm", Name: "@modelcontextprotocol/server-memory"},
		"npx @x/y@1.2.3 --port 3":                    {Ecosystem: "npm", Name: "@x/y", Version: "1.2.3", Args: []string{"--port", "3"}},
		"/usr/bin/npx --yes y@latest /data":          {Ecosystem: "npm", Name: "y", Version: "latest", Args: []string{"/data"}},
		`C:\node\npx.cmd -y y`:                       {Ecosystem: "npm", Name: "y"},
		"npx --package=@x/y other a":                 {Ecosystem: "npm", Name: "@x/y", Program: "other", Args: []string{"a"}},
		"npx -y -p @x/y@2 -- other":                  {Ecosystem: "npm", Name: "@x/y", Version: "2", Program: "other"},
		"bunx --bun y":                               {Ecosystem: "npm", Name: "y"},
		"bun x y":                                    {Ecosystem: "npm", Name: "y"},
		"npm exec -- y@1 -v":                         {Ecosystem: "npm", Name: "y", Version: "1", Args: []string{"-v"}},
		"pnpm dlx y":                                 {Ecosystem: "npm", Name: "y"},
		"uvx mcp-server-git --repository /workspace": {Ecosystem: "pypi", Name: "mcp-server-git", Args: []string{"--repository", "/workspace"}},
		"uvx mcp-server-git@latest":                  {Ecosystem: "pypi", Name: "mcp-server-git", Version: "latest"},
		"uvx --from awslabs[all]==1.2 awslabs.core":  {Ecosystem: "pypi", Name: "awslabs[all]", Version: "1.2", Program: "awslabs.core"},
		"uv tool run --from x>=1,<2 y":               {Ecosystem: "pypi", Name: "x", Version: ">=1,<2", Program: "y"},
		"pipx run --spec x==1 y --z":                 {Ecosystem: "pypi", Name: "x", Version: "1", Program: "y", Args: []string{"--z"}},
	} {
		got, why, is := takeover.Fetch(strings.Fields(line))
		if len(got.Args) == 0 {
			got.Args = nil
		}
		if !is || why != "" || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %q, %v", line, got, why, is)
		}
	}
	for line, want := range map[string]string{
		"npx": "no package", "npx -y": "no package", "npx -c echo": "-c", "npx github:x/y": "registry", "npx x/y": "registry", "npx ./local": "registry", "npx https://evil.example/x.tgz": "registry",
		"npx y@npm:z@1": "registry", "npx y@file:/etc": "registry", "uvx --from git+https://evil.example/x y": "registry", "uvx --with z y": "--with", "uvx --python 3.12 y": "--python", "pipx run --index-url https://x y": "--index-url",
		"npx --registry=https://evil.example y": "--registry",
	} {
		if _, why, is := takeover.Fetch(strings.Fields(line)); !is || !strings.Contains(why, want) {
			t.Errorf("%s: %q, %v; want %q", line, why, is, want)
		}
	}
	for _, line := range []string{"node server.js", "npm run start", "uv run server.py", "/usr/local/bin/mcp-files", "python3 -m x"} {
		if _, _, is := takeover.Fetch(strings.Fields(line)); is {
			t.Errorf("%s is taken for one that fetches", line)
		}
	}
	f := takeover.Fetched{Name: "x", Args: []string{"a"}}
	if argv, why := f.Started("x", []string{"x", "y"}); why != "" || !reflect.DeepEqual(argv, []string{"x", "a"}) {
		t.Errorf("%v, %s", argv, why)
	}
	if _, why := f.Started("", []string{"y", "z"}); !strings.Contains(why, "y, z") {
		t.Error(why)
	}
	f.Program = "q"
	if _, why := f.Started("x", []string{"x"}); !strings.Contains(why, "no program q") {
		t.Error(why)
	}
}
