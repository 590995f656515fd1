//go:build linux

package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
	"palyra/internal/identity"
)

// These timeouts are well below the timeouts of the tests that wait for a client. A vote times
// out before its call, a call before must.Patience, and a single request before either.
const (
	votePatience    = must.Patience / 12
	requestPatience = must.Patience / 3
	callPatience    = must.Patience / 2
)

// client is the local operator, who proposes calls and allows them.
type client struct {
	gateway   palyrav1connect.GatewayServiceClient
	approvals palyrav1connect.ApprovalsServiceClient
	status    palyrav1connect.StatusServiceClient
	transport *http.Transport
	// asked, if set, receives every approval that a call of this client waits for.
	asked chan<- string
	// patience is how long the client retries a vote.
	patience time.Duration
}

// dial returns a client of the running palyrad with its own connection.
func (d *daemon) dial() *client {
	d.T.Helper()
	bundle := must.Get(identity.ReadBundle(filepath.Join(d.view, d.State, "operator")))(d.T)
	c := newClient(bundle)
	d.T.Cleanup(c.transport.CloseIdleConnections)
	return c
}

func newClient(bundle identity.Bundle) *client {
	transport := &http.Transport{TLSClientConfig: bundle.ClientTLS(), ForceAttemptHTTP2: true}
	url := "https://" + bundle.Address
	brief := &http.Client{Transport: transport, Timeout: requestPatience}
	return &client{
		gateway:   palyrav1connect.NewGatewayServiceClient(&http.Client{Transport: transport}, url), // its calls wait for approval
		approvals: palyrav1connect.NewApprovalsServiceClient(brief, url),
		status:    palyrav1connect.NewStatusServiceClient(brief, url),
		transport: transport,
		patience:  votePatience,
	}
}

// reply is the response that a client received about one call.
type reply struct {
	file        string
	proposal    string
	approval    string
	allowed     bool
	outcome     string
	reason      string
	attestation string
	seq         int64
	err         error
}

// patch proposes a new file of one line, which needs no approval.
func (c *client) patch(ctx context.Context, file string) reply {
	diff := fmt.Sprintf("--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+%s\n", file, file)
	return c.call(ctx, "fs.patch", file, map[string]string{"patch": diff}, true)
}

// write proposes a new file and, if vote is set, approves it when asked.
func (c *client) write(ctx context.Context, file string, vote bool) reply {
	return c.call(ctx, "fs.write", file, map[string]string{"path": file, "content": file + "\n"}, vote)
}

func (c *client) call(ctx context.Context, tool, file string, input any, vote bool) reply {
	r := reply{file: file}
	text, err := json.Marshal(input)
	if err != nil {
		r.err = err
		return r
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if vote {
		// A call without a vote may wait until its palyrad ends.
		ctx, cancel = context.WithTimeout(ctx, callPatience)
		defer cancel()
	}
	stream, err := c.gateway.CallTool(ctx, &palyrav1.CallToolRequest{Tool: tool, InputJson: text})
	if err != nil {
		r.err = err
		return r
	}
	for stream.Receive() {
		if err := c.note(ctx, &r, stream.Msg(), vote); err != nil {
			r.err = err
			cancel() // otherwise it would wait for a response that never comes
		}
	}
	if r.err == nil {
		r.err = stream.Err()
	}
	_ = stream.Close() // Err has the error
	return r
}

// note records one message of a call, and answers an approval request.
func (c *client) note(ctx context.Context, r *reply, m *palyrav1.CallToolResponse, vote bool) error {
	switch {
	case m.GetProposed() != nil:
		r.proposal = m.GetProposed().GetProposalId()
	case m.GetApprovalRequested() != nil:
		a := m.GetApprovalRequested().GetApproval()
		if r.approval != "" {
			return nil // the same approval, changed
		}
		r.approval = a.GetApprovalId()
		if c.asked != nil {
			c.asked <- r.approval
		}
		if vote {
			return c.allow(ctx, a)
		}
	case m.GetDecision() != nil:
		r.allowed = m.GetDecision().GetAllowed()
	case m.GetResult() != nil:
		r.outcome, r.reason = m.GetResult().GetOutcome(), m.GetResult().GetReason()
	case m.GetAttestation() != nil:
		r.attestation, r.seq = m.GetAttestation().GetAttestationId(), m.GetAttestation().GetJournalSeq()
	}
	return nil
}

// allow votes yes, and retries while the vote cannot be recorded, up to the client's patience.
func (c *client) allow(ctx context.Context, a *palyrav1.Approval) error {
	patience := time.NewTimer(c.patience)
	defer patience.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := c.approvals.DecideApproval(ctx, &palyrav1.DecideApprovalRequest{
			ApprovalId: a.GetApprovalId(), Allow: true, ShownDigest: a.GetCallDigest(),
		})
		if code, _ := codeOf(err); code != "JOURNAL_UNAVAILABLE" {
			return err
		}
		select {
		case <-tick.C:
		case <-patience.C:
			return err
		}
	}
}

// codeOf returns the reason code and the next step of an error.
func codeOf(err error) (code, next string) {
	failed := &connect.Error{}
	if !errors.As(err, &failed) {
		return "", ""
	}
	for _, detail := range failed.Details() {
		value, err := detail.Value()
		if info, ok := value.(*errdetails.ErrorInfo); ok && err == nil {
			return info.GetReason(), info.GetMetadata()["remedy"]
		}
	}
	return "", ""
}

// load is a number of clients that call concurrently, and their replies.
type load struct {
	stop context.CancelFunc
	wg   sync.WaitGroup
	made atomic.Int64

	mu      sync.Mutex
	replies []reply
}

// begin runs clients until stop is called or the daemon is gone. The calls of the first client
// need no approval, because all other clients wait while votes cannot be recorded. Every second
// call of the others needs approval. File names start with prefix, so that no two calls of a
// test share a file.
func (d *daemon) begin(clients int, prefix string) *load {
	d.T.Helper()
	var all []*client
	for range clients {
		all = append(all, d.dial())
	}
	return beginWith(d.T, all, prefix)
}

func beginWith(t *testing.T, clients []*client, prefix string) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{stop: cancel}
	t.Cleanup(cancel)
	for n, c := range clients {
		l.wg.Go(func() {
			defer c.transport.CloseIdleConnections()
			for i := 0; ctx.Err() == nil; i++ {
				if !l.one(ctx, c, fmt.Sprintf("%s-%d-%d", prefix, n, i), n > 0 && i%2 == 1) {
					return
				}
			}
		})
	}
	return l
}

// one makes a call; false means that the daemon no longer answers.
func (l *load) one(ctx context.Context, c *client, file string, asks bool) bool {
	// Cancelling a call would withdraw its approval request. Calls in progress therefore run to
	// their end, and only new ones stop.
	ctx = context.WithoutCancel(ctx)
	var r reply
	if asks {
		r = c.write(ctx, file, true)
	} else {
		r = c.patch(ctx, file)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replies = append(l.replies, r)
	l.made.Add(1)
	code, _ := codeOf(r.err)
	return r.err == nil || code != ""
}

// wait waits until all clients have ended, and returns their replies.
func (l *load) wait() []reply {
	l.wg.Wait()
	return l.replies
}

// end calls stop and wait.
func (l *load) end() []reply {
	l.stop()
	return l.wait()
}

// ran waits until n calls have been made.
func (l *load) ran(t *testing.T, n int64) {
	t.Helper()
	must.Eventually(t, fmt.Sprintf("%d calls were made", n), func() (bool, string) {
		return l.made.Load() >= n, fmt.Sprint(l.made.Load())
	})
}

// succeeded fails the test unless every call succeeded.
func succeeded(t *testing.T, replies ...reply) {
	t.Helper()
	for _, r := range replies {
		if r.err != nil || r.outcome != "succeeded" || r.attestation == "" {
			t.Errorf("the call was answered with %+v: %v", r, r.err)
		}
	}
}

// codes lists the reason codes of the calls that failed.
func codes(replies []reply) []string {
	var list []string
	for _, r := range replies {
		if r.err == nil {
			continue
		}
		code, next := codeOf(r.err)
		if code == "" {
			code = "no code: " + r.err.Error()
		} else if strings.TrimSpace(next) == "" {
			code += " without a next step"
		}
		list = append(list, code)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
