package destination

import (
	"fmt"
	"strings"
	"testing"
)

func text(list []Destination) string {
	var words []string
	for _, d := range list {
		words = append(words, d.Target.String()+" by "+d.Source)
	}
	return strings.Join(words, ", ")
}

func TestNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, want string }{
		{"curl https://example.com/x?y=http://other.org/", "example.com:443 by an argument, other.org:80 by an argument"},
		{"curl -o f.html example.com:8080/path", "example.com:8080 by an argument"},
		{"curl example.com", "example.com:80 by an argument"},
		{"pip install --index-url=https://user:secret@pypi.example.org:8443/simple x", "pypi.example.org:8443 by an argument"},
		{"git clone git@github.com:a/b.git", "github.com:22 by an argument"},
		{"git clone https://[2001:db8::1]/b.git", "[2001:db8::1]:443 by an argument"},
		{"npm install git+ssh://git@github.com/a/b", "github.com:22 by an argument"},
		{"ssh ann@host.example.org: ls", "host.example.org:22 by an argument"},
		{"go test ./... main.go:12", ""},
		{"echo ann@host.example.org:x", ""}, // control: not a program that reads it as a host
		{"wget -O index.html", ""},
		{"cat file:///etc/passwd https://", ""},
		{"python3 x.py unknown://example.com", ""},
	} {
		if got := text(Named(strings.Fields(c.line))); got != c.want {
			t.Errorf("%s: %s, want %s", c.line, got, c.want)
		}
	}
}

const config = `[core]
	bare = false
# url = https://comment.example.org
[remote "origin"]
	url = https://ann:secret@github.com/a/b.git
	fetch = +refs/heads/*:refs/remotes/origin/*
[remote "backup"]
	url = backup:a/b.git
	pushurl = git@push.example.org:a/b.git
[remote "local"]
	url = ../other
[url "https://mirror.example.org/"]
	insteadOf = backup:
[branch "main"]
	remote = origin
`

func TestRemotes(t *testing.T) {
	t.Parallel()
	const modules = "[submodule \"x\"]\n\tpath = x\n\turl = https://sub.example.org/x.git\n[submodule \"y\"]\n\turl = ../y\n"
	origin, backup := `github.com:443 by the git remote "origin"`, `mirror.example.org:443 by the git remote "backup", push.example.org:22 by the git remote "backup"`
	for _, c := range []struct{ line, want string }{
		{"git fetch", origin + ", " + backup},
		{"git -C sub push origin main", origin},
		{"git push --force backup", backup},
		{"git ls-remote local", ""},
		{"git fetch https://example.com/x", ""}, // Named finds it
		{"git submodule update --init", origin + ", " + backup + ", sub.example.org:443 by a submodule"},
		{"git remote update", origin + ", " + backup},
		{"git remote -v", ""}, // controls: commands that use no remote
		{"git status", ""},
		{"hg fetch", ""},
	} {
		argv := strings.Fields(c.line)
		if got := text(Parse(config, modules).Remotes(argv)); got != c.want || got != "" && !UsesRemotes(argv) {
			t.Errorf("%s: %s, want %s", c.line, got, c.want)
		}
	}
}

// TestBoundedConfiguration: of a large configuration, the first URLs and rewrites are used, and no
// long URL, so that the work is bounded. Controls: of a small one all, and a short URL.
func TestBoundedConfiguration(t *testing.T) {
	t.Parallel()
	text := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "[remote \"r%d\"]\nurl = a%d:x\n[url \"https://h%d.example.org/\"]\ninsteadOf = a%d:\n", i, i, i, i)
		}
		return b.String()
	}
	for n, want := range map[int]int{3: 3, mostURLs: mostURLs, 5000: mostURLs} {
		s, r := parse(text(n)), Parse(text(n), "")
		if s.urls != want || len(s.rewrites) != want || len(r.Remotes([]string{"git", "fetch"})) != want {
			t.Errorf("of %d remotes: %d URLs, %d rewrites and hosts %v", n, s.urls, len(s.rewrites), r.remotes)
		}
	}
	for length, want := range map[int]int{1: 1, longest: 0} {
		config := "[remote \"x\"]\nurl = https://example.org/" + strings.Repeat("x", length) + "\n"
		if got := Parse(config, "").Remotes([]string{"git", "fetch"}); len(got) != want {
			t.Errorf("a URL with a path of %d bytes: %v", length, got)
		}
	}
}

// FuzzRemotes: no text makes the parser fail, and the result is bounded.
func FuzzRemotes(f *testing.F) {
	f.Add(config, "git fetch")
	f.Add("[remote", "git push \x00")
	f.Fuzz(func(t *testing.T, text, line string) {
		if n := len(Parse(text, text).Remotes(append([]string{"git", "submodule"}, strings.Fields(line)...))); n > mostFound {
			t.Errorf("%d destinations", n)
		}
		if n := len(Named(strings.Fields(line))); n > mostFound {
			t.Errorf("%d destinations", n)
		}
	})
}
