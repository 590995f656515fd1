// Package destination finds the hosts that a command line names, before the program runs: in its
// URLs, in the arguments of git, ssh, scp, rsync, curl and wget, and in the remotes of the
// workspace's git configuration. It reads text as data and starts no program. A program may reach
// other hosts and may not reach these, so the result explains a decision and never makes one.
package destination

import (
	"net"
	"path"
	"slices"
	"strings"

	"palyra/internal/core/lazyregexp"
	"palyra/internal/egress"
)

// Destination is a host that a command line names.
type Destination struct {
	Target egress.Target
	// Source is the place that names it: "an argument", or a remote of git.
	Source string
}

// mostFound limits the destinations of a command line.
const mostFound = 64

// ports are the default ports of the schemes of URLs.
var ports = map[string]string{
	"http": "80", "https": "443", "ws": "80", "wss": "443", "git": "9418", "ssh": "22", "ftp": "21", "ftps": "990",
	"git+https": "443", "git+http": "80", "git+ssh": "22", "sftp": "22", "rsync": "873", "postgres": "5432", "postgresql": "5432",
	"mysql": "3306", "redis": "6379", "mongodb": "27017", "sparse+https": "443",
}

// url matches a URL with a host in any text: the scheme, and everything up to the path.
var url = lazyregexp.New(`([A-Za-z][A-Za-z+]*)://([^\s/?#'"<>|;&$\x60\\]+)`)

// scp matches the destination of a copy over SSH, "user@host:path".
var scp = lazyregexp.New(`^(?:[A-Za-z0-9._-]+@)([A-Za-z0-9.-]+):[^/]?`)

const argument = "an argument"

// list collects destinations without duplicates.
type list []Destination

func (l *list) add(host, port, source string) {
	target, err := egress.ParseTarget(net.JoinHostPort(strings.Trim(host, "[]"), port))
	if err == nil {
		l.put(Destination{target, source})
	}
}

func (l *list) put(destinations ...Destination) {
	for _, d := range destinations {
		if len(*l) < mostFound && !slices.ContainsFunc(*l, func(known Destination) bool { return known.Target == d.Target }) {
			*l = append(*l, d)
		}
	}
}

// urls adds the hosts of all URLs in a text.
func (l *list) urls(text, source string) (found bool) {
	for _, match := range url.FindAllStringSubmatch(text, -1) {
		port, known := ports[strings.ToLower(match[1])]
		if !known {
			continue
		}
		found = true
		authority := match[2][strings.LastIndex(match[2], "@")+1:]
		if host, own, err := net.SplitHostPort(authority); err == nil {
			l.add(host, own, source)
		} else {
			l.add(authority, port, source)
		}
	}
	return found
}

// location adds the host of a git URL or a copy over SSH, and reports whether it names one.
func (l *list) location(text, source string) bool {
	if l.urls(text, source) {
		return true
	}
	if match := scp.FindStringSubmatch(text); match != nil {
		l.add(match[1], "22", source)
		return true
	}
	return false
}

// Named returns the hosts that the arguments of a program name.
func Named(argv []string) []Destination {
	var found list
	if len(argv) == 0 {
		return nil
	}
	program := path.Base(argv[0])
	for i, arg := range argv[1:] {
		named := found.urls(arg, argument)
		switch program {
		case "git", "ssh", "scp", "sftp", "rsync":
			if !named {
				found.location(arg, argument)
			}
		case "curl", "wget":
			if !named && !strings.HasPrefix(arg, "-") && !takesValue.MatchString(argv[i]) {
				found.bare(arg)
			}
		}
	}
	return found
}

// bare adds the host of a URL without a scheme, "example.org:8080/path", as curl and wget read it.
// Its name must have a dot and at least two letters at the end, unlike a file or a number.
func (l *list) bare(arg string) {
	authority, _, _ := strings.Cut(arg, "/")
	host, port, err := net.SplitHostPort(authority)
	if err != nil {
		host, port = authority, "80"
	}
	if domain.MatchString(host) {
		l.add(host, port, argument)
	}
}

// takesValue matches the options of curl and wget that take the next argument.
var takesValue = lazyregexp.New(`^(?:-[A-Za-z]*[oOdFHXuAebcTK]|--(?:output|output-document|data|header|request|user|user-agent|cookie|upload-file|config))$`)

var domain = lazyregexp.New(`^(?:[A-Za-z0-9-]+\.)+(?:[A-Za-z]{2,})$`)
