package targets_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/surface/notify"
	"palyra/internal/surface/notify/targets"
)

// TestConfigurationMatchesNotifications: the configuration and the notifications accept the same kinds, severities, types and
// levels of detail.
func TestConfigurationMatchesNotifications(t *testing.T) {
	t.Parallel()
	var kinds []string
	for _, k := range notify.Kinds {
		kinds = append(kinds, string(k))
	}
	if !slices.Equal(kinds, config.NotifyEvents) || !slices.Equal(notify.Severities, config.NotifySeverities) {
		t.Errorf("kinds %v and %v, severities %v and %v", kinds, config.NotifyEvents, notify.Severities, config.NotifySeverities)
	}
	if !slices.Equal(config.NotifyTypes, []string{notify.Webhook, notify.Slack, notify.Email}) ||
		!slices.Equal(config.NotifyIncludes, []string{string(notify.IncludeNone), string(notify.IncludeSummary), string(notify.IncludeFull)}) {
		t.Errorf("types %v, includes %v", config.NotifyTypes, config.NotifyIncludes)
	}
}

// TestNew: each type of target is created, and its Where contains no secret.
func TestNew(t *testing.T) {
	t.Parallel()
	list := must.Get(targets.New([]config.Notify{
		{Name: "a", Type: "webhook", URL: "https://hooks.example.org/secret-path", Secrets: []string{"vault://global/a"}},
		{Name: "b", Type: "email", SMTP: "mail.example.org:587", To: []string{"x@example.org"}},
		{Name: "c", Type: "slack", URL: config.SlackAPI, Channel: "C012AB3CD", Decide: true},
	}, targets.Parts{
		Lend: func(context.Context, string, string, string) ([]byte, func(), error) { return nil, func() {}, nil },
		Log:  slog.New(slog.DiscardHandler), Voter: &notify.Voter{},
	}))(t)
	var where []string
	for _, one := range list {
		where = append(where, one.Where)
	}
	if want := []string{"hooks.example.org:443", "x@example.org through mail.example.org:587", "channel C012AB3CD"}; !slices.Equal(where, want) {
		t.Errorf("they lead to %q, want %q", where, want)
	}
	if _, err := targets.New([]config.Notify{{Name: "a", Type: "webhook", URL: "https://x", AllowedHosts: []string{"http://x"}}}, targets.Parts{}); err == nil {
		t.Error("an invalid rule is accepted")
	}
}
