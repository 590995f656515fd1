//go:build linux

package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/run/model/modeltest"
)

// holding lists the files below a directory, and the logs, that contain a value.
func holding(g *gateway, dir, value string) (list []string) {
	g.T.Helper()
	must.Do(g.T, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(value)) {
			list = append(list, filepath.Base(path))
		}
		return err
	}))
	if strings.Contains(g.Log().String(), value) {
		list = append(list, "the log")
	}
	return list
}

// TestVaultImport moves the secrets of a configuration into the vault, and the restarted
// palyrad works as before. An undo works, too. After a second import and its completion, no
// file on the machine contains a value. Control: before, the files contain the values.
func TestVaultImport(t *testing.T) {
	t.Parallel()
	fixtures := []modeltest.Fixture{modeltest.File("text"), modeltest.File("text"), modeltest.File("text")}
	models := modeltest.Anthropic(t, fixtures...)
	g, server := echo(t, "api")
	g.Stop()
	unattended, _, _ := strings.Cut(fetchesUnattended, `@id("egress.after-secret")`)
	g.policy("10.cedar", unattended)
	g.model("claude", "anthropic", models.URL, modeltest.Key)
	g.Start()
	c := g.local()
	before := string(must.Get(os.ReadFile(g.Config))(t))
	run := func(placeholder string) {
		t.Helper()
		c.ok("run", "hello", "-m", "claude")
		r := c.run("call", "http.fetch", "url="+server.URL+"/", `headers={"authorization":"Bearer palyra-sec-`+placeholder+`"}`)
		r.Want(t, 0)
		if !strings.Contains(r.Out, "palyra-sec-"+placeholder) {
			t.Errorf("the answer lacks the placeholder: %s", r.Out)
		}
	}
	run("api")

	seen := c.ok("vault", "import", "--dry-run", "-o", "json")
	if !strings.Contains(seen, `"vault://global/model-claude"`) || !strings.Contains(seen, "palyra-sec-global~api") || string(must.Get(os.ReadFile(g.Config))(t)) != before {
		t.Errorf("--dry-run: %s", seen)
	}
	moved := c.run("vault", "import")
	moved.Want(t, 0)
	if !strings.Contains(moved.Err, "restart palyrad") || !strings.Contains(moved.Err, "global/api in place of api") {
		t.Errorf("the import says: %s", moved.Err)
	}
	after := string(must.Get(os.ReadFile(g.Config))(t))
	if strings.Contains(after, "[[secrets]]") || !strings.Contains(after, `api_key_secret = "vault://global/model-claude"`) {
		t.Errorf("the configuration is\n%s", after)
	}
	c.run("vault", "import", "--finish", "--yes").Want(t, 2, "may still read the files")
	g.Stop()
	g.Start()
	run("global~api")
	turns := 0
	for _, e := range c.events("PAL-S203") {
		if e.Actor == "service:palyrad" && strings.Contains(string(e.Payload), `"for":"model claude at `) {
			turns++
		}
	}
	if n := len(c.events("PAL-S202")); n != 2 || turns != 1 {
		t.Errorf("%d leases of a turn and a call; %d turns used the key", n, turns)
	}

	c.ok("vault", "import", "--undo")
	if got := string(must.Get(os.ReadFile(g.Config))(t)); got != before {
		t.Errorf("undone, the configuration is\n%s", got)
	}
	if listed := c.ok("vault", "list"); strings.Contains(listed, "global/") {
		t.Errorf("undone, the vault has %s", listed)
	}
	g.Stop()
	g.Start()
	run("api")

	c.ok("vault", "import")
	g.Stop()
	g.Start()
	for name, value := range map[string]string{"token": planted, "claude.key": modeltest.Key} {
		if list := holding(g, g.Dir, value); len(list) != 1 || list[0] != name {
			t.Errorf("the control finds %s in %q", name, list)
		}
	}
	c.ok("vault", "import", "--finish", "--yes")
	g.Keeps("the secret api", planted)
	g.Keeps("the key of the model", modeltest.Key)
	g.Stop()
	for _, value := range []string{planted, modeltest.Key} {
		if list := holding(g, g.Dir, value); len(list) != 0 {
			t.Errorf("a value is in %q", list)
		}
	}
}
