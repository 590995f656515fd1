package hostfiles

import (
	"path/filepath"
	"slices"
	"strings"
)

// harmless are the entries of the host's /etc that programs may see, as patterns. They disclose
// only which packages are installed. Files that may hold a password do not belong here, even if
// every user may read them: /etc/maven/settings.xml, npmrc, pip.conf, wgetrc, and php.ini with its
// directories, in which agents keep license keys.
var harmless = []string{
	// The dynamic linker, certificate authorities, and the names of programs.
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates/extracted",
	"/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted", "/etc/crypto-policies", "/etc/alternatives",
	// The system, its time zone and its tables of numbers.
	"/etc/os-release", "/etc/debian_version", "/etc/lsb-release", "/etc/redhat-release", "/etc/localtime", "/etc/timezone", "/etc/locale.alias",
	"/etc/mime.types", "/etc/services", "/etc/protocols",
	// Terminals, manual pages and fonts.
	"/etc/inputrc", "/etc/terminfo", "/etc/manpath.config", "/etc/fonts",
	// Programs of which Debian keeps a part in /etc.
	"/etc/chromium.d", "/etc/java-*-openjdk", "/etc/maven/m2.conf", "/etc/maven/logging",
}

// elsewhere are the directories outside of the table into which entries of it may link: the
// system's own files.
var elsewhere = []string{"/usr", "/var/lib/ca-certificates"}

// Harmless returns the existing entries of the host's /etc that every program may see.
func Harmless() []string { return existing("/") }

// existing is Harmless for a root directory. An entry that is a link out of the table is left out:
// its target could be any file of the host.
func existing(root string) []string {
	var list []string
	for _, pattern := range harmless {
		names, _ := filepath.Glob(filepath.Join(root, pattern))
		list = append(list, slices.DeleteFunc(names, func(name string) bool { return !staysHarmless(root, name) })...)
	}
	return list
}

// staysHarmless reports whether the target of a name is in the table or among the system's files.
func staysHarmless(root, name string) bool {
	target, err := filepath.EvalSymlinks(name)
	if err != nil {
		return false
	}
	inside, ok := strings.CutPrefix(target, strings.TrimSuffix(root, "/"))
	return ok && slices.ContainsFunc(slices.Concat(harmless, elsewhere), func(pattern string) bool { return covers(pattern, inside) })
}

// covers reports whether a pattern matches a path or a directory above it.
func covers(pattern, path string) bool {
	for ; path != "/"; path = filepath.Dir(path) {
		if ok, _ := filepath.Match(pattern, path); ok {
			return true
		}
	}
	return false
}
