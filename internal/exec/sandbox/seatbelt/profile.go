package seatbelt

import (
	"path"
	"slices"
	"strings"
)

// profile contains the parameters of a Seatbelt profile. All paths are absolute, clean and free
// of symbolic links.
type profile struct {
	workspace string
	// direct lets the program write to the workspace, except protected names.
	direct bool
	// private is the run's own directory, which contains HOME and TMPDIR.
	private string
	// caches are directories kept between runs; they are writable.
	caches []string
	// helper is the program that starts the tool.
	helper string
	// roots are additional directories that programs may read and run from.
	roots []string
	// network opens the host's network.
	network bool
	// protected are patterns in addition to the built-in ones.
	protected []string
	// tag marks the kernel's log entries of this run.
	tag string
}

// systemRoots contain the system's programs: they may be read and run.
var systemRoots = []string{
	"/bin", "/sbin", "/usr", "/System", "/Library/Apple", "/Library/Frameworks", "/Library/Developer/CommandLineTools",
	"/private/var/db/dyld", "/private/var/select",
	"/opt/homebrew/bin", "/opt/homebrew/Cellar", "/opt/homebrew/lib", "/opt/homebrew/opt", "/opt/homebrew/share",
}

// readable are system files and directories without information about users.
var readable = []string{
	"/private/etc/ssl", "/private/etc/localtime", "/private/etc/hosts", "/private/etc/services", "/private/etc/protocols", "/private/etc/passwd",
	"/private/etc/group", "/private/etc/shells", "/private/etc/zprofile", "/private/etc/zshrc", "/private/etc/bashrc", "/private/etc/profile",
	"/private/var/db/timezone", "/private/var/db/xcode_select_link", "/Library/Preferences/com.apple.dt.Xcode.plist",
}

// devices may be read; the first two may be written.
var devices = []string{"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/fd"}

// sysctls are requested by the C library, language runtimes and build tools.
var sysctls = []string{
	"hw.activecpu", "hw.byteorder", "hw.cacheconfig", "hw.cachelinesize", "hw.cachesize", "hw.cpu64bit_capable", "hw.cpufamily", "hw.cpusubfamily",
	"hw.cpusubtype", "hw.cputype", "hw.l1dcachesize", "hw.l1icachesize", "hw.l2cachesize", "hw.l3cachesize", "hw.logicalcpu", "hw.logicalcpu_max",
	"hw.machine", "hw.memsize", "hw.memsize_usable", "hw.model", "hw.ncpu", "hw.nperflevels", "hw.pagesize", "hw.pagesize_compat", "hw.packages",
	"hw.physicalcpu", "hw.physicalcpu_max", "hw.tbfrequency", "hw.vectorunit",
	"kern.argmax", "kern.hostname", "kern.iossupportversion", "kern.maxfiles", "kern.maxfilesperproc", "kern.maxproc", "kern.ngroups", "kern.osproductversion",
	"kern.osrelease", "kern.ostype", "kern.osvariant_status", "kern.osversion", "kern.secure_kernel", "kern.usrstack64", "kern.version",
	"sysctl.proc_cputype", "sysctl.proc_translated", "vm.loadavg", "vm.pagesize",
}

// sysctlPrefixes are prefixes of families of names.
var sysctlPrefixes = []string{"hw.optional.", "hw.perflevel", "machdep.cpu."}

// services provide information about the current user. Pasteboard, launch services and
// preferences are excluded, because each could make another program act.
var services = []string{"com.apple.system.opendirectoryd.libinfo", "com.apple.system.opendirectoryd.membership"}

// networkServices resolve names and verify certificates.
var networkServices = []string{"com.apple.SystemConfiguration.configd", "com.apple.SystemConfiguration.DNSConfiguration", "com.apple.trustd", "com.apple.trustd.agent"}

// resolver is the socket for name resolution.
const resolver = "/private/var/run/mDNSResponder"

// Names of the parameters of a profile. Paths of a run are passed as values and not written into
// the text.
const (
	paramWorkspace = "WS"
	paramPrivate   = "RUN"
	paramHelper    = "HELPER"
	// otherSuffix marks the second spelling of a path.
	otherSuffix = "_OTHER"
)

// params returns the values of the parameters, in the form KEY=value of -D.
func (p profile) params() []string {
	var list []string
	for _, each := range []struct{ name, value string }{{paramWorkspace, p.workspace}, {paramPrivate, p.private}, {paramHelper, p.helper}} {
		pair := spellingsOf(each.value)
		list = append(list, each.name+"="+pair[0], each.name+otherSuffix+"="+pair[len(pair)-1])
	}
	return list
}

// text returns the profile. The last matching rule takes precedence.
func (p profile) text() (string, error) {
	for _, value := range []string{p.workspace, p.private, p.helper} {
		if err := checkText(value); err != nil {
			return "", err
		}
	}
	w := &writer{}
	w.line("(version 1)")
	w.line("(deny default (with message " + w.quoted(p.tag) + "))")
	p.processes(w)
	p.reads(w)
	if err := p.writes(w); err != nil {
		return "", err
	}
	p.connections(w)
	return w.text.String(), w.err
}

func (p profile) processes(w *writer) {
	w.line("(allow process-fork)")
	w.line("(allow process-info* (target same-sandbox))")
	w.line("(allow signal (target same-sandbox))")
	filters := append(w.subpaths(systemRoots, p.roots, p.caches), own(paramWorkspace, "subpath")...)
	filters = append(filters, own(paramPrivate, "subpath")...)
	filters = append(filters, own(paramHelper, "literal")...)
	w.rule("allow process-exec* file-map-executable", filters)
	var names []string
	for _, name := range sysctls {
		names = append(names, "(sysctl-name "+w.quoted(name)+")")
	}
	for _, prefix := range sysctlPrefixes {
		names = append(names, "(sysctl-name-prefix "+w.quoted(prefix)+")")
	}
	w.rule("allow sysctl-read", names)
}

func (p profile) reads(w *writer) {
	filters := append(w.subpaths(systemRoots, readable, devices, p.roots, p.caches), `(literal "/")`)
	filters = append(filters, own(paramWorkspace, "subpath")...)
	filters = append(filters, own(paramPrivate, "subpath")...)
	filters = append(filters, own(paramHelper, "literal")...)
	w.rule("allow file-read*", filters)
	// Programs resolve paths from the root. The existence of directories on the way is not
	// secret, but their content is.
	var above []string
	for _, dir := range p.ancestors() {
		above = append(above, "(literal "+w.quoted(dir)+")")
	}
	w.rule("allow file-read-metadata", above)
	w.line(`(allow file-write-data (literal "/dev/null") (literal "/dev/zero"))`)
	w.line(`(allow file-read* file-write-data file-ioctl (literal "/dev/dtracehelper"))`)
}

// ancestors returns the parents of all readable directories, and the links by which system
// directories are usually named.
func (p profile) ancestors() []string {
	all := slices.Concat([]string{p.workspace, p.private, p.helper}, systemRoots, readable, devices, p.roots, p.caches)
	set := map[string]bool{"/tmp": true, "/var": true, "/etc": true}
	for _, name := range all {
		for _, spelled := range spellingsOf(name) {
			for dir := path.Dir(spelled); dir != "/" && dir != "."; dir = path.Dir(dir) {
				set[dir] = true
			}
		}
	}
	list := make([]string, 0, len(set))
	for dir := range set {
		list = append(list, dir)
	}
	slices.Sort(list)
	return list
}

func (p profile) writes(w *writer) error {
	filters := append(own(paramPrivate, "subpath"), w.subpaths(p.caches)...)
	if p.direct {
		filters = append(filters, own(paramWorkspace, "subpath")...)
	}
	w.rule("allow file-write*", filters)
	if p.direct {
		d, err := deny(spellingsOf(p.workspace), p.protected)
		if err != nil {
			return err
		}
		w.rule("deny file-write*", w.regexes(d.writes))
		w.rule("deny file-write-create file-write-unlink", w.regexes(d.pins))
		w.rule("deny file-write*", []string{
			"(require-all (require-any " + strings.Join(w.regexes(d.repositories), " ") + ") (require-not (require-any " + strings.Join(w.regexes(d.except), " ") + ")))",
		})
	}
	// A second name for a file would bypass every rule for the first.
	w.line("(deny file-link)")
	w.line("(deny file-write-setugid)")
	return nil
}

func (p profile) connections(w *writer) {
	w.rule("allow mach-lookup", w.named("global-name", services))
	if !p.network {
		w.line("(deny network*)")
		return
	}
	w.rule("allow mach-lookup", w.named("global-name", networkServices))
	// Sockets with a path lead to other programs, such as container engines and key agents: only
	// the resolver's socket is allowed.
	w.line(`(allow network-outbound (remote ip "*:*") (literal ` + w.quoted(resolver) + `))`)
	w.line(`(allow network-bind network-inbound (local ip "*:*"))`)
}

// own returns the filters for a parameter in both spellings.
func own(param, kind string) []string {
	return []string{`(` + kind + ` (param "` + param + `"))`, `(` + kind + ` (param "` + param + otherSuffix + `"))`}
}

// links are top-level directories that are links into /private on every Mac.
var links = []string{"/tmp", "/var", "/etc"}

// spellingsOf returns a path and its other usual spelling, if it has one. The kernel checks the
// canonical spelling, and in some cases the spelling that a program used.
func spellingsOf(name string) []string {
	if rest, ok := strings.CutPrefix(name, "/private"); ok && linked(rest) {
		return []string{name, rest}
	}
	if linked(name) {
		return []string{"/private" + name, name}
	}
	return []string{name}
}

func linked(name string) bool {
	return slices.ContainsFunc(links, func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") })
}

// writer collects the lines of a profile and the first error.
type writer struct {
	text strings.Builder
	err  error
}

func (w *writer) line(s string) { w.text.WriteString(s + "\n") }

// rule writes an action with its filters. A rule without filters would match everything, so it
// is omitted.
func (w *writer) rule(action string, filters []string) {
	if len(filters) > 0 {
		w.line("(" + action + "\n  " + strings.Join(filters, "\n  ") + ")")
	}
}

func (w *writer) quoted(s string) string {
	q, err := quote(s)
	if err != nil && w.err == nil {
		w.err = err
	}
	return q
}

func (w *writer) subpaths(lists ...[]string) []string {
	var filters []string
	for _, dir := range slices.Concat(lists...) {
		for _, spelled := range spellingsOf(dir) {
			filters = append(filters, "(subpath "+w.quoted(spelled)+")")
		}
	}
	return filters
}

func (w *writer) named(filter string, names []string) []string {
	var filters []string
	for _, name := range names {
		filters = append(filters, "("+filter+" "+w.quoted(name)+")")
	}
	return filters
}

// regexes writes expressions without quotes and backslashes, as literal and folded return them.
func (w *writer) regexes(list []string) []string {
	var filters []string
	for _, regex := range list {
		filters = append(filters, `(regex #"`+regex+`")`)
	}
	return filters
}
