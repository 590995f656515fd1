package destination

import (
	"path"
	"strconv"
	"strings"
)

// networked maps the subcommands of git that use remotes to whether their first argument may name
// one. submodule uses the URLs of .gitmodules.
var networked = map[string]bool{"fetch": true, "pull": true, "push": true, "ls-remote": true, "remote": false, "submodule": false}

// subcommand returns the subcommand of a git command line and its arguments without options.
func subcommand(argv []string) (name string, args []string) {
	if len(argv) == 0 || path.Base(argv[0]) != "git" {
		return "", nil
	}
	withValue := map[string]bool{"-C": true, "-c": true, "--git-dir": true, "--work-tree": true, "--namespace": true, "--config-env": true}
	for i := 1; i < len(argv); i++ {
		switch arg := argv[i]; {
		case name == "" && withValue[arg]:
			i++
		case strings.HasPrefix(arg, "-"):
		case name == "":
			name = arg
		default:
			args = append(args, arg)
		}
	}
	return name, args
}

// UsesRemotes reports whether a command line is one of git that uses the remotes of a repository.
func UsesRemotes(argv []string) bool {
	name, args := subcommand(argv)
	if _, known := networked[name]; !known {
		return false
	}
	return name != "remote" || len(args) > 0 && (args[0] == "update" || args[0] == "show" || args[0] == "prune")
}

// The limits of what Parse uses of a configuration; it ignores the rest. Its work grows with the
// product of the first two, because a URL is compared with every rewrite.
const (
	mostURLs     = 64
	mostRewrites = 64
	longest      = 4 << 10 // of a section's subject and a value together, in bytes
)

// Repository contains the hosts that the configuration of a repository names.
type Repository struct {
	// remotes maps the name of a remote to its hosts; order lists the names.
	remotes map[string]list
	order   []string
	modules list
}

// Parse returns the hosts of a repository. config is the content of its configuration, and modules
// that of .gitmodules.
func Parse(config, modules string) Repository {
	settings := parse(config)
	r := Repository{remotes: map[string]list{}, order: settings.order}
	for name, locations := range settings.remotes {
		var found list
		source := "the git remote " + strconv.Quote(name)
		for _, location := range locations {
			found.location(settings.rewritten(location), source)
		}
		r.remotes[name] = found
	}
	for _, module := range parse(modules).modules {
		r.modules.location(settings.rewritten(module), "a submodule")
	}
	return r
}

// Remotes returns the hosts of the remotes that a git command line uses.
func (r Repository) Remotes(argv []string) []Destination {
	if !UsesRemotes(argv) {
		return nil
	}
	name, args := subcommand(argv)
	remotes := r.order
	if networked[name] && len(args) > 0 {
		if _, known := r.remotes[args[0]]; !known {
			return nil // a URL, which Named returns, or a directory
		}
		remotes = args[:1]
	}
	var found list
	for _, remote := range remotes {
		found.put(r.remotes[remote]...)
	}
	if name == "submodule" {
		found.put(r.modules...)
	}
	return found
}

// settings are the parts of a git configuration that name hosts.
type settings struct {
	// remotes maps the name of a remote to its URLs; order lists the names.
	remotes map[string][]string
	order   []string
	// urls is the number of URLs of all remotes.
	urls    int
	modules []string
	// rewrites maps the prefix of a URL to its replacement (url.<base>.insteadOf).
	rewrites map[string]string
}

// parse reads the sections remote, submodule and url of a git configuration (git-config(1)). It
// ignores includes and everything that it does not understand.
func parse(text string) settings {
	s := settings{remotes: map[string][]string{}, rewrites: map[string]string{}}
	section, subject := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if header, ok := strings.CutPrefix(line, "["); ok {
			header, _, _ = strings.Cut(header, "]")
			section, subject, _ = strings.Cut(header, " ")
			section, subject = strings.ToLower(section), strings.Trim(strings.TrimSpace(subject), `"`)
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		s.set(section, subject, strings.ToLower(strings.TrimSpace(key)), strings.Trim(strings.TrimSpace(value), `"`))
	}
	return s
}

func (s *settings) set(section, subject, key, value string) {
	switch {
	case len(subject)+len(value) > longest:
	case section == "remote" && (key == "url" || key == "pushurl") && s.urls < mostURLs:
		s.urls++
		if s.remotes[subject] == nil {
			s.order = append(s.order, subject)
		}
		s.remotes[subject] = append(s.remotes[subject], value)
	case section == "submodule" && key == "url" && len(s.modules) < mostURLs:
		s.modules = append(s.modules, value)
	case section == "url" && (key == "insteadof" || key == "pushinsteadof") && len(s.rewrites) < mostRewrites:
		s.rewrites[value] = subject
	}
}

// rewritten returns a URL after the longest matching rewrite.
func (s settings) rewritten(location string) string {
	match := ""
	for prefix := range s.rewrites {
		if strings.HasPrefix(location, prefix) && len(prefix) > len(match) {
			match = prefix
		}
	}
	if match == "" {
		return location
	}
	return s.rewrites[match] + location[len(match):]
}
