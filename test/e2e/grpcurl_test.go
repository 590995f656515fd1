//go:build linux

package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/test/process"
)

// grpcurl runs grpcurl with the files of a bundle. If credential is false, it sends no client
// certificate.
func (g *gateway) grpcurl(bundle string, credential bool, args ...string) process.Result {
	g.T.Helper()
	flags := []string{"-cacert", filepath.Join(g.bundle(), "ca.pem")}
	if credential {
		flags = append(flags, "-cert", filepath.Join(bundle, "cert.pem"), "-key", filepath.Join(bundle, "key.pem"))
	}
	// Options such as -d must precede the address.
	for len(args) > 1 && strings.HasPrefix(args[0], "-") {
		flags, args = append(flags, args[:2]...), args[2:]
	}
	return process.Finish(g.T, exec.CommandContext(g.T.Context(), grpcurlPath(g.T), slices.Concat(flags, []string{g.address()}, args)...))
}

// TestGrpcurl finds the API by reflection, reads the approval that a call waits for, and
// approves it; the call then runs.
func TestGrpcurl(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	ask := func(args ...string) process.Result { return g.grpcurl(g.bundle(), true, args...) }
	services := ask("list")
	services.Want(t, 0)
	for _, name := range []string{"palyra.v1.GatewayService", "palyra.v1.ApprovalsService", "palyra.v1.JournalService", "grpc.health.v1.Health"} {
		if !slices.Contains(strings.Fields(services.Out), name) {
			t.Errorf("reflection does not list %s:\n%s", name, services.Out)
		}
	}
	methods := ask("describe", "palyra.v1.ApprovalsService")
	methods.Want(t, 0)
	if !strings.Contains(methods.Out, "rpc DecideApproval") {
		t.Errorf("reflection does not describe DecideApproval:\n%s", methods.Out)
	}

	call := g.local().begin("call", "fs.write", "path=b.txt", "content=new")
	waiting := call.asked()
	type one struct {
		ApprovalID string `json:"approvalId"`
		CallDigest string `json:"callDigest"`
		State      string `json:"state"`
		Votes      []struct{ Surface string }
	}
	listed := ask("-d", `{"states":["APPROVAL_STATE_PENDING"]}`, "palyra.v1.ApprovalsService/ListApprovals")
	listed.Want(t, 0)
	list := decode[struct{ Approvals []one }](t, listed.Out).Approvals
	if len(list) != 1 || list[0].ApprovalID != waiting.ID {
		t.Fatalf("ListApprovals = %s, want %s alone", listed.Out, waiting.ID)
	}
	got := ask("-d", `{"approval_id":"`+waiting.ID+`"}`, "palyra.v1.ApprovalsService/GetApproval")
	got.Want(t, 0)
	shown := decode[struct{ Approval one }](t, got.Out).Approval
	if shown.CallDigest != waiting.Digest || shown.State != "APPROVAL_STATE_PENDING" {
		t.Fatalf("GetApproval = %s", got.Out)
	}
	if text := g.Read("b.txt"); text != "" {
		t.Fatalf("the file was written before anybody decided: %q", text)
	}

	// A vote with another call's digest is refused.
	other := ask("-d", `{"approval_id":"`+waiting.ID+`","allow":true,"shown_digest":"sha256:`+strings.Repeat("0", 64)+`"}`, "palyra.v1.ApprovalsService/DecideApproval")
	if other.Code == 0 || !strings.Contains(other.Err, "DIGEST_MISMATCH") {
		t.Errorf("a vote with another digest: exit code %d, %s%s", other.Code, other.Out, other.Err)
	}
	decided := ask("-d", `{"approval_id":"`+waiting.ID+`","allow":true,"shown_digest":"`+shown.CallDigest+`"}`, "palyra.v1.ApprovalsService/DecideApproval")
	decided.Want(t, 0)
	after := decode[struct{ Approval one }](t, decided.Out).Approval
	if len(after.Votes) != 1 || after.Votes[0].Surface != "grpc" {
		t.Errorf("the vote is not one cast over grpc: %s", decided.Out)
	}
	call.wait().Want(t, 0)
	if text := g.Read("b.txt"); text != "new" {
		t.Errorf("the file holds %q after the call", text)
	}
}

// TestStrangersAreRefused connects without a certificate and with a certificate of another
// gateway, and finds the refusals in the journal.
func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	g, other := startGateway(t), newGateway(t)
	stranger := other.add("eve", "--role", "owner")
	for name, try := range map[string]func(args ...string) process.Result{
		"no certificate": func(args ...string) process.Result { return g.grpcurl("", false, args...) },
		"another gateway's": func(args ...string) process.Result {
			// grpcurl retries a refused handshake until its timeout.
			return g.grpcurl(stranger.credentials, true, append([]string{"-connect-timeout", "1"}, args...)...)
		},
		// Control: the same command with a certificate of this gateway.
		"": func(args ...string) process.Result { return g.grpcurl(g.bundle(), true, args...) },
	} {
		for _, args := range [][]string{
			{"list"},
			{"-d", "{}", "palyra.v1.ApprovalsService/ListApprovals"},
		} {
			if r := try(args...); (r.Code == 0) != (name == "") {
				t.Errorf("certificate %q, %v: exit code %d: %s%s", name, args, r.Code, r.Out, r.Err)
			}
		}
	}
	g.write(filepath.Join(g.Dir, "health.proto"), healthProto)
	health := g.grpcurl("", false, "-import-path", g.Dir, "-proto", "health.proto", "grpc.health.v1.Health/Check")
	health.Want(t, 0)
	if !strings.Contains(health.Out, "SERVING") {
		t.Errorf("the public health check says %s", health.Out)
	}
	// Refusals are counted, and journaled once a minute and at the stop.
	g.Stop()
	g.Start()
	refused := g.local().events("PAL-I104")
	if !slices.ContainsFunc(refused, func(e journaled) bool { return strings.Contains(string(e.Payload), `"UNAUTHENTICATED"`) }) {
		t.Errorf("the journal has no refusal of the callers: %s", refused)
	}
}

// healthProto defines the health service for grpcurl where reflection is not permitted.
const healthProto = `syntax = "proto3";
package grpc.health.v1;
message HealthCheckRequest { string service = 1; }
message HealthCheckResponse { enum ServingStatus { UNKNOWN = 0; SERVING = 1; NOT_SERVING = 2; } ServingStatus status = 1; }
service Health { rpc Check(HealthCheckRequest) returns (HealthCheckResponse); }
`
