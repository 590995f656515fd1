package hostfiles

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// TestHarmless lists the table on a machine whose entries link to files with secrets. All names
// are below a directory of the test.
func TestHarmless(t *testing.T) {
	t.Parallel()
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	write := func(name string) {
		path := filepath.Join(root, name)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x"), 0o644)))
	}
	for _, name := range []string{
		"etc/secret", "root/key", "etc/ld.so.cache", "etc/fonts/fonts.conf", "etc/java-17-openjdk/jvm.cfg", "etc/maven/m2.conf", "etc/maven/settings.xml",
		"etc/php/8.2/cli/conf.d/10.ini", "etc/php/8.2/cli/php.ini", "usr/lib/os-release",
	} {
		write(name)
	}
	for name, target := range map[string]string{
		"os-release": "usr/lib/os-release", "terminfo": "etc/fonts", // to the system's files, and into the table
		"services": "etc/secret", "alternatives": "root", "inputrc": "missing", // out of the table
	} {
		must.Do(t, os.Symlink(filepath.Join(root, target), filepath.Join(root, "etc", name)))
	}
	list := existing(root)
	for i, name := range list {
		list[i] = strings.TrimPrefix(name, root+"/etc/")
	}
	slices.Sort(list)
	want := []string{"fonts", "java-17-openjdk", "ld.so.cache", "maven/m2.conf", "os-release", "terminfo"}
	if !slices.Equal(list, want) {
		t.Errorf("harmless are %v, want %v", list, want)
	}
}

func TestTableCoversNoSecret(t *testing.T) {
	t.Parallel()
	covered := func(name string) bool {
		return slices.ContainsFunc(harmless, func(pattern string) bool { return covers(pattern, "/etc/"+name) })
	}
	for _, name := range []string{
		"shadow", "gshadow", "sudoers", "hostname", "machine-id", "fstab", "ssh/ssh_host_ed25519_key", "ssl/private/key.pem", "pki/tls/private/key.pem",
		"maven/settings.xml", "npmrc", "pip.conf", "wgetrc", "php/8.2/cli/php.ini", "php/8.2/cli/conf.d", "environment", "krb5.keytab",
	} {
		if covered(name) {
			t.Errorf("the table covers %s", name)
		}
	}
	for _, name := range []string{"java-17-openjdk/jvm.cfg", "fonts/fonts.conf", "os-release"} { // control
		if !covered(name) {
			t.Errorf("the table does not cover %s", name)
		}
	}
}
