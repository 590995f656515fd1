package model_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/run/model"
)

func TestKeyIsNeverShown(t *testing.T) {
	t.Parallel()
	const secret = "sk-very-secret"
	key, err := model.NewKey(secret + "\n")
	if err != nil || key.Reveal() != secret || key.IsZero() {
		t.Fatalf("%q, %v", key.Reveal(), err)
	}
	type holder struct{ hidden model.Key }
	var shown bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&shown, verb+"\n", key)
		fmt.Fprintf(&shown, verb+"\n", &key)
		fmt.Fprintf(&shown, verb+"\n", model.Endpoint{Key: key})
		fmt.Fprintf(&shown, verb+"\n", holder{key})
	}
	slog.New(slog.NewJSONHandler(&shown, nil)).Info("m", slog.Any("key", key), slog.Any("endpoint", model.Endpoint{Key: key}))
	slog.New(slog.NewTextHandler(&shown, nil)).Info("m", slog.Any("key", key), slog.Any("endpoint", model.Endpoint{Key: key}))
	text := must.Get(json.Marshal(map[string]any{"key": key, "endpoint": model.Endpoint{Key: key}}))(t)
	shown.Write(text)
	if strings.Contains(shown.String(), "very") || strings.Contains(shown.String(), fmt.Sprintf("%x", "very")) {
		t.Errorf("the key is shown:\n%s", shown.String())
	}
	if !strings.Contains(shown.String(), "redacted") {
		t.Errorf("nothing says that there is a key:\n%s", shown.String())
	}
}

func TestNewKey(t *testing.T) {
	t.Parallel()
	if key, err := model.NewKey(" \n"); err != nil || !key.IsZero() || key.Reveal() != "" {
		t.Errorf("empty contents give %v, %v", key.IsZero(), err)
	}
	for _, bad := range []string{"two words", "two\nlines", "kéy", "a\x00b"} {
		if _, err := model.NewKey(bad); reason.Of(err) != reason.ConfigInvalid || strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
