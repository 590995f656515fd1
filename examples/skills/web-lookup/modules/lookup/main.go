// Command lookup sends requests to its granted host, with its granted token. It never receives
// the token: it writes the placeholder, which Palyra replaces by the value.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"example.org/skills/host"
)

// secret is the name of the token in skill.toml.
const secret = "global/lookup"

// placeholder stands for the secret's value in a request.
const placeholder = "palyra-sec-global~lookup"

type input struct {
	Path      string `json:"path"`
	Anonymous bool   `json:"anonymous"`
}

type result struct {
	Status    int             `json:"status"`
	URL       string          `json:"url"`
	JSON      json.RawMessage `json:"json,omitempty"`
	Text      string          `json:"text,omitempty"`
	Truncated bool            `json:"truncated,omitempty"`
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(from io.Reader, to io.Writer) error {
	var in input
	if err := json.NewDecoder(from).Decode(&in); err != nil {
		return fmt.Errorf("reading the input: %w", err)
	}
	hosts := host.Names(host.KindHTTP)
	if len(hosts) == 0 {
		return errors.New("no host was granted: ask the operator to grant this skill its http capability")
	}
	grant, err := host.HTTP(hosts[0])
	if err != nil {
		return fmt.Errorf("opening the host: %w", err)
	}
	request := host.Request{URL: address(hosts[0], in.Path), Headers: map[string]string{"accept": "application/json"}}
	if _, err := host.Secret(secret); err == nil && !in.Anonymous {
		request.Headers["authorization"] = "Bearer " + placeholder
	}
	response, err := grant.Request(request)
	if err != nil {
		return fmt.Errorf("requesting %s: %w", hosts[0], err)
	}
	return json.NewEncoder(to).Encode(resultOf(response))
}

// address returns the URL of a path on the host of a rule. A rule without a port, or with port
// 443, means https.
func address(rule, path string) string {
	return "https://" + strings.TrimSuffix(rule, ":443") + path
}

func resultOf(r host.Response) result {
	out := result{Status: r.Status, URL: r.URL, Truncated: r.Truncated}
	if text := []byte(r.Content); json.Valid(text) {
		out.JSON = text
	} else {
		out.Text = r.Content
	}
	return out
}
