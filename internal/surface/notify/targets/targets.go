// Package targets creates the notification targets of the configuration.
package targets

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"

	"palyra/internal/core/config"
	"palyra/internal/egress"
	"palyra/internal/identity/login"
	"palyra/internal/identity/login/resource"
	"palyra/internal/surface/notify"
	"palyra/internal/surface/notify/email"
	"palyra/internal/surface/notify/slack"
	"palyra/internal/surface/notify/webhook"
)

// Parts are the dependencies of targets. All are required.
type Parts struct {
	// Gateway is the trust domain of the gateway.
	Gateway string
	// Lend lends a secret of the vault for one delivery (lend.Desk).
	Lend func(ctx context.Context, name, run, purpose string) (value []byte, end func(), err error)
	// Denied are hosts that the gateway must not reach, and Own its own listeners.
	Denied []string
	Own    *egress.Gateway
	// Voter casts the votes of members in chats.
	Voter *notify.Voter
	Log   *slog.Logger
}

// New creates the targets. It opens no connection.
func New(list []config.Notify, p Parts) (targets []notify.Target, err error) {
	for i, n := range list {
		t, err := target(p, n)
		if err != nil {
			return nil, fmt.Errorf("notify[%d]: %w", i, err)
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// dial connects to a target.
type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// target creates one target.
func target(p Parts, n config.Notify) (notify.Target, error) {
	t := notify.Target{Name: n.Name, Type: n.Type, MinSeverity: n.MinSeverity, Include: notify.Include(n.Include)}
	for _, e := range n.Events {
		t.Events = append(t.Events, notify.Kind(e))
	}
	where := n.URL
	if n.Type == notify.Email {
		where = "smtp://" + n.SMTP
	}
	allow, err := resource.Hosts(where)
	if err != nil {
		return t, err
	}
	connect, err := targetDialer(p, n, allow)
	if err != nil {
		return t, err
	}
	switch n.Type {
	case notify.Webhook:
		t.Where = hostOf(allow)
		t.Sender = webhook.New(webhook.Config{Gateway: p.Gateway, URL: n.URL, Secrets: n.Secrets, Lend: p.Lend, Client: login.NewClient(connect, nil)})
	case notify.Email:
		t.Where = strings.Join(n.To, ", ") + " through " + n.SMTP
		t.Sender = email.New(email.Config{
			Gateway: p.Gateway, Server: n.SMTP, TLS: n.TLS, From: n.From, To: n.To, Username: n.Username, Secret: n.PasswordSecret, Lend: p.Lend, Dial: connect,
		})
	case notify.Slack:
		t.Where = "channel " + n.Channel
		c := slack.Config{
			API: n.URL, Channel: n.Channel, AppToken: n.AppTokenSecret, BotToken: n.BotTokenSecret, Lend: p.Lend, Dial: connect, Log: p.Log,
		}
		if n.Decide {
			c.Voter = p.Voter
		}
		t.Sender = slack.New(c)
	}
	return t, nil
}

func hostOf(rules []egress.Rule) string {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.String()
	}
	return strings.Join(names, ", ")
}

// slackHosts are the hosts of socket mode connections, in addition to the Web API.
var slackHosts = []string{"*.slack.com:443"}

// targetDialer returns a dialer that reaches only the hosts of a target.
func targetDialer(p Parts, n config.Notify, own []egress.Rule) (dial, error) {
	allowed, err := egress.ParseRules(n.AllowedHosts)
	if err != nil {
		return nil, err
	}
	if n.Type == notify.Slack && n.URL == config.SlackAPI {
		more, err := egress.ParseRules(slackHosts)
		if err != nil {
			return nil, err
		}
		allowed = append(allowed, more...)
	}
	denied, err := egress.ParseRules(p.Denied)
	if err != nil {
		return nil, fmt.Errorf("http.denied_hosts: %w", err)
	}
	d := &egress.Dialer{Rules: egress.Rules{Allow: slices.Concat(own, allowed), Deny: denied, Gateway: p.Own}}
	return d.DialContext, nil
}
