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

// Notify is a target of notifications (docs/notifications.md).
//
//	[[notify]]
//	name    = "ops"
//	type    = "webhook"
//	url     = "https://hooks.example.org/palyra"
//	secrets = ["vault://global/ops-webhook"]
//	events  = ["approval_asked", "approval_decided", "frozen"]
//
//	[[notify]]
//	name         = "on-call"
//	type         = "email"
//	smtp         = "mail.example.org:587"
//	from         = "palyra@example.org"
//	to           = ["on-call@example.org"]
//	min_severity = "high"
type Notify struct {
	// Name is the name of the target in commands and the journal. Required.
	Name string `toml:"name"`
	// Type is `webhook`, `slack` or `email`. Required.
	Type string `toml:"type"`
	// Events are the kinds of notifications that the target receives: `approval_asked`,
	// `approval_decided`, `approval_expired`, `device_enrolled`, `passkey_enrolled`,
	// `members_confirmed`, `hook_changed`, `frozen`, `thawed`, `restored`. Empty selects all.
	Events []string `toml:"events"`
	// MinSeverity is the lowest severity that is sent: `low`, `medium`, `high` or `critical`.
	// Default: `"low"`.
	MinSeverity string `toml:"min_severity"`
	// Include is the amount of call data that is sent: `none`, `summary` (the sentence that
	// describes the call) or `full` (arguments, command line and diff as well). Secrets and texts
	// with the form of a key are redacted in any case. Default: `"none"`.
	Include string `toml:"include"`
	// URL is the URL of a webhook: https, or http on this machine. For `slack`, it replaces
	// `https://slack.com/api` as the address of the Web API. Required for `webhook`.
	URL string `toml:"url"`
	// Secrets are one or two secrets of the vault that sign: `vault://global/<key>`, each `whsec_`
	// and the base64 of 24 to 64 bytes. With two, both sign. Required for `webhook`.
	Secrets []string `toml:"secrets"`
	// AllowedHosts are hosts and addresses with a port that may be reached in addition to the host
	// of `notify.url` or `notify.smtp`. A name that resolves to a non-public address needs a rule
	// for that address. `http.denied_hosts` takes precedence, and the gateway's own listeners are
	// never reached.
	AllowedHosts []string `toml:"allowed_hosts"`

	// SMTP is host:port of the mail server. Required for `email`.
	SMTP string `toml:"smtp"`
	// TLS is `starttls`, `implicit` (TLS from the first byte, port 465), or `none` for a server on
	// this machine. Default: `"starttls"`.
	TLS string `toml:"tls"`
	// From is the address of the sender. Required for `email`.
	From string `toml:"from"`
	// To are the recipients, at most 50. Required for `email`.
	To []string `toml:"to"`
	// Username is the user name at the mail server.
	Username string `toml:"username"`
	// PasswordSecret is the secret of the vault with the password.
	PasswordSecret string `toml:"password_secret"`

	// Channel is the id of a channel, such as `C012AB3CD`. Required for `slack`.
	Channel string `toml:"channel"`
	// AppTokenSecret is the secret of the vault with the app-level token (`xapp-...`, scope
	// `connections:write`). Required for `slack`.
	AppTokenSecret string `toml:"app_token_secret"`
	// BotTokenSecret is the secret of the vault with the bot token (`xoxb-...`, scopes `chat:write`
	// and `users:read`). Required for `slack`.
	BotTokenSecret string `toml:"bot_token_secret"`
	// Decide permits mapped members to answer requests below severity `high` at the target.
	Decide bool `toml:"decide"`
}

// The types of targets, and the values of their settings. A test of package targets compares them
// with package notify.
var (
	NotifyTypes      = []string{"webhook", "slack", "email"}
	NotifyEvents     = []string{"approval_asked", "approval_decided", "approval_expired", "device_enrolled", "passkey_enrolled", "members_confirmed", "hook_changed", "frozen", "thawed", "restored"}
	NotifySeverities = []string{"low", "medium", "high", "critical"}
	NotifyIncludes   = []string{"none", "summary", "full"}
	notifyTLS        = []string{"starttls", "implicit", "none"}
)

// SlackAPI is the base URL of Slack's Web API.
const SlackAPI = "https://slack.com/api"

// OwnSecrets returns the names of the vault secrets that the target uses.
func (n Notify) OwnSecrets() []string {
	return slices.DeleteFunc(append(slices.Clone(n.Secrets), n.PasswordSecret, n.AppTokenSecret, n.BotTokenSecret), func(s string) bool { return s == "" })
}

// fillNotify sets the defaults of the targets.
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

func checkNotify(k *checker, c *Config) {
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
			n.checkWebhook(k, each)
		case "email":
			n.checkEmail(k, each)
		case "slack":
			n.checkSlack(k, each)
		default:
			k.oneOf(each+".type", n.Type, NotifyTypes...)
			continue
		}
		n.checkUnused(k, each)
	}
}

// checkUnused finds settings for another type of target, which would have no effect.
func (n Notify) checkUnused(k *checker, each string) {
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

func (n Notify) checkWebhook(k *checker, each string) {
	k.endpoint(each+".url", n.URL)
	if len(n.Secrets) == 0 || len(n.Secrets) > 2 {
		k.find(each+".secrets", fmt.Sprintf("has %d names", len(n.Secrets)), "name the secret of the vault that signs, such as "+quote(globalSecret+"ops-webhook")+", and a second one while receivers change over")
	}
	for _, s := range n.Secrets {
		k.globalSecret(each+".secrets", s, "ops-webhook")
	}
}

// endpoint requires TLS, or a receiver on this machine.
func (k *checker) endpoint(key, text string) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		k.find(key, "is missing", `set it to "https://host/path"`)
	case err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "":
		k.find(key, "is not a valid address", `set it to "https://host/path" without user and fragment`)
	case u.Scheme == "https" || u.Scheme == "http" && dnsname.Loopback(u.Hostname()):
	default:
		k.find(key, "is not https", "use https: others on the network path could read the messages")
	}
}

func (k *checker) globalSecret(key, name, example string) {
	if rest, ok := strings.CutPrefix(name, globalSecret); !ok || !SecretKey(rest) {
		k.find(key, "has "+quote(name), "name a secret of the scope global, such as "+quote(globalSecret+example))
	}
}

func (n Notify) checkEmail(k *checker, each string) {
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

func (n Notify) checkSlack(k *checker, each string) {
	k.endpoint(each+".url", n.URL)
	if n.Channel == "" || strings.Trim(n.Channel, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
		k.find(each+".channel", "is "+quote(n.Channel), `use the id of the channel, such as "C012AB3CD": Slack shows it below the details of the channel`)
	}
	if n.Decide && n.Include != "full" {
		k.find(each+".decide", "is true, and the messages do not show the whole call", `set include = "full": people can answer only calls that they see`)
	}
	k.globalSecret(each+".app_token_secret", n.AppTokenSecret, "slack-app")
	k.globalSecret(each+".bot_token_secret", n.BotTokenSecret, "slack-bot")
}
