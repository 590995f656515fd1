package toolchain

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// row is one way in which people install programs. "~/" is the home directory.
type row struct {
	name string
	// base is a pattern. Where several directories match it, they are versions of
	// one thing, and choice says which of them counts.
	base string
	// bins and dirs are below the base: where programs are, and what they consist
	// of; without them it is the base itself.
	bins, dirs []string
	// with are directories to which the programs are links.
	with   []string
	choice choice
	// all says that programs of the versions that do not count can be started, too,
	// by their path.
	all bool
}

// choice is a file in which the user says which version counts, by the word after
// key, or by the first word where key is "". TOOL is the name of the directory above
// the versions. Without a file, or a version of that name, the highest one counts.
type choice struct{ file, key string }

// table lists where programs are looked for after the system's own directories.
// No row may show a place where the tool keeps credentials: ~/.cargo/bin and not
// ~/.cargo, which holds credentials.toml.
var table = []row{
	{name: "go", base: "/usr/local/go", bins: []string{"bin"}},
	{name: "local", base: "~/.local/bin", with: []string{
		"~/.local/share/uv/tools", "~/.local/share/uv/python", "~/.local/share/pipx/venvs", "~/.local/pipx/venvs",
	}},
	{name: "go-install", base: "~/go/bin"},
	// The real programs before the links of rustup, which would want to write.
	{name: "rust", base: "~/.rustup/toolchains/*", bins: []string{"bin"}, choice: choice{"~/.rustup/settings.toml", "default_toolchain"}, all: true},
	{name: "rust", base: "~/.cargo/bin"},
	{name: "nvm", base: "~/.nvm/versions/node/*", bins: []string{"bin"}, choice: choice{file: "~/.nvm/alias/default"}},
	{name: "pyenv", base: "~/.pyenv/versions/*", bins: []string{"bin"}, choice: choice{file: "~/.pyenv/version"}},
	{name: "rbenv", base: "~/.rbenv/versions/*", bins: []string{"bin"}, choice: choice{file: "~/.rbenv/version"}},
	{name: "asdf", base: "~/.asdf/installs/*/*", bins: []string{"bin", "go/bin"}, choice: choice{"~/.tool-versions", "TOOL"}},
	{name: "mise", base: "~/.local/share/mise/installs/*/*", bins: []string{"bin"}, choice: choice{"~/.tool-versions", "TOOL"}},
	{name: "homebrew", base: "/opt/homebrew", bins: brewBins, dirs: brewDirs},
	{name: "homebrew", base: "/home/linuxbrew/.linuxbrew", bins: brewBins, dirs: brewDirs},
}

// What Homebrew keeps beside these, such as var, holds data of services.
var (
	brewBins = []string{"bin", "sbin"}
	brewDirs = []string{"bin", "sbin", "Cellar", "opt", "lib", "libexec", "share", "Frameworks"}
)

// bases are the directories of a row that exist: one for each thing of which
// there are versions.
func (r row) bases(home string) []string {
	pattern, ok := expand(r.base, home)
	if !ok {
		return nil
	}
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return nil
	}
	groups := map[string][]string{}
	for _, match := range matches {
		if info, err := os.Lstat(match); err == nil && info.IsDir() {
			groups[filepath.Dir(match)] = append(groups[filepath.Dir(match)], filepath.Base(match))
		}
	}
	var list []string
	for dir, versions := range groups {
		list = append(list, filepath.Join(dir, r.choice.of(home, filepath.Base(dir), versions)))
	}
	slices.Sort(list)
	return list
}

// expand puts the home directory in; without one there is no such place.
func expand(name, home string) (string, bool) {
	rest, inHome := strings.CutPrefix(name, "~/")
	if !inHome {
		return name, true
	}
	return filepath.Join(home, rest), home != ""
}

// mostChoice bounds what is read of a file that chooses, in bytes.
const mostChoice = 64 << 10

// of is the version that counts.
func (c choice) of(home, tool string, versions []string) string {
	slices.SortFunc(versions, compare)
	wanted := strings.TrimPrefix(c.wanted(home, tool), "v")
	for _, version := range slices.Backward(versions) {
		plain := strings.TrimPrefix(version, "v")
		if wanted != "" && (plain == wanted || strings.HasPrefix(plain, wanted+".") || strings.HasPrefix(plain, wanted+"-")) {
			return version
		}
	}
	return versions[len(versions)-1]
}

// wanted is what the file says, "" for nothing.
func (c choice) wanted(home, tool string) string {
	name, ok := expand(c.file, home)
	if c.file == "" || !ok {
		return ""
	}
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > mostChoice {
		return ""
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	key := strings.ReplaceAll(c.key, "TOOL", tool)
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(strings.Replace(line, "=", " ", 1))
		if key != "" && len(words) > 1 && words[0] == key {
			return strings.Trim(words[1], `"`)
		}
		if key == "" && len(words) > 0 {
			return words[0]
		}
	}
	return ""
}

// compare orders versions: their numbers as numbers, so that v9 comes before v20.
func compare(a, b string) int {
	for a != "" && b != "" {
		x, restA := piece(a)
		y, restB := piece(b)
		m, errX := strconv.Atoi(x)
		n, errY := strconv.Atoi(y)
		order := strings.Compare(x, y)
		if errX == nil && errY == nil {
			order = cmp.Compare(m, n)
		}
		if order != 0 {
			return order
		}
		a, b = restA, restB
	}
	return cmp.Compare(len(a), len(b))
}

// piece cuts off the digits, or what is none, at the beginning.
func piece(s string) (first, rest string) {
	digit := func(r rune) bool { return '0' <= r && r <= '9' }
	end := strings.IndexFunc(s, func(r rune) bool { return digit(r) != digit(rune(s[0])) })
	if end < 0 {
		return s, ""
	}
	return s[:end], s[end:]
}
