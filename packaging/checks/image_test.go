//go:build linux

package checks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// imageConfig is the configuration of an image, as an OCI layout has it.
type imageConfig struct {
	Architecture string
	Config       struct {
		User            string
		Entrypoint, Cmd []string
		Env             []string
		Volumes         map[string]struct{}
		Healthcheck     struct{ Test []string }
	}
}

type descriptor struct {
	Digest   string
	Platform struct{ Architecture string }
}

// unpackImage unpacks the image of this architecture, and returns its root directory and
// configuration. It checks the digest of each blob.
func unpackImage(t *testing.T, pattern string) (root string, config imageConfig) {
	t.Helper()
	layout := must(os.MkdirTemp(runDir, "layout-"))(t)
	t.Cleanup(func() { do(t, os.RemoveAll(layout)) })
	run(t, "tar", "-C", layout, "-xf", artifact(t, packageDir, pattern)).succeeds(t)
	blob := func(digest string) string {
		kind, hex, _ := strings.Cut(digest, ":")
		name := filepath.Join(layout, "blobs", kind, hex)
		if sum := strings.Fields(run(t, "sha256sum", name).succeeds(t).out)[0]; sum != hex {
			t.Fatalf("a blob of the layout has the digest %s, not %s", sum, hex)
		}
		return name
	}
	read := func(name string, into any) { do(t, json.Unmarshal(must(os.ReadFile(name))(t), into)) }
	var index, images struct{ Manifests []descriptor }
	read(filepath.Join(layout, "index.json"), &index)
	read(blob(index.Manifests[0].Digest), &images)
	i := slices.IndexFunc(images.Manifests, func(d descriptor) bool { return d.Platform.Architecture == runtime.GOARCH })
	if i < 0 || len(images.Manifests) != 2 {
		t.Fatalf("the index has the images %+v", images.Manifests)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	read(blob(images.Manifests[i].Digest), &manifest)
	read(blob(manifest.Config.Digest), &config)
	root = must(os.MkdirTemp(runDir, "image-"))(t)
	t.Cleanup(func() { do(t, os.RemoveAll(root)) })
	do(t, os.Chmod(root, 0o755))
	for _, layer := range manifest.Layers {
		run(t, "tar", "--numeric-owner", "-C", root, "-xzf", blob(layer.Digest)).succeeds(t)
	}
	return root, config
}

// newImageContainer returns a container of an image as a runtime makes it: a read-only root, no
// capabilities, a volume for the state and a workspace.
func newImageContainer(t *testing.T, pattern string, restricted bool) (*container, imageConfig) {
	t.Helper()
	root, config := unpackImage(t, pattern)
	c := newContainer(t, root, restricted)
	c.config.Root.ReadOnly = true
	c.config.Process.User.UID, c.config.Process.User.GID = 65532, 65532
	c.config.Process.Env = config.Config.Env
	volume, shared := filepath.Join(c.dir, "volume"), filepath.Join(c.dir, "demo")
	for _, dir := range []string{volume, shared} {
		do(t, os.Mkdir(dir, 0o700))
		do(t, os.Chown(dir, 65532, 65532))
	}
	writeFile(t, filepath.Join(shared, "README.md"), canary, 0o644)
	c.bind(volume, stateDir, "rw")
	do(t, os.MkdirAll(filepath.Join(root, workspace), 0o755))
	c.bind(shared, workspace, "rw")
	settings := string(must(os.ReadFile(filepath.Join(root, configFile)))(t)) + "\n[[workspaces]]\nname = \"demo\"\npath = \"" + workspace + "\"\n"
	writeFile(t, filepath.Join(c.dir, "palyra.toml"), settings, 0o644)
	c.bind(filepath.Join(c.dir, "palyra.toml"), configFile, "ro")
	return c, config
}

func TestImages(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"palyra_*_oci.tar", "palyra-sandbox_*_oci.tar"} {
		name, _, _ := strings.Cut(pattern, "_")
		check(t, "image "+name+": runs as uid 65532 with a read-only root, health check, governed call, journal verify", func(t *testing.T) {
			c, config := newImageContainer(t, pattern, true)
			if config.Config.User != "65532:65532" {
				t.Fatalf("the image's user is %q", config.Config.User)
			}
			if _, ok := config.Config.Volumes[stateDir]; !ok {
				t.Fatalf("the image's volumes are %v", config.Config.Volumes)
			}
			c.start(append(config.Config.Entrypoint, config.Config.Cmd...)...)
			health := config.Config.Healthcheck.Test[1:]
			failure := func() string {
				return "as expected: " + c.exec(health...).out + "the log of the container:\n" + c.log()
			}
			eventually(t, failure, func() bool { return c.exec(health...).code == 0 })
			c.exec("/usr/bin/palyra", "call", "fs.read", "workspace=demo", "path=README.md").succeeds(t).prints(t, strings.TrimSpace(canary))
			c.exec("/usr/bin/palyra", "journal", "export", "/tmp/journal.ndjson").succeeds(t)
			c.exec("/usr/bin/palyra", "journal", "verify", "/tmp/journal.ndjson").succeeds(t)
			for _, of := range must(filepath.Glob(filepath.Join(c.dir, "volume", "*")))(t) {
				if info := must(os.Lstat(of))(t); info.Mode().Perm()&0o077 != 0 && info.Mode().IsRegular() {
					t.Errorf("other users can read %s", filepath.Base(of))
				}
			}
			// Control: the root is read-only, and a stopped gateway is not healthy.
			c.exec("/usr/bin/palyra", "journal", "export", "/usr/bin/journal").refuses(t, "read-only file system")
			outcome(t, c.crun("kill", c.name, "TERM")).succeeds(t)
			eventually(t, failure, func() bool { return c.exec(health...).code != 0 })
		})
	}
	check(t, "image palyra-sandbox: programs run in Tier C where the runtime permits it", func(t *testing.T) {
		c, _ := newImageContainer(t, "palyra-sandbox_*_oci.tar", false)
		c.run("/usr/bin/palyrad", "doctor", "--config", configFile).prints(t, "Tier C", "sandbox: bubblewrap", "user_namespace")
	})
	check(t, "image palyra-sandbox: doctor reports what a restricting runtime does not permit", func(t *testing.T) {
		c, _ := newImageContainer(t, "palyra-sandbox_*_oci.tar", true)
		c.run("/usr/bin/palyrad", "doctor", "--config", configFile).refuses(t, "namespace", "next:")
	})
}

func TestContainerWithoutRights(t *testing.T) {
	t.Parallel()
	check(t, "deb: installs in a container without rights; doctor and status name what is missing", func(t *testing.T) {
		m := newMachine(t, baseRoot)
		m.run("dpkg", "-i", archived(t, m, "bubblewrap")).succeeds(t)
		name := m.lend(deb(t, packageDir))
		run(t, "mv", m.path(name), m.path("/opt")).succeeds(t)
		c := newContainer(t, m.root, true)
		c.config.Process.NoNewPrivileges = false
		c.config.Process.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
		c.capabilities(defaultCapabilities)
		script := `dpkg --force-unsafe-io -i /opt/*.deb
			as() { setpriv --reuid palyra --regid palyra --init-groups env HOME=/var/lib/palyra "$@"; }
			as palyrad doctor --config "$1" || true
			as palyrad --config "$1" >/tmp/log 2>&1 & pid=$!
			until as palyra --config "$1" status >/tmp/status 2>&1; do kill -0 $pid || { cat /tmp/log; exit 1; }; sleep 0.1; done
			echo STATUS; cat /tmp/status; kill $pid`
		out := c.run("sh", "-euc", script, "sh", configFile).succeeds(t).out
		before, after, _ := strings.Cut(out, "STATUS\n")
		for report, text := range map[string]string{"doctor": before, "status": after} {
			if !strings.Contains(text, "namespaces") {
				t.Errorf("%s does not report that namespaces are missing:\n%s", report, text)
			}
		}
	})
}
