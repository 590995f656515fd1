package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/dnsname"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/text"
)

// The providers.
const (
	ProviderAnthropic = "anthropic"
	ProviderOpenAI    = "openai"
	ProviderScripted  = "scripted"
)

var providers = []string{ProviderAnthropic, ProviderOpenAI, ProviderScripted}

// Defaults of keys in [[models]]. They are not in Default, which has no models.
const (
	defaultMaxOutputTokens = 8192
	defaultIdleTimeout     = 2 * time.Minute
)

// fillModels sets the missing keys of [[models]] to their defaults.
func fillModels(c *Config, origins Origins) {
	for i := range c.Models {
		m := &c.Models[i]
		if m.Provider == ProviderScripted {
			continue
		}
		if _, given := origins[fmt.Sprintf("models[%d].max_output_tokens", i)]; !given {
			m.MaxOutputTokens = defaultMaxOutputTokens
		}
		if _, given := origins[fmt.Sprintf("models[%d].idle_timeout", i)]; !given {
			m.IdleTimeout = defaultIdleTimeout
		}
	}
}

func (r Runs) check(k *checker) {
	between(k, "runs.max_tokens", r.MaxTokens, 1000, 1_000_000_000)
	between(k, "runs.max_duration", r.MaxDuration, 10*time.Second, 7*24*time.Hour)
	between(k, "runs.max_active_per_principal", r.MaxActivePerPrincipal, 1, 10_000)
	between(k, "runs.parallel_calls", r.ParallelCalls, 1, 256)
	between(k, "runs.abandoned_after", r.AbandonedAfter, time.Second, 7*24*time.Hour)
}

var modelForm = lazyregexp.New(`^[a-z0-9][a-z0-9._-]{0,62}$`)

func checkModels(k *checker, c *Config) {
	seen := make(map[string]bool)
	for i, m := range c.Models {
		each := fmt.Sprintf("models[%d]", i)
		if !modelForm.MatchString(m.Name) {
			k.find(each+".name", "is "+quote(m.Name), "use 1 to 63 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit")
		} else if seen[m.Name] {
			k.find(each+".name", "is "+quote(m.Name)+" for the second time", "give each model a name of its own")
		}
		seen[m.Name] = true
		switch {
		case m.Provider == ProviderScripted:
			m.checkScripted(k, each)
		case slices.Contains(providers, m.Provider):
			m.checkHosted(k, each)
		default:
			k.find(each+".provider", "is "+quote(m.Provider), providerMeant(m.Provider))
		}
	}
}

func providerMeant(word string) string {
	if near := text.Nearest(word, providers); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "set it to one of " + strings.Join(providers, ", ")
}

// checkScripted checks a model that plays a file and has no provider.
func (m Model) checkScripted(k *checker, each string) {
	if m.Script == "" {
		k.find(each+".script", "is missing", "name the file that the model plays")
	} else {
		k.absolute(each+".script", m.Script)
	}
	for _, unused := range []struct {
		key string
		set bool
	}{
		{"model", m.Model != ""}, {"base_url", m.BaseURL != ""}, {"api_key_file", m.APIKeyFile != ""}, {"api_key_secret", m.APIKeySecret != ""},
		{"max_output_tokens", m.MaxOutputTokens != 0}, {"idle_timeout", m.IdleTimeout != 0},
	} {
		if unused.set {
			k.find(each+"."+unused.key, "has no meaning for a scripted model", "leave it out")
		}
	}
}

// checkHosted checks a model of a server.
func (m Model) checkHosted(k *checker, each string) {
	if m.Model == "" {
		k.find(each+".model", "is missing", "set it to the provider's name of the model")
	}
	if m.Script != "" {
		k.find(each+".script", "has no meaning for provider "+quote(m.Provider), "leave it out, or set provider to "+quote(ProviderScripted))
	}
	if m.BaseURL != "" {
		m.checkBaseURL(k, each+".base_url")
	}
	m.checkAPIKey(k, each)
	between(k, each+".max_output_tokens", m.MaxOutputTokens, 1, 1_000_000)
	between(k, each+".idle_timeout", m.IdleTimeout, 5*time.Second, 30*time.Minute)
}

// checkAPIKey requires exactly one location of the key, unless the server needs none.
func (m Model) checkAPIKey(k *checker, each string) {
	switch {
	case m.APIKeyFile != "" && m.APIKeySecret != "":
		k.find(each+".api_key_secret", "is set, and api_key_file is too", "keep one of both: api_key_secret for a key in the vault, api_key_file for one in a file")
	case m.APIKeyFile != "":
		k.absolute(each+".api_key_file", m.APIKeyFile)
	case m.APIKeySecret != "":
		if key, ok := strings.CutPrefix(m.APIKeySecret, globalSecret); !ok || !SecretKey(key) {
			k.find(each+".api_key_secret", "is "+quote(m.APIKeySecret), "name a secret of the scope global, such as "+quote(globalSecret+"anthropic"))
		}
	case m.BaseURL == "":
		k.find(each+".api_key_secret", "is missing, and the provider's own servers want a key", "name a secret of the vault that is the key, such as "+quote(globalSecret+"anthropic")+", or set base_url to a server that wants none")
	}
}

// globalSecret is the prefix of references to vault secrets without an owner.
const globalSecret = "vault://global/" //nolint:gosec // a name, and no value

var secretKeyForm = lazyregexp.New(`^[a-z0-9._-]{1,128}$`)

// SecretKey reports whether a secret of the vault can have this key within its scope.
func SecretKey(key string) bool { return secretKeyForm.MatchString(key) && !Dots(key) }

// Dots reports whether a name is "." or "..", which is not valid as the name of a key or file.
func Dots(name string) bool { return name == "." || name == ".." }

// checkBaseURL requires TLS if others could read the traffic: for a key sent to any other
// machine, and for prompts sent to a public host.
func (m Model) checkBaseURL(k *checker, key string) {
	u, err := url.Parse(m.BaseURL)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		k.find(key, "is "+quote(m.BaseURL), `set it to "https://host" with an optional port and path`)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		k.find(key, "has a user, a query or a fragment", "leave all but scheme, host, port and path out; a key belongs into the vault (api_key_secret)")
	case u.Scheme == "https" || dnsname.Loopback(u.Hostname()):
	case m.APIKeyFile != "" || m.APIKeySecret != "":
		k.find(key, "is "+quote(m.BaseURL)+", where the API key would travel unencrypted", "use https, or leave the key out if that server wants none")
	case !privateHost(u.Hostname()):
		k.find(key, "is "+quote(m.BaseURL)+", where all that the model reads would travel a public network unencrypted", "use https; http is for hosts of your own network")
	}
}

// privateSuffixes are suffixes of names that public resolvers do not resolve.
var privateSuffixes = []string{".localhost", ".local", ".internal", ".home.arpa"}

// privateHost reports whether a host is in a private network, judged by its name or address.
func privateHost(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap()
		return addr.IsPrivate() || addr.IsLinkLocalUnicast()
	}
	host = strings.ToLower(host)
	return !strings.Contains(host, ".") || slices.ContainsFunc(privateSuffixes, func(s string) bool { return strings.HasSuffix(host, s) })
}
