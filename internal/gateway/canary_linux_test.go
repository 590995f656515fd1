//go:build palyrainit

package gateway

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/core/needs"
)

// canaryTime sets the duration of TestCanary, and canarySeed repeats a run.
const (
	canaryTime = "TEST_PALYRA_CANARY_TIME"
	canarySeed = "TEST_PALYRA_CANARY_SEED"
)

// canary is the content of every file of the workspace, of a secret, and of a header and body
// of the server's responses. Its letters occur nowhere else.
const canary = "kzqvx-canary-7h3w9m2p8r5t"

// overheard is a transport that inspects every byte of the gateway's responses.
type overheard struct {
	http.RoundTripper
	leaks *leakDetector
}

// leakDetector finds the canary, in every encoding that the gateway could use, and the digests
// of files.
type leakDetector struct {
	mu    sync.Mutex
	forms map[string][]byte
	found string
	bytes int64
}

func (o overheard) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := o.RoundTripper.RoundTrip(r)
	if err != nil {
		o.leaks.connectionReset(err)
		return nil, err
	}
	for name, values := range res.Header {
		o.leaks.inspect([]byte(name + strings.Join(values, " ")))
	}
	res.Body = &inspectedBody{ReadCloser: res.Body, leaks: o.leaks}
	return res, nil
}

type inspectedBody struct {
	io.ReadCloser
	leaks *leakDetector
	// tail is the end of the previous read, which may contain the start of a form.
	tail []byte
}

func (b *inspectedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	text := append(b.tail, p[:n]...)
	b.leaks.inspect(text)
	b.tail = bytes.Clone(text[max(0, len(text)-128):])
	return n, err
}

func (h *leakDetector) inspect(text []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes += int64(len(text))
	for name, form := range h.forms {
		if i := bytes.Index(text, form); i >= 0 && h.found == "" {
			h.found = fmt.Sprintf("%s in %q", name, text[max(0, i-200):min(len(text), i+200)])
		}
	}
}

// connectionReset records that the gateway reset a request without a response, as after a
// panic.
func (h *leakDetector) connectionReset(err error) {
	if strings.Contains(err.Error(), "INTERNAL_ERROR") {
		h.mu.Lock()
		h.found = err.Error()
		h.mu.Unlock()
	}
}

func (h *leakDetector) take() (found string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found, h.found = h.found, ""
	return found
}

// canaryFiles are the files of the workspace.
var canaryFiles = []string{".env", "plain.txt", "dir/deep.txt", "dir/script.sh", "dir/run.sh", "bin.dat", "Makefile", ".git/config", "long.txt"}

func canaryText(name string) string {
	switch name {
	case "dir/script.sh":
		return "#!/usr/bin/env " + canary + "\necho " + canary + "\n"
	case "dir/run.sh":
		return "#!/bin/sh\n# " + canary + "\n"
	case "bin.dat":
		return "\x00\x01" + canary + "\xff"
	case "long.txt":
		return strings.Repeat("line\n", 500) + canary + "\n" + strings.Repeat("line\n", 500)
	}
	return "first\n" + canary + "\nlast\n"
}

// newLeakDetector returns a detector of the canary as text, in base64 at each offset and in
// hexadecimal, and of the digest of each file.
func newLeakDetector() *leakDetector {
	h := &leakDetector{forms: map[string][]byte{"text": []byte(canary), "hexadecimal": []byte(hex.EncodeToString([]byte(canary)))}}
	for offset := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + canary))
		h.forms[fmt.Sprintf("base64 at %d", offset)] = []byte(text[4 : len(text)-4])
	}
	for _, name := range canaryFiles {
		h.forms["digest of "+name] = []byte(strings.TrimPrefix(canonical.Digest([]byte(canaryText(name))), "sha256:"))
	}
	return h
}

// withoutDigests returns a detector of the canary alone. Evidence contains digests of files,
// and callers that may read attestations may read them.
func (h *leakDetector) withoutDigests() *leakDetector {
	text := &leakDetector{forms: maps.Clone(h.forms)}
	maps.DeleteFunc(text.forms, func(name string, _ []byte) bool { return strings.HasPrefix(name, "digest") })
	return text
}

// guesser generates random inputs of tools, from known file names and guessed content.
type guesser struct{ *mathrand.Rand }

func (g guesser) one(list ...string) string { return list[g.IntN(len(list))] }

func (g guesser) path() string {
	if g.IntN(2) == 0 {
		return g.one(canaryFiles...)
	}
	name := g.one(append([]string{"none.txt", "dir", ".", "link", "pointer", "outside", "..", "dir/../.env", "/etc/hostname"}, canaryFiles...)...)
	return g.one(name, "./"+name, strings.ToUpper(name), name+"/")
}

// line is a line of a patch or a pattern: a prefix of the canary, too short to match a leak, or
// other text.
func (g guesser) line() string {
	return g.one("first", "last", "line", canary[:1+g.IntN(8)], ".", "x", "")
}

// patch returns a patch. Most patches are well-formed, so that the gateway compares them with
// the file.
func (g guesser) patch() string {
	name, old, kept := g.one(canaryFiles...), g.IntN(4), g.IntN(3)
	if g.IntN(4) > 0 {
		old, kept = 1+g.IntN(3), 1
	}
	return fmt.Sprintf("--- a/%s\n+++ b/%s\n@@ -%d,%d +%d,%d @@\n-%s\n+new\n", name, name, old, kept, old, kept, g.line())
}

func (g guesser) call(server string) (tool string, input map[string]any) {
	switch g.IntN(10) {
	case 0:
		return "fs.read", map[string]any{"path": g.path(), "offset": g.IntN(9)}
	case 1:
		return "fs.write", map[string]any{"path": g.path(), "content": g.line(), "mode": g.one("create", "overwrite")}
	case 2:
		return "fs.write", map[string]any{"path": g.path(), "content": g.line(), "mode": "overwrite", "expected_sha256": canonical.Digest([]byte(g.line()))}
	case 3, 4:
		return "fs.patch", map[string]any{"patch": g.patch()}
	case 5:
		return "fs.search", map[string]any{"pattern": g.one("f", "l", canary[:1+g.IntN(8)], "line"), "path": g.one(".", "dir", ".env")}
	case 6:
		return "fs.list", map[string]any{"path": g.path()}
	case 7:
		return "process.run", map[string]any{"argv": []string{g.one("cat", "make", "./dir/script.sh", "./dir/run.sh", "dir/run.sh", "none", "sort"), g.path(), g.line()}, "cwd": g.one(".", "dir")}
	case 8:
		header := g.one("vault://global/canary", "Bearer vault://global/canary", "Bearer "+g.line())
		return "http.fetch", map[string]any{"url": g.one("https://example.com/", server) + g.line(), "headers": map[string]any{"authorization": header}}
	default:
		return "shell.run", map[string]any{"command": g.one("cat ", "sort < ", ". ./", "grep x ") + g.path()}
	}
}

// TestCanary: no response to a caller, editor, evaluator or auditor contains a file's content,
// a server's response or a secret. The policies deny every call, require an approval that is
// never given, or deny reads, and another member has read everything. Control: with reads
// allowed, each interface that returns content returns the canary.
func TestCanary(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	span := must.Get(time.ParseDuration(cmp.Or(os.Getenv(canaryTime), "30s")))(t)
	seed := must.Get(strconv.ParseUint(cmp.Or(os.Getenv(canarySeed), strconv.FormatInt(time.Now().UnixNano(), 10)), 10, 64))(t)
	const others = `when { principal != User::"local" }`
	var arms sync.WaitGroup
	for name, policies := range map[string]string{
		"deny all": `@id("none") @reason("none") forbid(principal, action in Action::"tool.execute", resource) ` + others + `;`,
		"ask all":  `@id("ask") @reason("ask") forbid(principal, action in Action::"tool.execute", resource) ` + others + ` unless { context.approval.granted };`,
		"no reading": `@id("no-reading") @reason("no reading") forbid(principal, action == Action::"tool.execute/fs.read", resource) ` + others + `;
@id("no-files") @reason("no files") forbid(principal, action == Action::"tool.execute/process.run", resource) ` + others + `;
@id("no-lines") @reason("no lines") forbid(principal, action == Action::"tool.execute/shell.run", resource) ` + others + `;
@id("no-web") @reason("no web") forbid(principal, action == Action::"tool.execute/http.fetch", resource) ` + others + `;`,
		"the control": "",
	} {
		g := startWithCanary(t, policies)
		random := guesser{mathrand.New(mathrand.NewPCG(seed, 0))}
		arms.Go(func() { g.listen(t, name, random, time.Now().Add(span), seed) })
	}
	arms.Wait()
}
