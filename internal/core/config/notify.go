package config

import (
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"slices"
	"strings"

	"palyra/internal/core/dnsname"
)

// Notify is a target of notifications.
type Notify struct {
	Name string `toml:"name"`
	// Type is "webhook", "slack" or "email".
	Type string `toml:"type"`
	// Events are the kinds that it is told, such as "approval_asked"; none is all.
	Events []string `toml:"events"`
	// MinSeverity is the least that it is told.
	MinSeverity string `toml:"min_severity"`
	// Include says how much of a call it is told: "none", "summary" or "full".
	Include string `toml:"include"`
	// URL is where a webhook is posted; of Slack, its Web API.
	URL string `toml:"url"`
	// Secrets sign webhooks: names in the vault, one or two.
	Secrets []string `toml:"secrets"`
	// AllowedHosts may be reached beside the host of URL or SMTP: rules with a port. An
	// address that is not public is reached when a rule names it.
	AllowedHosts []string `toml:"allowed_hosts"`

	// SMTP is host:port of the mail server.
	SMTP string `toml:"smtp"`
	// TLS is "starttls", "implicit", or "none" for a server on this machine.
	TLS string `toml:"tls"`
	// From and To are addresses.
	From string   `toml:"from"`
	To   []string `toml:"to"`
	// Username and PasswordSecret log in at the server; "" does not.
	Username       string `toml:"username"`
	PasswordSecret string `toml:"password_secret"`

	// Channel is the id of a channel in Slack.
	Channel string `toml:"channel"`
	// AppTokenSecret and BotTokenSecret are names in the vault.
	AppTokenSecret string `toml:"app_token_secret"`
	BotTokenSecret string `toml:"bot_token_secret"`
	// Decide lets mapped members answer there.
	Decide bool `toml:"decide"`
}

// The types of targets, and the words of their settings. A test of package targets
// compares them with package notify.
var (
	NotifyTypes      = []string{"webhook", "slack", "email"}
	NotifyEvents     = []string{"approval_asked", "approval_decided", "approval_expired", "device_enrolled", "passkey_enrolled", "hook_changed", "frozen", "thawed", "restored"}
	NotifySeverities = []string{"low", "medium", "high", "critical"}
	NotifyIncludes   = []string{"none", "summary", "full"}
	notifyTLS        = []string{"starttls", "implicit", "none"}
)

// SlackAPI is Slack's Web API.
const SlackAPI = "https://slack.com/api"

// OwnSecrets are the names in the vault that the target uses.
func (n Notify) OwnSecrets() []string {
	return slices.DeleteFunc(append(slices.Clone(n.Secrets), n.PasswordSecret, n.AppTokenSecret, n.BotTokenSecret), func(s string) bool { return s == "" })
}

// fillNotify sets what the tables of the targets do not say.
func fillNotify(c *Config) {
	for i := range c.Notify {
		n := &c.Notify[i]
		if n.MinSeverity == "" {
			n.MinSeverity = "low"
		}
		if n.Include == "" {
			n.Include = "none"
		}
		if n.Type == "email" && n.TLS == "" {
			n.TLS = "starttls"
		}
		if n.Type == "slack" && n.URL == "" {
			n.URL = SlackAPI
		}
	}
}

func (k *checker) notify(c *Config) {
	seen := map[string]bool{}
	for i, n := range c.Notify {
		each := fmt.Sprintf("notify[%d]", i)
		if !modelForm.MatchString(n.Name) {
			k.find(each+".name", "is "+quote(n.Name), "use 1 to 63 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit")
		} else if seen[n.Name] {
			k.find(each+".name", "is "+quote(n.Name)+" for the second time", "give each target a name of its own")
		}
		seen[n.Name] = true
		for _, e := range n.Events {
			k.oneOf(each+".events", e, NotifyEvents...)
		}
		k.oneOf(each+".min_severity", n.MinSeverity, NotifySeverities...)
		k.oneOf(each+".include", n.Include, NotifyIncludes...)
		k.hosts(each+".allowed_hosts", n.AllowedHosts)
		k.ports(each+".allowed_hosts", n.AllowedHosts)
		switch n.Type {
		case "webhook":
			k.webhook(each, n)
		case "email":
			k.email(each, n)
		case "slack":
			k.slack(each, n)
		default:
			k.oneOf(each+".type", n.Type, NotifyTypes...)
			continue
		}
		k.notifyUnused(each, n)
	}
}

// notifyUnused finds settings of another type: whoever wrote them meant something.
func (k *checker) notifyUnused(each string, n Notify) {
	for _, s := range []struct {
		key string
		set bool
		of  []string
	}{
		{"url", n.URL != "", []string{"webhook", "slack"}}, {"secrets", len(n.Secrets) > 0, []string{"webhook"}},
		{"smtp", n.SMTP != "", []string{"email"}}, {"tls", n.TLS != "", []string{"email"}}, {"from", n.From != "", []string{"email"}},
		{"to", len(n.To) > 0, []string{"email"}}, {"username", n.Username != "", []string{"email"}}, {"password_secret", n.PasswordSecret != "", []string{"email"}},
		{"channel", n.Channel != "", []string{"slack"}}, {"app_token_secret", n.AppTokenSecret != "", []string{"slack"}},
		{"bot_token_secret", n.BotTokenSecret != "", []string{"slack"}}, {"decide", n.Decide, []string{"slack"}},
	} {
		if s.set && !slices.Contains(s.of, n.Type) {
			k.find(each+"."+s.key, "has no meaning for type "+quote(n.Type), "leave it out")
		}
	}
}

func (k *checker) webhook(each string, n Notify) {
	k.endpoint(each+".url", n.URL)
	if len(n.Secrets) == 0 || len(n.Secrets) > 2 {
		k.find(each+".secrets", fmt.Sprintf("has %d names", len(n.Secrets)), "name the secret of the vault that signs, such as "+quote(globalSecret+"ops-webhook")+", and a second one while receivers change over")
	}
	for _, s := range n.Secrets {
		k.globalSecret(each+".secrets", s, "ops-webhook")
	}
}

// endpoint wants TLS, or a receiver on this very machine.
func (k *checker) endpoint(key, text string) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		k.find(key, "is missing", `set it to "https://host/path"`)
	case err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "":
		k.find(key, "is no such address", `set it to "https://host/path" without user and fragment`)
	case u.Scheme == "https" || u.Scheme == "http" && dnsname.Loopback(u.Hostname()):
	default:
		k.find(key, "is not https", "use https: whoever is between could read along")
	}
}

func (k *checker) globalSecret(key, name, example string) {
	if rest, ok := strings.CutPrefix(name, globalSecret); !ok || !SecretKey(rest) {
		k.find(key, "has "+quote(name), "name a secret of the scope global, such as "+quote(globalSecret+example))
	}
}

func (k *checker) email(each string, n Notify) {
	host, port, err := net.SplitHostPort(n.SMTP)
	if err != nil || host == "" || port == "" {
		k.find(each+".smtp", "is "+quote(n.SMTP), `set it to host:port of the mail server, such as "mail.example.org:587"`)
	}
	k.oneOf(each+".tls", n.TLS, notifyTLS...)
	if n.TLS == "none" && !dnsname.Loopback(host) {
		k.find(each+".tls", `is "none", and the server is another machine`, `use "starttls" or "implicit"`)
	}
	k.mailbox(each+".from", n.From)
	if len(n.To) == 0 || len(n.To) > 50 {
		k.find(each+".to", fmt.Sprintf("has %d addresses", len(n.To)), "name 1 to 50")
	}
	for _, to := range n.To {
		k.mailbox(each+".to", to)
	}
	switch {
	case (n.Username == "") != (n.PasswordSecret == ""):
		k.find(each+".password_secret", "and username belong together", "set both, or none")
	case n.PasswordSecret != "":
		k.globalSecret(each+".password_secret", n.PasswordSecret, "smtp")
	}
}

func (k *checker) mailbox(key, text string) {
	if a, err := mail.ParseAddress(text); err != nil || strings.ContainsAny(a.Address, "\r\n") {
		k.find(key, "is "+quote(text), `use a mail address, such as "palyra@example.org"`)
	}
}

func (k *checker) slack(each string, n Notify) {
	k.endpoint(each+".url", n.URL)
	if n.Channel == "" || strings.Trim(n.Channel, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
		k.find(each+".channel", "is "+quote(n.Channel), `use the id of the channel, such as "C012AB3CD": Slack shows it below the details of the channel`)
	}
	if n.Decide && n.Include != "full" {
		k.find(each+".decide", "is true, and the messages do not show the whole call", `set include = "full": nobody answers what they do not see`)
	}
	k.globalSecret(each+".app_token_secret", n.AppTokenSecret, "slack-app")
	k.globalSecret(each+".bot_token_secret", n.BotTokenSecret, "slack-bot")
}
