//go:build palyrainit

package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/access"
	"palyra/internal/canonical"
	"palyra/internal/config"
	"palyra/internal/must"
	"palyra/internal/needs"
)

// How long TestCanary goes on, and the seed that repeats a run.
const (
	canaryTime = "TEST_PALYRA_CANARY_TIME"
	canarySeed = "TEST_PALYRA_CANARY_SEED"
)

// canary stands in every file of the workspace and in a secret. Its letters stand nowhere else.
const canary = "kzqvx-canary-7h3w9m2p8r5t"

// overheard is a connection of which every byte that the gateway sends is looked at.
type overheard struct {
	http.RoundTripper
	heard *heard
}

// heard looks for the canary, in the forms in which a text travels, and for the digests of files.
type heard struct {
	mu    sync.Mutex
	forms map[string][]byte
	found string
	bytes int64
}

func (o overheard) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := o.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	for name, values := range res.Header {
		o.heard.look([]byte(name + strings.Join(values, " ")))
	}
	res.Body = &overheardBody{ReadCloser: res.Body, heard: o.heard}
	return res, nil
}

type overheardBody struct {
	io.ReadCloser
	heard *heard
	// tail is the end of what came before, in which a form may have begun.
	tail []byte
}

func (b *overheardBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	text := append(b.tail, p[:n]...)
	b.heard.look(text)
	b.tail = bytes.Clone(text[max(0, len(text)-128):])
	return n, err
}

func (h *heard) look(text []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes += int64(len(text))
	for name, form := range h.forms {
		if i := bytes.Index(text, form); i >= 0 && h.found == "" {
			h.found = fmt.Sprintf("%s in %q", name, text[max(0, i-200):min(len(text), i+200)])
		}
	}
}

func (h *heard) take() (found string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found, h.found = h.found, ""
	return found
}

// canaryFiles are the files of the workspace.
var canaryFiles = []string{".env", "plain.txt", "dir/deep.txt", "dir/script.sh", "bin.dat", "Makefile", ".git/config", "long.txt"}

func canaryText(name string) string {
	switch name {
	case "dir/script.sh":
		return "#!/usr/bin/env " + canary + "\necho " + canary + "\n"
	case "bin.dat":
		return "\x00\x01" + canary + "\xff"
	case "long.txt":
		return strings.Repeat("line\n", 500) + canary + "\n" + strings.Repeat("line\n", 500)
	}
	return "first\n" + canary + "\nlast\n"
}

// newHeard looks for the canary as it is, in base64 at each offset and in hexadecimal, and for
// the digest of each file.
func newHeard() *heard {
	h := &heard{forms: map[string][]byte{"text": []byte(canary), "hexadecimal": []byte(hex.EncodeToString([]byte(canary)))}}
	for offset := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + canary))
		h.forms[fmt.Sprintf("base64 at %d", offset)] = []byte(text[4 : len(text)-4])
	}
	for _, name := range canaryFiles {
		h.forms["digest of "+name] = []byte(strings.TrimPrefix(canonical.Digest([]byte(canaryText(name))), "sha256:"))
	}
	return h
}

// guesser makes inputs for tools, which know names of files and guess their content.
type guesser struct{ *mathrand.Rand }

func (g guesser) one(list ...string) string { return list[g.IntN(len(list))] }

func (g guesser) path() string {
	name := g.one(append([]string{"none.txt", "dir", ".", "link", "outside", "..", "dir/../.env", "/etc/hostname"}, canaryFiles...)...)
	return g.one(name, name, "./"+name, strings.ToUpper(name), name+"/")
}

// line is a line as a patch or a pattern may have it: part of the canary, which is not enough to
// be one, or something else.
func (g guesser) line() string {
	return g.one("first", "last", "line", canary[:1+g.IntN(8)], ".", "x", "")
}

func (g guesser) patch() string {
	name := g.one(canaryFiles...)
	return fmt.Sprintf("--- a/%s\n+++ b/%s\n@@ -%d,%d +%d,%d @@\n %s\n-%s\n+new\n", name, name, g.IntN(4), g.IntN(4), g.IntN(4), g.IntN(4), g.line(), g.line())
}

func (g guesser) call() (tool string, input map[string]any) {
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
		return "process.run", map[string]any{"argv": []string{g.one("cat", "make", "./dir/script.sh", "dir/script.sh", "none", "sort"), g.path(), g.line()}, "cwd": g.one(".", "dir")}
	case 8:
		header := g.one("vault://global/canary", "Bearer vault://global/canary", "Bearer "+g.line())
		return g.one("http.fetch", "secrets.list"), map[string]any{"url": "https://example.com/" + g.line(), "headers": map[string]any{"authorization": header}}
	default:
		return "shell.run", map[string]any{"command": g.one("cat ", "sort < ", ". ./", "grep x ") + g.path()}
	}
}

// TestCanary: whatever a caller asks of a gateway that lets it do nothing, or nothing without a
// person who never answers, or everything but reading, no byte that it gets has anything of the
// files in it. The control is the same caller where it may read.
func TestCanary(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	span := must.Get(time.ParseDuration(cmp.Or(os.Getenv(canaryTime), "30s")))(t)
	seed := must.Get(strconv.ParseUint(cmp.Or(os.Getenv(canarySeed), strconv.FormatInt(time.Now().UnixNano(), 10)), 10, 64))(t)
	for name, policies := range map[string]string{
		"deny all": `@id("none") @reason("none") forbid(principal, action in Action::"tool.execute", resource);`,
		"ask all":  `@id("ask") @reason("ask") forbid(principal, action in Action::"tool.execute", resource) unless { context.approval.granted };`,
		"no reading": `@id("no-reading") @reason("no reading") forbid(principal, action == Action::"tool.execute/fs.read", resource);
@id("no-files") @reason("no files") forbid(principal, action == Action::"tool.execute/process.run", resource);
@id("no-lines") @reason("no lines") forbid(principal, action == Action::"tool.execute/shell.run", resource);`,
		"the control": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, h := startWithCanary(t, policies)
			random, deadline, calls := guesser{mathrand.New(mathrand.NewPCG(seed, 0))}, time.Now().Add(span/4), 0
			for time.Now().Before(deadline) {
				what := g.ask(random)
				if calls++; policies == "" {
					if h.take() != "" {
						return // there is something to be heard
					}
					continue
				}
				if found := h.take(); found != "" {
					t.Fatalf("after %s (call %d, %s=%d): %s", what, calls, canarySeed, seed, found)
				}
			}
			if policies == "" {
				t.Error("the control heard nothing of the files")
			}
			t.Logf("%d calls, %d bytes", calls, h.bytes)
		})
	}
}

// curious is an agent of a gateway whose answers are overheard.
type curious struct {
	*running
	calls     palyrav1connect.GatewayServiceClient
	approvals palyrav1connect.ApprovalsServiceClient
	policy    palyrav1connect.PolicyServiceClient
}

func startWithCanary(t *testing.T, policies string) (curious, *heard) {
	t.Helper()
	cfg := policyConfigAt(t)
	cfg.ProcessRunner.Enabled = true
	cfg.Approvals.Cooldown, cfg.Approvals.MaxCreatedPerMinutePerRun, cfg.Approvals.MaxCreatedPerMinutePerPrincipal = 0, 1<<20, 1<<20
	much := config.RateLimit{PerSecond: 1 << 20, Burst: 1 << 20}
	cfg.RateLimits.Read, cfg.RateLimits.ToolCall = much, much
	cfg.MaxCallsPerSession, cfg.MaxCallsPerRun = 1<<20, 1<<20
	cfg.Workspaces = []config.Workspace{workspaceAt(t)}
	write(t, filepath.Join(cfg.Policy.Dir, "10.cedar"), policies)
	dir := cfg.Workspaces[0].Path
	for _, name := range canaryFiles {
		full := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(full), 0o755))
		must.Do(t, os.WriteFile(full, []byte(canaryText(name)), 0o755))
	}
	must.Do(t, os.Symlink(".env", filepath.Join(dir, "link")))
	d := start(t, cfg)
	t.Cleanup(d.end)
	must.Get(palyrav1connect.NewVaultServiceClient(d.client(), d.url()).PutSecret(t.Context(), &palyrav1.PutSecretRequest{
		Ref: "vault://global/canary", Value: []byte(canary + "-as-a-secret"), Hosts: &palyrav1.HostList{Hosts: []string{"example.com:443"}},
	}))(t)
	bundle := filepath.Join(t.TempDir(), "coder")
	must.Get(AddOperator(t.Context(), cfg, NewOperator{Name: "coder", Roles: []access.Role{access.RoleAgent}, Owner: access.User("local"), Dir: bundle, AcceptLoss: true}))(t)
	h := newHeard()
	c := dialAs(t, bundle)
	c.Transport = overheard{c.Transport, h}
	plain := connect.WithAcceptCompression("gzip", nil, nil)
	return curious{
		d, palyrav1connect.NewGatewayServiceClient(c, d.url(), plain), palyrav1connect.NewApprovalsServiceClient(c, d.url(), plain),
		palyrav1connect.NewPolicyServiceClient(c, d.url(), plain),
	}, h
}

// ask asks the gateway one thing, and says what.
func (g curious) ask(random guesser) (what string) {
	tool, input := random.call()
	text := must.Get(json.Marshal(input))(g.t)
	ctx, cancel := context.WithTimeout(g.t.Context(), must.Patience)
	defer cancel()
	switch random.IntN(4) {
	case 0:
		_, _ = g.calls.EvaluateTool(ctx, &palyrav1.EvaluateToolRequest{Tool: tool, InputJson: text})
		return "evaluating " + tool + " " + string(text)
	case 1:
		_, _ = g.policy.ExplainPolicy(ctx, &palyrav1.ExplainPolicyRequest{Subject: &palyrav1.ExplainPolicyRequest_Call{Call: &palyrav1.CallDescription{Tool: tool, InputJson: text}}})
		return "explaining " + tool + " " + string(text)
	}
	stream, err := g.calls.CallTool(ctx, &palyrav1.CallToolRequest{Tool: tool, InputJson: text})
	if err == nil {
		for stream.Receive() {
			asked := stream.Msg().GetApprovalRequested().GetApproval()
			if asked == nil {
				continue
			}
			// Whoever asks looks at the question in every way that it has, and leaves.
			_, _ = g.approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: asked.GetApprovalId()})
			_, _ = g.approvals.ListApprovals(ctx, &palyrav1.ListApprovalsRequest{})
			_, _ = g.approvals.EditApproval(ctx, &palyrav1.EditApprovalRequest{
				ApprovalId: asked.GetApprovalId(), Version: asked.GetVersion(), ShownDigest: cmp.Or(asked.GetCallDigest(), canonical.Digest(text)), InputJson: text,
			})
			_, _ = g.approvals.CancelApproval(ctx, &palyrav1.CancelApprovalRequest{ApprovalId: asked.GetApprovalId()})
			cancel()
		}
		_ = stream.Close()
	}
	return "calling " + tool + " " + string(text)
}
