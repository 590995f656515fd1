//go:build unix

package toolchain

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
)

// newHome returns a home directory with programs like tools install them, and with the
// credentials of these tools.
func newHome(t *testing.T, names ...string) string {
	t.Helper()
	home := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	must.Do(t, os.Chmod(home, 0o755))
	for _, name := range names {
		full := filepath.Join(home, name)
		must.Do(t, os.MkdirAll(filepath.Dir(full), 0o755))
		must.Do(t, os.WriteFile(full, []byte("\x7fELF"+name), 0o755))
		// The modes do not depend on the umask.
		for dir := filepath.Dir(full); dir != home; dir = filepath.Dir(dir) {
			must.Do(t, os.Chmod(dir, 0o755))
		}
		must.Do(t, os.Chmod(full, 0o755))
	}
	return home
}

// found returns the program directories and the mounted directories below a home.
func found(f Found, home string) (bins, dirs []string) {
	for _, chain := range f.Toolchains {
		for _, bin := range chain.Bins {
			if rest, ok := strings.CutPrefix(bin, home+"/"); ok {
				bins = append(bins, rest)
			}
		}
		for _, dir := range chain.Dirs {
			if rest, ok := strings.CutPrefix(dir, home+"/"); ok {
				dirs = append(dirs, rest)
			}
		}
	}
	return bins, dirs
}

func why(f Found, dir string) string {
	for _, l := range f.Left {
		if l.Dir == dir {
			return l.Why
		}
	}
	return ""
}

// TestTable: programs are found in the directories of each tool, in the version that the user
// selected. No directory with credentials is mounted.
func TestTable(t *testing.T) {
	t.Parallel()
	home := newHome(t, ".local/bin/uv", ".local/share/uv/tools/ruff/bin/ruff", ".cargo/bin/rg", ".cargo/credentials.toml", ".npmrc", ".config/gh/hosts.yml", ".netrc",
		".rustup/toolchains/nightly-x86_64/bin/cargo", ".rustup/toolchains/stable-x86_64/bin/cargo",
		".nvm/versions/node/v9.9.0/bin/node", ".nvm/versions/node/v20.1.0/bin/node", ".nvm/versions/node/v20.11.1/bin/node", ".nvm/versions/node/v22.0.0/bin/node",
		".pyenv/versions/3.9.1/bin/python3", ".pyenv/versions/3.12.4/bin/python3", ".asdf/installs/erlang/27.1/bin/erl", ".asdf/installs/golang/1.22.1/go/bin/go", "go/bin/gopls")
	for name, text := range map[string]string{
		".rustup/settings.toml": "version = \"12\"\ndefault_toolchain = \"stable-x86_64\"\n", ".nvm/alias/default": "20\n", ".tool-versions": "erlang 26 27.1\n",
	} {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o644))
	}
	f := Find(Config{Home: home})
	bins, dirs := found(f, home)
	wantBins := []string{
		".local/bin", "go/bin", ".rustup/toolchains/stable-x86_64/bin", ".cargo/bin", ".nvm/versions/node/v20.11.1/bin", ".pyenv/versions/3.12.4/bin",
		".asdf/installs/erlang/27.1/bin", ".asdf/installs/golang/1.22.1/go/bin",
	}
	if !slices.Equal(bins, wantBins) {
		t.Errorf("found %q (left %+v), want %q", bins, f.Left, wantBins)
	}
	if !slices.Contains(dirs, ".rustup/toolchains") {
		t.Errorf("of rustup's toolchains only one is shown: %q", dirs)
	}
	if !slices.Contains(dirs, ".local/share/uv/tools") {
		t.Errorf("what ~/.local/bin links to is not shown: %q", dirs)
	}
	for _, secret := range []string{".cargo/credentials.toml", ".npmrc", ".config/gh/hosts.yml", ".netrc"} {
		if slices.ContainsFunc(f.Toolchains, func(chain command.Toolchain) bool { return chain.Holds(filepath.Join(home, secret)) }) {
			t.Errorf("%s is shown", secret)
		}
	}
	if bins, _ := found(Find(Config{}), home); bins != nil {
		t.Errorf("without a home: %q", bins)
	}
}

// TestSkippedDirectories covers each reason for skipping a directory. Control: the same
// directory without that reason.
func TestSkippedDirectories(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// spoil changes the home, or the configuration.
		spoil func(t *testing.T, home string, c *Config)
		why   string
	}{
		"nothing against it": {func(*testing.T, string, *Config) {}, ""},
		"a credential": {func(t *testing.T, home string, _ *Config) {
			must.Do(t, os.WriteFile(filepath.Join(home, ".cargo/bin/credentials.toml"), nil, 0o600))
		}, "holds credentials.toml, which may be a credential"},
		"a credential below": {func(t *testing.T, home string, _ *Config) {
			must.Do(t, os.MkdirAll(filepath.Join(home, ".cargo/bin/etc"), 0o755))
			must.Do(t, os.WriteFile(filepath.Join(home, ".cargo/bin/etc/npmrc"), nil, 0o600))
		}, "holds etc/npmrc, which may be a credential"},
		"writable by all": {func(t *testing.T, home string, _ *Config) {
			must.Do(t, os.Chmod(filepath.Join(home, ".cargo/bin"), 0o777))
		}, "can be changed by other users"},
		"renamable by all": {func(t *testing.T, home string, _ *Config) { must.Do(t, os.Chmod(filepath.Join(home, ".cargo"), 0o777)) }, "can be changed by other users"},
		"in a workspace":   {func(_ *testing.T, home string, c *Config) { c.Written = []Written{{home, "the workspace home"}} }, "lies in the workspace home"},
		"over a workspace": {func(_ *testing.T, home string, c *Config) {
			c.Written = []Written{{filepath.Join(home, ".cargo/bin/w"), "the workspace w"}}
		}, "holds the workspace w"},
		"a workspace by a link": {func(t *testing.T, home string, c *Config) {
			link := filepath.Join(t.TempDir(), "w")
			must.Do(t, os.Symlink(filepath.Join(home, ".cargo"), link))
			c.Written = []Written{{link, "the workspace w"}}
		}, "lies in the workspace w"},
		"under a place of the sandbox": {func(_ *testing.T, home string, c *Config) { c.Covered = []string{filepath.Dir(home)} }, "a sandbox replaces"},
	} {
		t.Run(name, func(t *testing.T) {
			home := newHome(t, ".cargo/bin/rg")
			cfg := Config{Home: home}
			c.spoil(t, home, &cfg)
			f := Find(cfg)
			bins, _ := found(f, home)
			if got := why(f, filepath.Join(home, ".cargo/bin")); (len(bins) > 0) != (c.why == "") || !strings.Contains(got, c.why) || (got != "") != (c.why != "") {
				t.Errorf("found %q, left for %q, want %q", bins, got, c.why)
			}
		})
	}
}

// TestCredentials covers the names under which tools store credentials, in unusual places.
// Similar names do not count.
func TestCredentials(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"pip.conf": true, "etc/npmrc": true, "etc/pip.conf": true, "credentials": true, "Credentials.TOML": true, ".NETRC": true, ".env.local": true, ".pgpass": true, "etc/deploy.key": true, "deploy_rsa": true, ".boto": true,
		"pip.conf.md": false, "keyring": false, "env": false, "etc/ssl.pem": false, "monkey": false,
	} {
		home := newHome(t, ".pyenv/versions/3.12.4/bin/python3", ".pyenv/versions/3.12.4/"+name)
		f := Find(Config{Home: home})
		bins, _ := found(f, home)
		if got := why(f, filepath.Join(home, ".pyenv/versions/3.12.4")); strings.Contains(got, "may be a credential") != want || (len(bins) == 0) != want {
			t.Errorf("with %s found is %q, left for %q", name, bins, got)
		}
	}
}

// TestPrograms: the directories of programs are part of the check, and other users cannot add
// programs there.
func TestPrograms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, home, bin string)
		why   string
	}{
		"nothing against it":      {func(*testing.T, string, string) {}, ""},
		"writable by all":         {func(t *testing.T, _, bin string) { must.Do(t, os.Chmod(bin, 0o777)) }, "can be changed by other users"},
		"writable by all, sticky": {func(t *testing.T, _, bin string) { must.Do(t, os.Chmod(bin, 0o777|os.ModeSticky)) }, "can be changed by other users"},
		"a link to somewhere else": {func(t *testing.T, home, bin string) {
			must.Do(t, os.Rename(bin, filepath.Join(home, "elsewhere")))
			must.Do(t, os.Symlink(filepath.Join(home, "elsewhere"), bin))
		}, "has its programs elsewhere"},
		"a link inside": {func(t *testing.T, _, bin string) {
			must.Do(t, os.Rename(bin, filepath.Join(filepath.Dir(bin), "real")))
			must.Do(t, os.Symlink("real", bin))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			home := newHome(t, ".nvm/versions/node/v20.1.0/bin/node", "own/bin/tool")
			base := filepath.Join(home, ".nvm/versions/node/v20.1.0")
			c.spoil(t, home, filepath.Join(base, "bin"))
			f := Find(Config{Home: home})
			bins, _ := found(f, home)
			if got := why(f, base); (len(bins) > 0) != (c.why == "") || !strings.Contains(got, c.why) || (got != "") != (c.why != "") {
				t.Errorf("found %q, left for %q, want %q", bins, got, c.why)
			}
		})
	}
	home := newHome(t, "own/bin/tool")
	own := filepath.Join(home, "own")
	if bins, _ := found(Find(Config{Dirs: []string{own}}), home); len(bins) != 1 {
		t.Errorf("control: found %q", bins)
	}
	must.Do(t, os.Chmod(filepath.Join(own, "bin"), 0o777))
	if f := Find(Config{Dirs: []string{own}}); !strings.Contains(why(f, own), "can be changed by other users") {
		t.Errorf("of the configuration: %+v", f)
	}
}

// TestConfiguredDirectories: configured directories come first and are checked like all others.
func TestConfiguredDirectories(t *testing.T) {
	t.Parallel()
	home := newHome(t, "node/bin/node", "plain/tool", ".cargo/bin/rg", "bad/.npmrc", "bad/tool")
	f := Find(Config{Home: home, Dirs: []string{filepath.Join(home, "node"), filepath.Join(home, "plain"), filepath.Join(home, "bad"), filepath.Join(home, "none"), home, "/"}})
	bins, dirs := found(f, home)
	if !slices.Equal(bins, []string{"node/bin", "plain", ".cargo/bin"}) || !slices.Equal(dirs, []string{"node", "plain", ".cargo/bin"}) {
		t.Errorf("bins %q, dirs %q", bins, dirs)
	}
	for dir, want := range map[string]string{filepath.Join(home, "bad"): ".npmrc", filepath.Join(home, "none"): "not a directory", home: "contains the home directory", "/": "a sandbox replaces"} {
		if got := why(f, dir); !strings.Contains(got, want) {
			t.Errorf("%s is left out for %q, want %q", dir, got, want)
		}
	}
	for _, l := range f.Left {
		if !l.Asked {
			t.Errorf("%+v", l)
		}
	}
}

// TestRootUsesNoHome: a palyrad that runs as root uses no toolchains from a home.
//
// Not parallel: it sets HOME of the process.
func TestRootUsesNoHome(t *testing.T) {
	home := newHome(t, ".cargo/bin/rg")
	t.Setenv("HOME", home)
	c := For(&config.Config{StateDir: filepath.Join(home, "state"), Workspaces: []config.Workspace{{Name: "w", Path: filepath.Join(home, "w")}}}, sandbox.TierB)
	want := ""
	if os.Geteuid() >= 1000 {
		want = home
	}
	if c.Home != want || len(c.Written) != 2 || !slices.Equal(c.Covered, []string{"/tmp"}) {
		t.Errorf("%+v, want the home %q", c, want)
	}
}

// TestDuplicateNames: a name that is found twice is reported, except for links of the same
// tool. A file in a toolchain has that origin under any name.
func TestDuplicateNames(t *testing.T) {
	t.Parallel()
	home := newHome(t, "sys/rg", ".cargo/bin/rg", ".cargo/bin/cargo", ".rustup/toolchains/stable/bin/cargo", ".local/bin/one")
	f := Find(Config{Home: home})
	path := []string{filepath.Join(home, "sys"), filepath.Join(home, "none")}
	for _, chain := range f.Toolchains {
		path = append(path, chain.Bins...)
	}
	for name, want := range map[string][]string{"rg": {"sys/rg", ".cargo/bin/rg"}, "cargo": {".rustup/toolchains/stable/bin/cargo"}, "one": {".local/bin/one"}, "none": nil} {
		got := command.Namesakes(name, path, f.Toolchains)
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], home+"/")
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{".cargo/bin/rg": tool.OriginToolchain, "sys/rg": tool.OriginOther} {
		p := must.Get(command.ResolveExecutable(filepath.Join(home, name), nil))(t)
		if got := p.From(f.Toolchains).Origin; got != want {
			t.Errorf("%s is of origin %s, want %s", name, got, want)
		}
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	versions := []string{"v22.0.0", "v9.10.1", "v9.9.1", "3.12", "3.12.1", "3.9", "system"}
	slices.SortFunc(versions, compare)
	if want := []string{"3.9", "3.12", "3.12.1", "system", "v9.9.1", "v9.10.1", "v22.0.0"}; !slices.Equal(versions, want) {
		t.Errorf("%q, want %q", versions, want)
	}
}
