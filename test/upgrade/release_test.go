//go:build linux

package upgrade

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/must"
	"palyra/test/upgrade/upgradetest"
)

// members maps the members of every state directory to their roles. bob2 is a second device of
// bob's, and revoked is a revoked device of cyd's.
var members = map[string]string{
	"local": "user:local", "ann": "user:ann", "bob": "user:bob", "eve": "user:eve", "cyd": "user:cyd", "dev": "user:dev",
	"helper": "agent:helper", "bob2": "user:bob",
}

// ended is the outcome of a call: "succeeded", "denied CODE", or "asks" if it waits for
// approval and stays pending.
type ended struct {
	word     string
	approval *palyrav1.Approval
	decision *palyrav1.ToolDecision
	attested string
}

// call makes a call and follows it until it ends or waits for approval.
func (c *client) call(tool, input string) ended {
	c.g.T.Helper()
	ctx, leave := context.WithCancel(c.g.T.Context())
	defer leave()
	// With a key, the approval request remains when the client disconnects.
	stream := must.Get(c.calls.CallTool(ctx, &palyrav1.CallToolRequest{Tool: tool, InputJson: []byte(input), IdempotencyKey: newKey(c.g.T)}))(c.g.T)
	var e ended
	for stream.Receive() {
		switch v := stream.Msg().GetEvent().(type) {
		case *palyrav1.CallToolResponse_ApprovalRequested:
			// An approval that was given meanwhile releases the call.
			if e.approval = v.ApprovalRequested.GetApproval(); e.approval.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
				e.word = "asks"
				return e
			}
		case *palyrav1.CallToolResponse_Decision:
			if e.decision = v.Decision; !v.Decision.GetAllowed() {
				e.word = "denied " + v.Decision.GetReason()
			}
		case *palyrav1.CallToolResponse_Result:
			if e.word == "" {
				e.word = v.Result.GetOutcome()
			}
		case *palyrav1.CallToolResponse_Attestation:
			e.attested = v.Attestation.GetAttestationId()
		}
	}
	must.Check(c.g.T, stream.Err())
	return e
}

// decide votes on an approval.
func (c *client) decide(a upgradetest.Ask, req *palyrav1.DecideApprovalRequest) (*palyrav1.Approval, error) {
	req.ApprovalId, req.ShownDigest = a.ID, a.Digest
	res, err := c.approvals.DecideApproval(c.g.T.Context(), req)
	return res.GetApproval(), err
}

// approval returns the current state of an approval.
func (c *client) approval(id string) *palyrav1.Approval {
	c.g.T.Helper()
	return must.Get(c.approvals.GetApproval(c.g.T.Context(), &palyrav1.GetApprovalRequest{ApprovalId: id}))(c.g.T).GetApproval()
}

// events lists the events of a code.
func (c *client) events(code string) []*palyrav1.Event {
	c.g.T.Helper()
	res := must.Get(c.journal.ListEvents(c.g.T.Context(), &palyrav1.ListEventsRequest{Filter: &palyrav1.EventFilter{Code: code}, PageSize: 500}))(c.g.T)
	return res.GetEvents()
}

func code(err error) connect.Code {
	if err == nil {
		return 0
	}
	return connect.CodeOf(err)
}

// pack writes a directory to an archive.
func pack(t *testing.T, dir, archive string) {
	t.Helper()
	f := must.Get(os.Create(archive))(t)
	z := must.Get(gzip.NewWriterLevel(f, gzip.BestCompression))(t)
	w := tar.NewWriter(z)
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() && !d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == "." {
			return err
		}
		h := &tar.Header{Name: filepath.ToSlash(name), Mode: int64(info.Mode().Perm()), Typeflag: tar.TypeDir}
		if d.IsDir() {
			return w.WriteHeader(h)
		}
		text, err := os.ReadFile(path)
		h.Typeflag, h.Size = tar.TypeReg, int64(len(text))
		return errors.Join(err, w.WriteHeader(h), second(w.Write(text)))
	}))
	must.Do(t, errors.Join(w.Close(), z.Close(), f.Close()))
}

func second(_ int, err error) error { return err }

func readJSON[T any](t *testing.T, path string) (v T) {
	t.Helper()
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(path))(t), &v))
	return v
}

func writeJSON(t *testing.T, path string, v any) {
	t.Helper()
	must.Do(t, os.WriteFile(path, must.Get(json.MarshalIndent(v, "", " "))(t), 0o600))
}

// archives returns the packed state directories under test.
func archives(t *testing.T) []string {
	t.Helper()
	if one := os.Getenv("TEST_PALYRA_UPGRADE_STATE"); one != "" {
		return []string{one}
	}
	return upgradetest.Archives(t, "testdata")
}

func named(archive string) string { return strings.TrimSuffix(filepath.Base(archive), ".tar.gz") }
