package people_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/cli/clitest"
	"palyra/internal/core/must"
)

// TestGoldenContexts compares the listing in every format; it contains no path of this machine.
func TestGoldenContexts(t *testing.T) {
	t.Parallel()
	clitest.Golden(t, map[string][]string{"context_list": {"context", "list"}, "context_use": {"context", "use", "local"}})
}

// contextWorld returns a world whose bundle is configured only by the context work.
func contextWorld(t *testing.T) *clitest.World {
	t.Helper()
	w := clitest.NewWorld(t)
	delete(w.Env, "PALYRA_CREDENTIALS")
	w.Want(w.Run("context", "add", "work", w.Bundle), 0)
	return w
}

// TestContextIsUsed: commands use the context in use, unless a flag or a variable names another
// context, bundle or address.
func TestContextIsUsed(t *testing.T) {
	t.Parallel()
	w := contextWorld(t)
	if r := w.Run("status"); r.Code == 0 {
		t.Error("control: without a context there is a gateway")
	}
	w.Want(w.Run("--context", "work", "status"), 0)
	w.Want(w.Run("context", "use", "work"), 0)
	w.Want(w.Run("status"), 0)
	r := w.Run("context", "list")
	if !strings.Contains(r.Out, w.Address) || !strings.Contains(r.Out, "work   yes") {
		t.Errorf("the list:\n%s", r.Out)
	}
	for name, args := range map[string][]string{
		"the local one":         {"--context", "local", "status"},
		"another bundle":        {"--credentials", t.TempDir(), "status"},
		"one that is not":       {"--context", "nowhere", "status"},
		"an additional address": {"--address", clitest.ClosedAddress, "status"},
	} {
		if r := w.Run(args...); r.Code == 0 {
			t.Errorf("%s is not what was used:\n%s", name, r.Out)
		}
	}
	w.Env["PALYRA_CREDENTIALS"] = t.TempDir()
	if r := w.Run("status"); r.Code == 0 {
		t.Error("a variable does not come before the context")
	}
	delete(w.Env, "PALYRA_CREDENTIALS")
	w.Want(w.Run("context", "remove", "work"), 0)
	if r := w.Run("status"); r.Code == 0 {
		t.Error("the removed context is used")
	}
	if _, err := os.Stat(filepath.Join(w.Bundle, "key.pem")); err != nil {
		t.Errorf("the bundle went with its name: %v", err)
	}
}

// TestContextComesBeforeTheFile: a context has precedence over the address and the credentials
// in palyra.toml.
func TestContextComesBeforeTheFile(t *testing.T) {
	t.Parallel()
	w := contextWorld(t)
	file := w.Write("palyra.toml", "[client]\naddress = \""+clitest.ClosedAddress+"\"\ncredentials = \""+filepath.Join(w.Home, "none")+"\"\n")
	if r := w.Run("--config", file, "status"); r.Code == 0 {
		t.Error("control: the file names no gateway")
	}
	w.Want(w.Run("--config", file, "--context", "work", "status"), 0)
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	w := contextWorld(t)
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"use of none":          {[]string{"use", "play"}, 1, "does not exist"},
		"remove of none":       {[]string{"remove", "play"}, 1, "does not exist"},
		"a name that is taken": {[]string{"add", "work", other(t, w)}, 7, "Remove it first"},
		"the local one":        {[]string{"add", "local", w.Bundle}, 2, "local"},
		"no name":              {[]string{"add", "a b", w.Bundle}, 2, "a b"},
		"no bundle":            {[]string{"add", "play", t.TempDir()}, 6, "no complete credential bundle"},
	} {
		r := w.Run(append([]string{"context"}, c.args...)...)
		if r.Code != c.code || !strings.Contains(r.Err, c.want) {
			t.Errorf("%s: exit %d, want %d with %q:\n%s%s", name, r.Code, c.code, c.want, r.Out, r.Err)
		}
	}
	file := filepath.Join(w.Home, "config", "palyra", "contexts.json")
	text := must.Get(os.ReadFile(file))(t)
	if !strings.Contains(string(text), "work") {
		t.Errorf("the file is %s", text)
	}
	must.Do(t, os.WriteFile(file, []byte(`{"contexts":{},"curent":"x"}`), 0o600))
	for _, args := range [][]string{{"status"}, {"context", "list"}, {"context", "use", "local"}} {
		if r := w.Run(args...); r.Code == 0 || !strings.Contains(r.Err, "contexts.json") {
			t.Errorf("%v with a damaged file: exit %d\n%s", args, r.Code, r.Err)
		}
	}
	if got := string(must.Get(os.ReadFile(file))(t)); !strings.Contains(got, "curent") {
		t.Errorf("the damaged file was replaced by %s", got)
	}
}

// other returns another bundle of the gateway.
func other(t *testing.T, w *clitest.World) string {
	t.Helper()
	was := w.Bundle
	defer func() { w.Bundle = was }()
	w.Bundle = filepath.Join(t.TempDir(), "other")
	w.WriteBundle(time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
	return w.Bundle
}
