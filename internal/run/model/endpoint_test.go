package model_test

import (
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/run/model"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	key := must.Get(model.NewKey("sk-1"))(t)
	const home = "https://api.model.test"
	for base, c := range map[string]struct{ withKey, without bool }{
		"":                             {true, false},
		"https://proxy.test/anthropic": {true, true},
		"http://127.0.0.1:8080/v1":     {true, true},
		"http://[::1]:8080":            {true, true},
		"http://localhost:11434/v1":    {true, true},
		"http://10.0.0.7:8000/v1":      {false, true},
		"http://localhost.evil.test":   {false, true},
		"https://user:pw@host.test":    {false, false},
		"https://host.test/?key=1":     {false, false},
		"https://host.test/#x":         {false, false},
		"ftp://host.test":              {false, false},
		"host.test:80":                 {false, false},
		"://":                          {false, false},
	} {
		for _, e := range []struct {
			key  model.Key
			want bool
		}{{key, c.withKey}, {model.Key{}, c.without}} {
			got, err := model.Endpoint{Model: "m", BaseURL: base, Key: e.key}.Resolve(home)
			if (err == nil) != e.want || err != nil && reason.Of(err) != reason.ConfigInvalid {
				t.Errorf("%q, key %v: %v", base, !e.key.IsZero(), err)
			}
			if err == nil && (got.BaseURL == "" || got.IdleTimeout != model.DefaultIdleTimeout) {
				t.Errorf("%q: %+v", base, got)
			}
			if err != nil && strings.Contains(err.Error(), "pw") {
				t.Errorf("%q: the password is in %v", base, err)
			}
		}
	}
	if _, err := (model.Endpoint{Key: key}).Resolve(home); reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("without a model: %v", err)
	}
}

func TestOutputTokens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ configured, asked, want int64 }{{0, 0, 0}, {100, 0, 100}, {0, 50, 50}, {100, 50, 50}, {100, 200, 100}} {
		if got := (model.Endpoint{MaxOutputTokens: c.configured}).OutputTokens(model.Request{MaxTokens: c.asked}); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
