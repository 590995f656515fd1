package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// model returns a valid table of a model, with the given replacements.
func model(replace ...string) string {
	text := "[[models]]\nname = \"fast\"\nprovider = \"openai\"\nmodel = \"m-1\"\nbase_url = \"https://models.example.org/v1\"\n"
	return strings.NewReplacer(replace...).Replace(text)
}

func TestModelFindings(t *testing.T) {
	t.Parallel()
	const needsKey = "models[0].api_key_secret is missing, and the provider's own servers want a key"
	for _, test := range []struct{ name, text, want string }{
		{"the control", model(), ""},
		{"a name", model(`"fast"`, `"Fast one"`), `:2:1: models[0].name is "Fast one"; use 1 to 63 of`},
		{"a name twice", model() + model(), `:7:1: models[1].name is "fast" for the second time; give each model a name of its own`},
		{"no provider", model("provider = \"openai\"\n", ""), `:1:3: models[0].provider is ""; set it to one of anthropic, openai, scripted`},
		{"almost a provider", model("openai", "open-ai"), `:3:1: models[0].provider is "open-ai"; did you mean "openai"?`},
		{"no model", model("model = \"m-1\"\n", ""), "models[0].model is missing"},
		{"a script", model() + "script = \"/s.yaml\"", `:6:1: models[0].script has no meaning for provider "openai"`},
		{"an unknown key", model() + "temperature = 1", ":6:1: models[0].temperature does not exist"},
		{"no key for the provider", model("base_url = \"https://models.example.org/v1\"\n", ""), needsKey},
		{"a relative key file", model() + "api_key_file = \"key\"", `:6:1: models[0].api_key_file is "key", which is not an absolute path`},
		{"a key in the vault", model() + "api_key_secret = \"vault://global/fast\"", ""},
		{"a key in the vault for the provider", model("base_url = \"https://models.example.org/v1\"\n", "api_key_secret = \"vault://global/fast\"\n"), ""},
		{"a key in two places", model() + "api_key_file = \"~/key\"\napi_key_secret = \"vault://global/fast\"", ":7:1: models[0].api_key_secret is set, and api_key_file is too; keep one of both"},
		{"a secret of a user", model() + "api_key_secret = \"vault://user:ann/fast\"", `:6:1: models[0].api_key_secret is "vault://user:ann/fast"; name a secret of the scope global`},
		{"a secret of no name", model() + "api_key_secret = \"vault://global/Fast\"", `models[0].api_key_secret is "vault://global/Fast"`},
		{"a secret without its scheme", model() + "api_key_secret = \"global/fast\"", `models[0].api_key_secret is "global/fast"`},
		{"a secret to a neighbour", model("https://models.example.org", "http://192.168.1.7") + "api_key_secret = \"vault://global/fast\"", "where the API key would travel unencrypted"},
		{"scripted with a secret", "[[models]]\nname = \"demo\"\nprovider = \"scripted\"\nscript = \"/s.yaml\"\napi_key_secret = \"vault://global/fast\"", "models[0].api_key_secret has no meaning for a scripted model"},
		{"no tokens", model() + "max_output_tokens = 0", ":6:1: models[0].max_output_tokens is 0; set it between 1 and 1000000"},
		{"no patience", model() + "idle_timeout = \"0s\"", ":6:1: models[0].idle_timeout is 0s; set it between 5s and 30m"},
		{"too much patience", model() + "idle_timeout = \"31m\"", "models[0].idle_timeout is 31m; set it between 5s and 30m"},
		{"patience", model() + "idle_timeout = \"30m\"", ""},
		{"not a URL", model("https://models.example.org/v1", "models.example.org"), `:5:1: models[0].base_url is "models.example.org"; set it to "https://host"`},
		{"another scheme", model("https", "ftp"), "models[0].base_url is"},
		{"a password in the URL", model("https://", "https://me:secret@"), "models[0].base_url has a user, a query or a fragment"},
		{"a public host without TLS", model("https", "http"), "a public network unencrypted; use https"},
		{"a public address without TLS", model("https://models.example.org", "http://8.8.8.8:80"), "a public network unencrypted; use https"},
		{"loopback", model("https://models.example.org", "http://127.0.0.1:11434"), ""},
		{"loopback of IPv6", model("https://models.example.org", "http://[::1]:11434"), ""},
		{"the own network", model("https://models.example.org", "http://192.168.1.7"), ""},
		{"a neighbour by name", model("https://models.example.org", "http://ollama:11434"), ""},
		{"a name of the own network", model("https://models.example.org", "http://gpu.home.arpa"), ""},
		{"a key to this machine", model("https://models.example.org", "http://localhost:80") + "api_key_file = \"/no/such\"", "api_key_file cannot be used"},
		{"a key to a neighbour", model("https://models.example.org", "http://192.168.1.7") + "api_key_file = \"~/key\"", ":5:1: models[0].base_url is \"http://192.168.1.7/v1\", where the API key would travel unencrypted; use https"},
		{"a script that is missing", "[[models]]\nname = \"demo\"\nprovider = \"scripted\"", "models[0].script is missing; name the file that the model plays"},
		{"scripted", "[[models]]\nname = \"demo\"\nprovider = \"scripted\"\nscript = \"/s.yaml\"", ""},
		{"scripted with a key", "[[models]]\nname = \"demo\"\nprovider = \"scripted\"\nscript = \"/s.yaml\"\nbase_url = \"https://x.org\"", ":5:1: models[0].base_url has no meaning for a scripted model; leave it out"},
		{"scripted with tokens", "[[models]]\nname = \"demo\"\nprovider = \"scripted\"\nscript = \"/s.yaml\"\nmax_output_tokens = 7", "models[0].max_output_tokens has no meaning"},
		{"scripted with patience", "[[models]]\nname = \"demo\"\nprovider = \"scripted\"\nscript = \"/s.yaml\"\nidle_timeout = \"1m\"", "models[0].idle_timeout has no meaning"},
		{"tokens of a run", "[runs]\nmax_tokens = 1", ":2:1: runs.max_tokens is 1; set it between 1000 and 1000000000"},
		{"time of a run", "[runs]\nmax_duration = \"1s\"", "runs.max_duration is 1s; set it between 10s and 168h"},
		{"runs at once", "[runs]\nmax_active_per_principal = 0", "runs.max_active_per_principal is 0"},
		{"calls side by side", "[runs]\nparallel_calls = 0", "runs.parallel_calls is 0"},
	} {
		w := newWorld(t)
		w.write(test.text)
		must.Do(t, os.WriteFile(filepath.Join(w.home, "key"), []byte("k"), 0o600))
		findings := Check(w.options())
		if test.want == "" && len(findings) > 0 || test.want != "" && (len(findings) != 1 || !strings.Contains(findings.Error(), test.want)) {
			t.Errorf("%s: %q, want %q", test.name, findings.Error(), test.want)
		}
	}
}

func TestModelsAreFilledIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(model() + "api_key_file = \"~/key\"\n" + "[[models]]\nname = \"demo\"\nprovider = \"scripted\"\nscript = \"~/s.yaml\"\n")
	c, _ := w.load(w.options())
	if m := c.Models[0]; m.MaxOutputTokens != defaultMaxOutputTokens || m.IdleTimeout != defaultIdleTimeout || m.APIKeyFile != filepath.Join(w.home, "key") {
		t.Errorf("got %+v", m)
	}
	if m := c.Models[1]; m.MaxOutputTokens != 0 || m.IdleTimeout != 0 || m.Script != filepath.Join(w.home, "s.yaml") {
		t.Errorf("got %+v", m)
	}
}

// A key file inside a workspace is refused, because programs in the workspace could read it.
func TestKeyFilesOutsideOfWorkspaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(model() + "api_key_file = \"~/ws/key\"\n[[workspaces]]\nname = \"a\"\npath = \"~/ws\"")
	_, _, err := Load(w.options())
	if err == nil || !strings.Contains(err.Error(), "which overlaps models[0].api_key_file") {
		t.Errorf("got %v", err)
	}
}
