package api_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"palyra/internal/core/limit"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/surface/api"
)

// refusedBody posts a body to a unary method and returns the ErrorInfo of the
// refusal.
func refusedBody(t *testing.T, c *client, kind string, body []byte) (status int, code string) {
	t.Helper()
	res := must.Get(c.http.Post(c.w.url+statusProcedure, kind, bytes.NewReader(body)))(t)
	defer res.Body.Close()
	text := must.Get(io.ReadAll(res.Body))(t)
	var e struct {
		Details []struct {
			Type  string `json:"type"`
			Debug struct {
				Reason string `json:"reason"`
			} `json:"debug"`
		} `json:"details"`
	}
	if res.StatusCode == http.StatusOK {
		return res.StatusCode, ""
	}
	if err := json.Unmarshal(text, &e); err != nil || len(e.Details) == 0 || e.Details[0].Type != "google.rpc.ErrorInfo" {
		t.Errorf("%q: the error carries no ErrorInfo: %s", body, text)
		return res.StatusCode, ""
	}
	return res.StatusCode, e.Details[0].Debug.Reason
}

// Malformed requests are refused with a reason, also on unary methods.
func TestMalformedUnaryRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		kind, body string
		status     int
		want       reason.Code
	}{
		{"application/json", `{}`, http.StatusOK, ""},
		{"application/json", ``, http.StatusBadRequest, reason.InvalidInput},
		{"application/json", `{"`, http.StatusBadRequest, reason.InvalidInput},
		{"application/json", `{"nope":1}`, http.StatusBadRequest, reason.InvalidInput},
		{"application/json", `[]`, http.StatusBadRequest, reason.InvalidInput},
		{"application/json; charset=utf-8", `{"nope":1}`, http.StatusBadRequest, reason.InvalidInput},
		{"application/proto", "", http.StatusOK, ""},
		{"application/proto", "\x0a\xff", http.StatusBadRequest, reason.InvalidInput},
		// Unknown fields of a newer client are valid, and are never mistaken for the mark of a
		// malformed message.
		{"application/proto", "\xfa\xff\xff\xff\x0f\x03why", http.StatusOK, ""},
	} {
		status, code := refusedBody(t, w.alice, c.kind, []byte(c.body))
		if status != c.status || code != string(c.want) {
			t.Errorf("%s %q: %d %s, want %d %s", c.kind, c.body, status, code, c.status, c.want)
		}
	}
}

// Malformed requests do not bypass authentication and the rate limit.
func TestMalformedRequestsAreGuarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.limits[api.LimitRead] = limit.Rates{
			Each: limit.Limit{PerSecond: 0.01, Burst: 2}, Global: limit.Limit{PerSecond: 100, Burst: 100},
		}
	})
	if _, code := refusedBody(t, w.connect("", nil), "application/json", []byte(`{"`)); code != string(reason.Unauthenticated) {
		t.Errorf("nobody: %s", code)
	}
	for i, want := range []reason.Code{reason.InvalidInput, reason.InvalidInput, reason.RateLimited} {
		if _, code := refusedBody(t, w.bob, "application/json", []byte(`{"`)); code != string(want) {
			t.Errorf("request %d: %s, want %s", i, code, want)
		}
	}
}
