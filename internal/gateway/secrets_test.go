package gateway

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/egress/secret"
)

const told = "ghp_tell-nobody"

func secretIn(t *testing.T, mode os.FileMode) config.Secret {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(path, []byte(told+"\n"), 0o600))
	must.Do(t, os.Chmod(path, mode))
	return config.Secret{Name: "github", File: path, Hosts: []string{"api.github.com:443"}, Header: "Authorization", Env: "GITHUB_TOKEN"}
}

// TestSecretsOfTheConfiguration: a secret has the current content of its file. Programs get
// only secrets that have a variable.
func TestSecretsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	one := secretIn(t, 0o600)
	other := one
	other.Name, other.Env = "fetch-only", ""
	cfg := config.Default()
	cfg.Secrets = []config.Secret{one, other}
	list, err := secrets(cfg)
	if err != nil || len(list) != 2 || list[0].Env != "GITHUB_TOKEN" || list[0].Header != "Authorization" || list[0].Hosts[0].String() != "api.github.com:443" {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, s := range list {
		if value, err := s.Source.Secret(t.Context(), s.Name); err != nil || string(value) != told {
			t.Errorf("%s: %q, %v", s.Name, value, err)
		}
	}
	if _, err := list[0].Source.Secret(t.Context(), "none"); reason.Of(err) != reason.NotFound {
		t.Errorf("one that is not there: %v", err)
	}
	if programs := ofPrograms(list); len(programs) != 1 || programs[0].Name != "github" {
		t.Errorf("programs get %+v", programs)
	}
}

// TestSecretsOfEveryKind: the configuration's check accepts exactly the values that can be
// sent, so that it reports a value before a call is refused for it.
func TestSecretsOfEveryKind(t *testing.T) {
	t.Parallel()
	for value, usable := range map[string]bool{
		strings.Repeat("k", 7): false, strings.Repeat("k", 8): true, strings.Repeat("k", 4096): true, strings.Repeat("k", 4097): false,
		"two words": true, " of spaces": false, "of spaces ": false, "of two\nlines": false, "löslich": false, "palyra-sec-other": false,
	} {
		cfg := config.Default()
		cfg.Secrets = []config.Secret{secretIn(t, 0o600)}
		must.Do(t, os.WriteFile(cfg.Secrets[0].File, []byte(value), 0o600))
		if _, err := cfg.Secrets[0].Value(); (err == nil) != usable {
			t.Errorf("the check of %.20q says %v", value, err)
		}
		list := must.Get(secrets(cfg))(t)
		to := must.Get(egress.ParseTarget("api.github.com:443"))(t)
		x := secret.New("", list)
		defer x.Close()
		r := httptest.NewRequest(http.MethodGet, "https://api.github.com/", nil)
		r.Header.Set("Authorization", x.Placeholder("github"))
		err := x.Apply(t.Context(), r, to, true)
		if (err == nil) != usable || (r.Header.Get("Authorization") == value) != usable {
			t.Errorf("%.20q of %d bytes: %v", value, len(value), err)
		}
	}
}

// TestSecretsThatAreRefused: faults that the configuration's check cannot find prevent the
// start of palyrad.
func TestSecretsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*config.Secret){
		"a variable that steers":      func(s *config.Secret) { s.Env = "LD_PRELOAD" },
		"a variable of the sandbox's": func(s *config.Secret) { s.Env = "PATH" },
		"a host that is none":         func(s *config.Secret) { s.Hosts = []string{"api_github.com:443"} },
		"":                            func(*config.Secret) {}, // control
	} {
		cfg := testConfig(t)
		cfg.Secrets = []config.Secret{secretIn(t, 0o600)}
		change(&cfg.Secrets[0])
		g, err := build(t.Context(), Options{Config: cfg, Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			_ = g.close(nil)
		}
		if (err == nil) != (name == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSnapshotHoldsSecrets: the settings behind a decision contain the secrets' metadata, and no
// values.
func TestSnapshotHoldsSecrets(t *testing.T) {
	t.Parallel()
	digest := func(change func(*config.Secret)) string {
		cfg := config.Default()
		cfg.Secrets = []config.Secret{{Name: "a", File: "/a", Hosts: []string{"a.example:443"}, Header: "Authorization", Env: "A"}}
		change(&cfg.Secrets[0])
		return snapshotOf(t, cfg)
	}
	was := digest(func(*config.Secret) {})
	for name, change := range map[string]func(*config.Secret){
		"name":   func(s *config.Secret) { s.Name = "b" },
		"file":   func(s *config.Secret) { s.File = "/b" },
		"hosts":  func(s *config.Secret) { s.Hosts = []string{"b.example:443"} },
		"header": func(s *config.Secret) { s.Header = "X-Api-Key" },
		"env":    func(s *config.Secret) { s.Env = "B" },
	} {
		if digest(change) == was {
			t.Errorf("%s changes nothing", name)
		}
	}
}

// TestSecretsThatCannotBeRead: an unreadable secret is logged at the start, without its value.
func TestSecretsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o644: 1} {
		var log bytes.Buffer
		tellSecrets(t.Context(), []config.Secret{secretIn(t, mode)}, slog.New(slog.NewTextHandler(&log, nil)))
		if n := strings.Count(log.String(), "a secret cannot be used"); n != want || strings.Contains(log.String(), told) {
			t.Errorf("mode %o: %d, %s", mode, n, log.String())
		}
	}
}
