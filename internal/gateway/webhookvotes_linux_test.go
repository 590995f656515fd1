package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/identity"
	"palyra/internal/identity/signedvote"
)

// TestSignedVotesCountDuringAFlood: signed votes count while many addresses send requests
// without a valid signature, which the rate limit refuses. Control: the rate limit also refuses
// unsigned requests from new addresses.
func TestSignedVotesCountDuringAFlood(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.RateLimits.Decide, cfg.RateLimits.GlobalFactor = config.RateLimit{PerSecond: 0.001, Burst: 8}, 4
	ws := filepath.Join(t.TempDir(), "ws")
	must.Do(t, os.Mkdir(ws, 0o755))
	cfg.Workspaces = []config.Workspace{{Name: "default", Path: ws}}
	d := start(t, cfg)
	bundle := must.Get(identity.ReadBundle(d.Credentials))(t)

	post := func(from string, body []byte) int {
		config := bundle.ClientTLS()
		config.Certificates, config.GetClientCertificate = nil, nil
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		transport := &http.Transport{TLSClientConfig: config, DialContext: dialer.DialContext, ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, d.url()+"/webhooks/v1/decisions", bytes.NewReader(body)))(t)
		answer := must.Get((&http.Client{Transport: transport}).Do(r))(t)
		must.Do(t, answer.Body.Close())
		return answer.StatusCode
	}
	vote := func(path string) []byte {
		a := pendingWrite(t, d, path)
		now := time.Now().UTC().Truncate(time.Second)
		signed := must.Get(signedvote.Sign(bundle.Key, bundle.Chain, signedvote.Vote{
			Gateway: bundle.Chain[0].URIs[0].Host, Approval: a.GetApprovalId(), Version: a.GetVersion(), CallDigest: a.GetCallDigest(),
			Allow: true, SignedAt: now, ExpiresAt: now.Add(time.Minute),
		}))(t)
		return must.Get(json.Marshal(signed))(t)
	}
	forged := func(body []byte) []byte {
		var s signedvote.Signed
		must.Do(t, json.Unmarshal(body, &s))
		s.Vote.Allow, s.Vote.Reason = false, "forged"
		return must.Get(json.Marshal(s))(t)
	}

	last := 0
	for i := range 60 {
		last = post(fmt.Sprintf("127.0.0.%d", 2+i), []byte(`{"vote":{}}`))
		if i%20 == 19 {
			body := vote(fmt.Sprintf("f%d", i))
			if code := post("127.0.0.2", body); code != http.StatusOK {
				t.Errorf("after %d requests of strangers, a signed vote is answered %d", i+1, code)
			}
		}
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("the last request of the flood is answered %d", last)
	}
	body := vote("g")
	for i, unsigned := range [][]byte{[]byte("x"), bytes.Repeat([]byte("x"), 70_000), forged(body)} {
		if code := post(fmt.Sprintf("127.0.1.%d", 1+i), unsigned); code != http.StatusTooManyRequests {
			t.Errorf("control %d: a request without a valid signature is answered %d", i, code)
		}
	}
	if code := post("127.0.0.2", body); code != http.StatusOK {
		t.Errorf("the vote whose forgery was refused is answered %d", code)
	}
	d.end()
}

// pendingWrite calls a tool that requires an approval, and returns the pending approval.
func pendingWrite(t *testing.T, d *running, path string) *palyrav1.Approval {
	t.Helper()
	text := must.Get(json.Marshal(map[string]string{"path": path, "content": "n"}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	stream := must.Get(palyrav1connect.NewGatewayServiceClient(d.client(), d.url()).CallTool(ctx, &palyrav1.CallToolRequest{Tool: "fs.write", InputJson: text}))(t)
	t.Cleanup(func() { _ = stream.Close() })
	for stream.Receive() {
		if a := stream.Msg().GetApprovalRequested().GetApproval(); a != nil {
			return a
		}
	}
	t.Fatalf("the call was not asked about: %v", stream.Err())
	return nil
}
