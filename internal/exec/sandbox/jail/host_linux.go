package jail

import "path/filepath"

// SystemDirs returns paths that are links into /usr on most machines, and directories on
// others.
func SystemDirs() []string {
	return []string{"/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32"}
}

// SharedFiles returns entries of the host's /etc that every program may see. They disclose only
// the installed packages.
func SharedFiles() []string {
	// Debian keeps files in /etc that its Java needs to start.
	java, _ := filepath.Glob("/etc/java-*-openjdk")
	return append(java,
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/tls/certs",
		"/etc/pki/ca-trust/extracted", "/etc/alternatives", "/etc/localtime", "/etc/mime.types", "/etc/services", "/etc/protocols",
	)
}

// Masks returns entries of /proc that disclose information about the host and its keys.
func Masks() []string {
	return []string{"/proc/keys", "/proc/key-users", "/proc/kallsyms", "/proc/timer_list", "/proc/cmdline", "/proc/kcore", "/proc/sched_debug", "/proc/modules"}
}

// Devices returns harmless device nodes of /dev.
func Devices() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
}
