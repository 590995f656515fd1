package conformance

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// prefix is the gateway's prefix for the names of the server's tools and prompts. The suite
// uses the names without it.
const prefix = "sdk_"

// place is the gateway's prefix for the URIs of the server's resources.
const place = "palyra:sdk:"

// shim forwards between the suite and the gateway. It adds the token, which the suite cannot be
// configured with, and translates names. It forwards everything else unchanged.
func shim(t *testing.T, gateway, token string) string {
	target := must.Get(url.Parse(gateway))(t)
	client := &http.Client{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		out, err := http.NewRequestWithContext(r.Context(), r.Method, target.String(), bytes.NewReader(named(body)))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		out.Header = r.Header.Clone()
		out.Header.Set("Authorization", "Bearer "+token)
		out.Header.Del("Accept-Encoding")
		switch name, method := out.Header.Get("Mcp-Name"), r.Header.Get("Mcp-Method"); {
		case name != "" && isNamed(method):
			out.Header.Set("Mcp-Name", prefix+plain(name))
		case name != "" && isLocated(method):
			out.Header.Set("Mcp-Name", place+plain(name))
		}
		// The shim's host name stands for the gateway; the suite uses other host names on purpose.
		out.Host = r.Host
		if r.Host == r.Context().Value(http.LocalAddrContextKey).(interface{ String() string }).String() {
			out.Host = target.Host
		}
		if origin := r.Header.Get("Origin"); origin == "http://"+r.Host {
			out.Header.Set("Origin", "http://"+out.Host)
		}
		reply, err := client.Do(out)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = reply.Body.Close() }()
		for name, values := range reply.Header {
			if name != "Content-Length" {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(reply.StatusCode)
		relay(w, reply.Body)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/mcp"
}

// isNamed reports whether a method addresses an item by name; isLocated reports whether it
// addresses one by URI.
func isNamed(method string) bool { return method == "tools/call" || method == "prompts/get" }

func isLocated(method string) bool { return strings.HasPrefix(method, "resources/") }

// plain returns the text of a header that may be in base64.
func plain(value string) string {
	value = strings.TrimSpace(value)
	if coded, ok := strings.CutPrefix(value, "=?base64?"); ok {
		if text, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(coded, "?=")); err == nil {
			return string(text)
		}
	}
	return value
}

// named replaces the name in a request by the gateway's name.
func named(body []byte) []byte {
	var m map[string]any
	if json.Unmarshal(body, &m) != nil {
		return body
	}
	method, _ := m["method"].(string)
	params, _ := m["params"].(map[string]any)
	more := func(in map[string]any, key, with string) {
		if text, ok := in[key].(string); ok {
			in[key] = with + text
		}
	}
	ref, _ := params["ref"].(map[string]any)
	switch {
	case isNamed(method):
		more(params, "name", prefix)
	case isLocated(method):
		more(params, "uri", place)
	case method == "completion/complete":
		more(ref, "name", prefix)
		more(ref, "uri", place)
	default:
		return body
	}
	text, err := json.Marshal(m)
	if err != nil {
		return body
	}
	return text
}

// relay copies an answer line by line as it arrives, and restores the suite's names in lists.
func relay(w http.ResponseWriter, from io.Reader) {
	var line []byte
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		for _, b := range buffer[:n] {
			if line = append(line, b); b == '\n' {
				_, _ = w.Write(unnamed(line))
				line = line[:0]
			}
		}
		if err != nil {
			_, _ = w.Write(unnamed(line))
			return
		}
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
}

func unnamed(line []byte) []byte {
	return []byte(strings.NewReplacer(`"name":"`+prefix, `"name":"`, `"uri":"`+place, `"uri":"`, `"uriTemplate":"`+place, `"uriTemplate":"`).Replace(string(line)))
}
