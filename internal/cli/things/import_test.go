package things_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/core/must"
	"palyra/internal/core/statedir"
)

// onHost returns a world whose commands run on the gateway's host, with a configuration that
// has secrets.
func onHost(t *testing.T) *clitest.World {
	t.Helper()
	w := clitest.NewWorld(t)
	w.Bundle = statedir.Operator(filepath.Join(w.Env["XDG_STATE_HOME"], "palyra"))
	w.Env["PALYRA_CREDENTIALS"] = w.Bundle
	must.Do(t, os.MkdirAll(filepath.Dir(w.Bundle), 0o700))
	w.WriteBundle(time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
	for _, name := range []string{"token", "key"} {
		must.Do(t, os.Chmod(w.Write(name, "value-of-"+name+"\n"), 0o600))
	}
	w.Config(strings.ReplaceAll(`# mine
[[secrets]]
name = "gitlab"
file = "HOME/token"
hosts = ["gitlab.example:443"]
header = "PRIVATE-TOKEN"

[[models]]
name = "claude"
provider = "anthropic"
model = "m"
api_key_file = "HOME/key"
`, "HOME", w.Home))
	return w
}

// same compares a command's output, with the home directory replaced by ~.
func same(t *testing.T, w *clitest.World, what, got, want string) {
	t.Helper()
	home := must.Get(filepath.EvalSymlinks(w.Home))(t)
	if got = strings.ReplaceAll(strings.ReplaceAll(got, home, "~"), w.Home, "~"); got != want {
		t.Errorf("%s says\n%s\nwant\n%s", what, got, want)
	}
}

const previewed = `config        ~/config/palyra/palyra.toml
secret        vault://global/gitlab: to be put
  of          secrets.gitlab
  file        ~/token
  placeholder palyra-sec-gitlab and palyra-sec-global~gitlab
secret        vault://global/model-claude: to be put
  of          models.claude
  file        ~/key
`

const previewedNotes = `in the vault the name of a secret is another one, for http.fetch palyra-sec-global~gitlab in place of palyra-sec-gitlab, for policies (context.egress.secrets) global/gitlab in place of gitlab: change prompts, scripts and policies that name gitlab
nothing was changed; omit --dry-run to import
`

const importedJSON = `{
  "apiVersion": "palyra.dev/v1",
  "kind": "Import",
  "config": "~/config/palyra/palyra.toml",
  "copy": "~/config/palyra/palyra.toml.before-import",
  "record": "~/config/palyra/palyra.toml.import.json",
  "secrets": [
    {
      "ref": "vault://global/gitlab",
      "from": [
        "secrets.gitlab"
      ],
      "file": "~/token",
      "state": "put",
      "placeholder_in_config": "palyra-sec-gitlab",
      "placeholder_in_vault": "palyra-sec-global~gitlab"
    },
    {
      "ref": "vault://global/model-claude",
      "from": [
        "models.claude"
      ],
      "file": "~/key",
      "state": "put"
    }
  ]
}
`

func TestImport(t *testing.T) {
	t.Parallel()
	w := onHost(t)
	r := w.Run("vault", "import", "--dry-run")
	w.Want(r, 0)
	same(t, w, "--dry-run", r.Out, previewed)
	same(t, w, "--dry-run", r.Err, previewedNotes)
	if len(clitest.Requests[*palyrav1.PutSecretRequest](w)) > 0 {
		t.Error("--dry-run puts")
	}
	r = w.Run("vault", "import", "-o", "json")
	w.Want(r, 0)
	same(t, w, "the import", r.Out, importedJSON)
	if !strings.Contains(r.Err, "restart palyrad: ") || strings.Contains(r.Out+r.Err, "value-of-") {
		t.Errorf("the import says %s%s", r.Out, r.Err)
	}
	first, second := clitest.Requests[*palyrav1.PutSecretRequest](w)[0], clitest.Requests[*palyrav1.PutSecretRequest](w)[1]
	if string(first.GetValue()) != "value-of-token" || first.GetHeader() != "PRIVATE-TOKEN" || string(second.GetValue()) != "value-of-key" || second.GetHosts() != nil {
		t.Errorf("put %v, %v", first, second)
	}
	file := filepath.Join(w.Home, "config/palyra/palyra.toml")
	if text := w.Read(file); !strings.HasPrefix(text, "# mine\n\n[[models]]") {
		t.Errorf("the configuration is\n%s", text)
	}
	w.Want(w.Run("vault", "import", "--finish"), 2) // no terminal to confirm on
	w.Want(w.Run("vault", "import", "--undo", "--finish"), 2)
	r = w.Run("vault", "import", "--undo")
	w.Want(r, 0)
	if !strings.Contains(r.Out, "vault://global/gitlab: not in the vault") || !strings.Contains(r.Err, "restart palyrad: ") {
		t.Errorf("the undo says %s%s", r.Out, r.Err)
	}
	w.Config("# nothing\n")
	if r = w.Run("vault", "import"); r.Code != 0 || !strings.Contains(r.Err, "nothing to move") || strings.Contains(r.Err, "restart") {
		t.Errorf("of nothing: exit %d, %s", r.Code, r.Err)
	}
}

// TestImportElsewhere: an import requires the host's own credential, because the gateway of
// another credential may be on another machine, with another configuration.
func TestImportElsewhere(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Config("")
	if r := w.Run("vault", "import"); r.Code != 2 || !strings.Contains(r.Err, "gateway's host alone") {
		t.Errorf("exit %d, %s", r.Code, r.Err)
	}
	w = onHost(t)
	must.Do(t, os.Remove(filepath.Join(w.Home, "config/palyra/palyra.toml")))
	if r := w.Run("vault", "import"); r.Code != 2 || !strings.Contains(r.Err, "the configuration file") {
		t.Errorf("exit %d, %s", r.Code, r.Err)
	}
}
