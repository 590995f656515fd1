//go:build linux

package checks

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// home is an empty home directory with a release that install.sh installs from.
type home struct {
	t *testing.T
	// dir is the home directory, from a copy of the artifacts that install.sh reads, and temporary
	// the directory for its temporary files.
	dir, from, temporary string
}

// newHome returns an empty home. Archives of other systems are left out.
func newHome(t *testing.T) home {
	t.Helper()
	h := home{t, t.TempDir(), t.TempDir(), t.TempDir()}
	for _, pattern := range []string{"SHA256SUMS*", "*.pub", "install.sh", "palyra_*_linux_" + runtime.GOARCH + ".tar.gz"} {
		for _, name := range must(filepath.Glob(filepath.Join(packageDir, pattern)))(t) {
			run(t, "cp", name, h.from).succeeds(t)
		}
	}
	return h
}

// install runs install.sh as POSIX sh in the empty home.
func (h home) install(args ...string) result {
	h.t.Helper()
	return outcome(h.t, h.command(args...))
}

func (h home) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(h.t.Context(), "dash", append([]string{filepath.Join(h.from, "install.sh")}, args...)...)
	cmd.Env = []string{"HOME=" + h.dir, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR=" + h.temporary}
	return cmd
}

func (h home) ecdsaKey() string { return filepath.Join(h.from, "palyra.pub") }

func (h home) archive() string {
	return artifact(h.t, h.from, "palyra_*_linux_"+runtime.GOARCH+".tar.gz")
}

// isEmpty fails the case if something was installed or a temporary directory is left.
func (h home) isEmpty(t *testing.T) {
	t.Helper()
	if left := must(os.ReadDir(h.dir))(t); len(left) > 0 {
		t.Fatalf("a refused installation left %v in the home", left)
	}
	if left := must(os.ReadDir(h.temporary))(t); len(left) > 0 {
		t.Fatalf("install.sh left %v", left)
	}
}

// changeByte changes the byte in the middle of a file.
func changeByte(t *testing.T, name string) {
	t.Helper()
	data := must(os.ReadFile(name))(t)
	data[len(data)/2] ^= 1
	do(t, os.WriteFile(name, data, 0o644))
}

func TestInstaller(t *testing.T) {
	t.Parallel()
	check(t, "install.sh: from a folder into an empty home, again, and removed", func(t *testing.T) {
		h := newHome(t)
		for range 2 {
			h.install("--from", h.from, "--key", h.ecdsaKey()).succeeds(t).prints(t, "Next: palyra up", "export PATH=")
		}
		h.isVerified(t)
		canary := filepath.Join(h.dir, ".local/bin/mine")
		writeFile(t, canary, "mine", 0o755)
		h.install("--uninstall").succeeds(t)
		var left []string
		do(t, filepath.WalkDir(filepath.Join(h.dir, ".local"), func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				left = append(left, path)
			}
			return err
		}))
		if len(left) != 1 || left[0] != canary {
			t.Fatalf("after the removal the home has %q", left)
		}
	})
	check(t, "install.sh: replaces a running program and a link by rename", func(t *testing.T) {
		h := newHome(t)
		h.install("--from", h.from, "--key", h.ecdsaKey()).succeeds(t)
		bin := filepath.Join(h.dir, ".local/bin")
		running := exec.CommandContext(t.Context(), filepath.Join(bin, "palyrad"), "--state-dir", filepath.Join(h.dir, "state"), "--listen-api", "127.0.0.1:0")
		running.Env = []string{"HOME=" + h.dir}
		do(t, running.Start())
		victim := filepath.Join(t.TempDir(), "victim")
		writeFile(t, victim, "mine", 0o755)
		do(t, os.Remove(filepath.Join(bin, "palyra-hook")))
		do(t, os.Symlink(victim, filepath.Join(bin, "palyra-hook")))
		h.install("--from", h.from, "--key", h.ecdsaKey()).succeeds(t)
		if text := string(must(os.ReadFile(victim))(t)); text != "mine" {
			t.Fatal("install.sh wrote through a link")
		}
		h.isVerified(t)
		do(t, running.Process.Kill())
		_ = running.Wait() // by the kill
	})
	check(t, "install.sh: with the key that it contains, and refused without any key", func(t *testing.T) {
		h := newHome(t)
		script := filepath.Join(h.from, "install.sh")
		text := string(must(os.ReadFile(script))(t))
		h.install("--from", h.from).succeeds(t).prints(t, "checked by the key in install.sh")
		h.isVerified(t)
		h.install("--uninstall").succeeds(t)
		key := strings.TrimSpace(string(must(os.ReadFile(h.ecdsaKey()))(t)))
		writeFile(t, script, strings.Replace(text, "'"+key+"'", "''", 1), 0o644)
		h.install("--from", h.from).refuses(t, "--key is missing")
	})
	check(t, "install.sh: for all users with --system", func(t *testing.T) {
		m := newMachine(t, baseRoot)
		h := newHome(t)
		for _, name := range must(filepath.Glob(filepath.Join(h.from, "*")))(t) {
			m.lend(name)
		}
		// The minimal Debian has none of openssl, minisign and cosign.
		m.run("sh", "/tmp/install.sh", "--from", "/tmp", "--key", "/tmp/palyra.pub", "--system").refuses(t, "neither openssl nor cosign is installed")
		run(t, "cp", must(exec.LookPath("minisign"))(t), m.path("/usr/bin/minisign")).succeeds(t)
		if m.run("minisign", "-v").code != 0 {
			m.lendLibraries("minisign")
		}
		m.run("sh", "/tmp/install.sh", "--from", "/tmp", "--key", "/tmp/minisign.pub", "--system").succeeds(t)
		m.run("palyra", "version").succeeds(t)
		if unit := m.read("/usr/local/lib/systemd/system/palyrad.service"); !strings.Contains(unit, "\nExecStart=/usr/local/bin/palyrad ") {
			t.Fatalf("the unit does not start the installed program: %s", unit)
		}
		m.run("sh", "/tmp/install.sh", "--uninstall", "--system").succeeds(t)
		if m.exists("/usr/local/bin/palyra") || m.exists("/usr/local/lib/systemd/system/palyrad.service") {
			t.Fatal("the removal left files")
		}
	})
	check(t, "install.sh: from a loopback server, with curl and with wget", func(t *testing.T) {
		h := newHome(t)
		server := httptest.NewServer(http.FileServer(http.Dir(h.from)))
		t.Cleanup(server.Close)
		h.install("--from", server.URL, "--key", h.ecdsaKey()).succeeds(t)
		h.isVerified(t)
		h.install("--uninstall").succeeds(t)
		without := h.command("--from", server.URL+"/", "--key", h.ecdsaKey())
		without.Env[1] = "PATH=" + programs(t, "curl")
		outcome(t, without).succeeds(t)
		h.isVerified(t)
		h.install("--uninstall").succeeds(t)
		without = h.command("--from", server.URL, "--key", h.ecdsaKey())
		without.Env[1] = "PATH=" + programs(t, "curl", "wget")
		outcome(t, without).refuses(t, "neither curl nor wget")
	})
	check(t, "install.sh: an interrupted download is refused", func(t *testing.T) {
		h := newHome(t)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, ".tar.gz") {
				w.Header().Set("Content-Length", "1000000")
				_, _ = w.Write(make([]byte, 1000)) // the client's failure is the subject
				return
			}
			http.FileServer(http.Dir(h.from)).ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		for _, absent := range []string{"wget", "curl"} {
			cmd := h.command("--from", server.URL, "--key", h.ecdsaKey())
			cmd.Env[1] = "PATH=" + programs(t, absent)
			if absent == "curl" {
				// wget repeats an interrupted download twenty times.
				writeFile(t, filepath.Join(h.dir, ".wgetrc"), "tries = 2\nwaitretry = 0\n", 0o644)
				defer os.Remove(filepath.Join(h.dir, ".wgetrc"))
			}
			outcome(t, cmd).refuses(t, ".tar.gz was not downloaded completely")
		}
		do(t, os.Remove(filepath.Join(h.dir, ".wgetrc")))
		h.isEmpty(t)
	})
	check(t, "install.sh: URLs that are not https are refused", func(t *testing.T) {
		h := newHome(t)
		for _, url := range []string{"http://example.com/palyra", "ftp://127.0.0.1/", "http://localhost.example.com", "http://127.0.0.1.example.com"} {
			h.install("--from", url, "--key", h.ecdsaKey()).refuses(t, "is not an https URL")
		}
		h.install("--from", "http://localhost:x@example.com", "--key", h.ecdsaKey()).refuses(t, "user name")
		h.isEmpty(t)
	})
}

// isVerified fails the case unless the installed program is one of the signed list and runs.
func (h home) isVerified(t *testing.T) {
	t.Helper()
	name := filepath.Join(h.dir, ".local/bin/palyra")
	run(t, name, "version").succeeds(t)
	sum := strings.Fields(run(t, "sha256sum", name).succeeds(t).out)[0]
	list := string(must(os.ReadFile(filepath.Join(packageDir, "SHA256SUMS.programs")))(t))
	if !strings.Contains(list, sum+"  linux_"+runtime.GOARCH+"/palyra\n") {
		t.Fatalf("%s has the digest %s, which the signed list does not have", name, sum)
	}
}

// programs returns a directory with links to all programs of this system but some.
func programs(t *testing.T, without ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, from := range []string{"/bin", "/usr/bin"} {
		for _, entry := range must(os.ReadDir(from))(t) {
			_ = os.Symlink(filepath.Join(from, entry.Name()), filepath.Join(dir, entry.Name())) // one of two equal names
		}
	}
	for _, name := range without {
		do(t, os.Remove(filepath.Join(dir, name)))
	}
	return dir
}

func TestInstallerRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(t *testing.T, h home)
		want   []string
	}{
		{"a signature by another key", func(t *testing.T, h home) {
			run(t, "openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", h.dir+"/../other.key").succeeds(t)
			run(t, "openssl", "ec", "-in", h.dir+"/../other.key", "-pubout", "-out", h.ecdsaKey()).succeeds(t)
		}, []string{"is not a signature of", "SHA-256 of"}},
		{"a changed signature", func(t *testing.T, h home) { changeByte(t, h.from+"/SHA256SUMS.sig") }, []string{"is not a signature of"}},
		{"an empty signature", func(t *testing.T, h home) { writeFile(t, h.from+"/SHA256SUMS.sig", "", 0o644) }, []string{"is not a signature of"}},
		{"a missing signature", func(t *testing.T, h home) { do(t, os.Remove(h.from+"/SHA256SUMS.sig")) }, []string{"SHA256SUMS.sig does not exist"}},
		{"a changed list", func(t *testing.T, h home) { changeByte(t, h.from+"/SHA256SUMS") }, []string{"is not a signature of", "SHA-256 of"}},
		{"a changed archive", func(t *testing.T, h home) { changeByte(t, h.archive()) }, []string{"tar.gz has the SHA-256", "signed list has"}},
		{"a missing archive", func(t *testing.T, h home) { do(t, os.Remove(h.archive())) }, []string{"tar.gz does not exist"}},
		{"a private key", func(t *testing.T, h home) {
			run(t, "openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", h.ecdsaKey()).succeeds(t)
		}, []string{"is not a public key"}},
		{"a FIFO as list", func(t *testing.T, h home) {
			do(t, os.Remove(h.from+"/SHA256SUMS"))
			run(t, "mkfifo", h.from+"/SHA256SUMS").succeeds(t)
		}, []string{"is not a file"}},
	} {
		check(t, "install.sh: refuses "+test.name, func(t *testing.T) {
			h := newHome(t)
			test.change(t, h)
			h.install("--from", h.from, "--key", h.ecdsaKey()).refuses(t, test.want...)
			h.isEmpty(t)
		})
	}
	check(t, "install.sh: refuses a signed archive with a link", func(t *testing.T) {
		// The owner of the key signs it, which is what this protection is for.
		h := newHome(t)
		top := strings.TrimSuffix(filepath.Base(h.archive()), ".tar.gz")
		do(t, os.Mkdir(filepath.Join(h.dir, top), 0o755))
		do(t, os.Symlink("/etc", filepath.Join(h.dir, top, "bin")))
		run(t, "tar", "-C", h.dir, "-czf", h.archive(), top).succeeds(t)
		do(t, os.RemoveAll(filepath.Join(h.dir, top)))
		sum := strings.Fields(run(t, "sha256sum", h.archive()).succeeds(t).out)[0]
		writeFile(t, h.from+"/SHA256SUMS", sum+"  "+filepath.Base(h.archive())+"\n", 0o644)
		run(t, "openssl", "dgst", "-sha256", "-sign", filepath.Join(keyDir(), "palyra.key"), "-out", h.from+"/der", h.from+"/SHA256SUMS").succeeds(t)
		run(t, "openssl", "base64", "-A", "-in", h.from+"/der", "-out", h.from+"/SHA256SUMS.sig").succeeds(t)
		h.install("--from", h.from, "--key", h.ecdsaKey()).refuses(t, "not files and directories below")
		h.isEmpty(t)
	})
	check(t, "install.sh: refuses a record with a name outside of the prefix", func(t *testing.T) {
		h := newHome(t)
		h.install("--from", h.from, "--key", h.ecdsaKey()).succeeds(t)
		writeFile(t, filepath.Join(h.dir, "palyra-canary"), "mine", 0o644)
		writeFile(t, filepath.Join(h.dir, ".local/share/palyra/installed"), "bin/palyra/../../../palyra-canary\n", 0o644)
		h.install("--uninstall").refuses(t, "which leaves")
		if _, err := os.Stat(filepath.Join(h.dir, "palyra-canary")); err != nil {
			t.Fatal(err)
		}
	})
}

// keyDir has the throw-away keys of the packages.
func keyDir() string { return packageDir + "-keys" }
