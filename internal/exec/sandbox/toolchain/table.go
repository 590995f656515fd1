package toolchain

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// row is one kind of installation. "~/" is the home directory.
type row struct {
	name string
	// base is a pattern. If several directories match it, they are versions, and choice selects
	// the default one.
	base string
	// bins are the directories of programs, and dirs are all directories, both below the base. An
	// empty list means the base itself.
	bins, dirs []string
	// with are directories that contain the targets of links to programs.
	with   []string
	choice choice
	// all allows programs of the other versions as well, by their path.
	all bool
}

// choice is a file in which the user selects the default version, by the word after key, or by
// the first word if key is "". TOOL is the name of the parent directory of the versions. If the
// file or the selected version does not exist, the highest version is the default.
type choice struct{ file, key string }

// table lists the places of programs that are searched after the system directories. No row may
// include a directory in which the tool stores credentials: it has ~/.cargo/bin, but not
// ~/.cargo, which contains credentials.toml.
var table = []row{
	{name: "go", base: "/usr/local/go", bins: []string{"bin"}},
	{name: "local", base: "~/.local/bin", with: []string{
		"~/.local/share/uv/tools", "~/.local/share/uv/python", "~/.local/share/pipx/venvs", "~/.local/pipx/venvs",
	}},
	{name: "go-install", base: "~/go/bin"},
	// The real programs precede the links of rustup, which would need write access.
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

// Other directories of Homebrew, such as var, contain data of services.
var (
	brewBins = []string{"bin", "sbin"}
	brewDirs = []string{"bin", "sbin", "Cellar", "opt", "lib", "libexec", "share", "Frameworks"}
)

// bases returns the existing directories of a row: the default version of each tool.
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

// expand inserts the home directory. It returns false if the name needs one and home is "".
func expand(name, home string) (string, bool) {
	rest, inHome := strings.CutPrefix(name, "~/")
	if !inHome {
		return name, true
	}
	return filepath.Join(home, rest), home != ""
}

// mostChoice is the maximum size of a choice file, in bytes.
const mostChoice = 64 << 10

// of returns the default version.
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

// wanted returns the choice in the file, "" for none.
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

// compare orders versions with numbers compared as numbers, so that v9 precedes v20.
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

// piece splits off the leading digits, or the leading text without digits.
func piece(s string) (first, rest string) {
	digit := func(r rune) bool { return '0' <= r && r <= '9' }
	end := strings.IndexFunc(s, func(r rune) bool { return digit(r) != digit(rune(s[0])) })
	if end < 0 {
		return s, ""
	}
	return s[:end], s[end:]
}
