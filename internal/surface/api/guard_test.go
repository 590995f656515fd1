package api_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	healthv1 "palyra/gen/grpc/health/v1"
	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/limit"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/rpc"
	"palyra/internal/surface/api"
)

const statusProcedure = palyrav1connect.StatusServiceGetStatusProcedure

func TestEveryProtocolKnowsTheCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, opts := range protocols {
		res, err := w.bob.status(opts...).GetStatus(t.Context(), &palyrav1.GetStatusRequest{})
		if err != nil || res.GetCaller().GetPrincipal() != "user:bob" || res.GetCaller().GetDeviceId() != w.bob.device {
			t.Errorf("%s: %v, %v", name, res.GetCaller(), err)
		}
	}
}

func TestCallersWithoutACredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nobody := w.connect("", nil)
	key, csr := request(t)
	const unknown = "01JNA3Q0G0DEV1CE0000000099"
	issued := must.Get(w.authority.IssueDevice(csr, unknown))(t)
	strangers := map[string]*client{"no certificate": nobody, "an unknown device": w.connect(unknown, certificate(issued.Chain, key))}
	for name, c := range strangers {
		for protocol, opts := range protocols {
			_, err := c.status(opts...).GetStatus(t.Context(), &palyrav1.GetStatusRequest{})
			wantError(t, name+" over "+protocol, err, reason.Unauthenticated)
			_, err = c.call(reading(), opts...)
			wantError(t, name+" calls over "+protocol, err, reason.Unauthenticated)
		}
	}
	if w.read.Runs.Load() != 0 {
		t.Error("the tool ran")
	}
	if !w.audit.has(refusal{"127.0.0.1", statusProcedure, reason.Unauthenticated}) {
		t.Errorf("audited %v", w.audit.refused)
	}
}

func TestRolesAreAskedPerMethod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	decide := &palyrav1.DecideApprovalRequest{
		ApprovalId: "01JNA3PZH0APPR0VA100000000", ShownDigest: "sha256:" + strings.Repeat("0", 64), Allow: true,
	}
	for name, try := range map[string]struct {
		call    func(*client) error
		may     *client
		mayNot  []*client
		allowed reason.Code // for the client that may; "" means success
	}{
		"decide": {func(c *client) error { _, err := c.approvals().DecideApproval(ctx, decide); return err },
			w.bob, []*client{w.coder, w.dan, w.eve}, reason.NotFound},
		"export": {func(c *client) error {
			_, err := collect(c.journal().ExportJournal(ctx, &palyrav1.ExportJournalRequest{}))
			return err
		}, w.eve, []*client{w.coder, w.dan, w.bob}, ""},
		"freeze": {func(c *client) error {
			_, err := c.status().Freeze(ctx, &palyrav1.FreezeRequest{Reason: "x"})
			return err
		}, w.bob, []*client{w.coder, w.dan, w.eve}, ""},
		"reload": {func(c *client) error {
			_, err := c.policy().ReloadPolicy(ctx, &palyrav1.ReloadPolicyRequest{})
			return err
		},
			w.alice, []*client{w.coder, w.dan, w.eve, w.bob}, ""},
		"call": {func(c *client) error { _, err := c.call(reading()); return err },
			w.coder, []*client{w.eve}, ""},
	} {
		if err := try.call(try.may); (err == nil) != (try.allowed == "") {
			t.Errorf("%s by who may: %v", name, err)
		} else if err != nil {
			wantError(t, name+" by who may", err, try.allowed)
		}
		for _, c := range try.mayNot {
			wantError(t, name, try.call(c), reason.PermissionDenied)
		}
	}
	if !w.audit.has(refusal{"agent:coder", palyrav1connect.ApprovalsServiceDecideApprovalProcedure, reason.PermissionDenied}) {
		t.Errorf("audited %v", w.audit.refused)
	}
}

// collect reads a stream to its end.
func collect[T proto.Message](stream *rpc.ServerStream[T], err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var list []T
	for stream.Receive() {
		list = append(list, stream.Msg())
	}
	return list, stream.Err()
}

func TestUnknownProcedure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, procedure := range []string{"/palyra.v1.GatewayService/Nope", "/palyra.v1.NopeService/CallTool", "/grpc.health.v1.Health/Watch", "/"} {
		c := connect.NewClient[palyrav1.GetStatusRequest, palyrav1.GetStatusResponse](w.alice.http, w.url+procedure)
		_, err := c.CallUnary(t.Context(), connect.NewRequest(&palyrav1.GetStatusRequest{}))
		if code := connect.CodeOf(err); err == nil || code != connect.CodeUnimplemented && code != connect.CodeNotFound {
			t.Errorf("%s: %v", procedure, err)
		}
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.limits[api.LimitRead] = limit.Rates{
			Each: limit.Limit{PerSecond: 0.01, Burst: 3}, Global: limit.Limit{PerSecond: 100, Burst: 100},
		}
	})
	status := func(c *client, opts ...connect.ClientOption) error {
		_, err := c.status(opts...).GetStatus(t.Context(), &palyrav1.GetStatusRequest{})
		return err
	}
	for i := range 3 {
		if err := status(w.bob); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	for name, opts := range protocols {
		err := status(w.bob, opts...)
		wantError(t, name, err, reason.RateLimited)
		var e *connect.Error
		if !errors.As(err, &e) {
			continue
		}
		seconds, convErr := strconv.Atoi(e.Meta().Get("Retry-After"))
		if convErr != nil || seconds < 1 || seconds > 100 || e.Code() != connect.CodeResourceExhausted {
			t.Errorf("%s: code %s, Retry-After %q", name, e.Code(), e.Meta().Get("Retry-After"))
		}
		if d := retryDelay(e); d <= 0 || d > 100*time.Second {
			t.Errorf("%s: RetryInfo says %s", name, d)
		}
	}
	if !w.audit.has(refusal{"user:bob", statusProcedure, reason.RateLimited}) {
		t.Errorf("audited %v", w.audit.refused)
	}
	// Controls: another principal, and another class of the same principal.
	if err := status(w.dan); err != nil {
		t.Errorf("another principal: %v", err)
	}
	if _, err := w.bob.status().Freeze(t.Context(), &palyrav1.FreezeRequest{Reason: "x"}); err != nil {
		t.Errorf("another class: %v", err)
	}
	// Callers without a credential share the bucket of their address.
	for range 3 {
		wantError(t, "nobody", status(w.connect("", nil)), reason.Unauthenticated)
	}
	wantError(t, "nobody, too often", status(w.connect("", nil)), reason.RateLimited)
}

func retryDelay(e *connect.Error) time.Duration {
	for _, d := range e.Details() {
		if value, err := d.Value(); err == nil {
			if retry, ok := value.(*errdetails.RetryInfo); ok {
				return retry.GetRetryDelay().AsDuration()
			}
		}
	}
	return 0
}

func TestFieldRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	good := "sha256:" + strings.Repeat("0", 64)
	const id = "01JNA3PZH0APPR0VA100000000"
	for name, try := range map[string]func() error{
		"approval id": func() error {
			_, err := w.bob.approvals().DecideApproval(ctx, &palyrav1.DecideApprovalRequest{ApprovalId: "x", ShownDigest: good, Allow: true})
			return err
		},
		"digest": func() error {
			_, err := w.bob.approvals().DecideApproval(ctx, &palyrav1.DecideApprovalRequest{ApprovalId: id, ShownDigest: "x", Allow: true})
			return err
		},
		"scope": func() error {
			_, err := w.bob.approvals().DecideApproval(ctx, &palyrav1.DecideApprovalRequest{ApprovalId: id, ShownDigest: good, Allow: true, Scope: 77})
			return err
		},
		"surface": func() error {
			_, err := w.bob.approvals().DecideApproval(ctx, &palyrav1.DecideApprovalRequest{ApprovalId: id, ShownDigest: good, Allow: true, Surface: "console"})
			return err
		},
		"no tool": func() error { _, err := w.coder.call(&palyrav1.CallToolRequest{}); return err },
		"long tool": func() error {
			_, err := w.coder.call(&palyrav1.CallToolRequest{Tool: strings.Repeat("x", 193)})
			return err
		},
		"run": func() error {
			_, err := w.coder.call(&palyrav1.CallToolRequest{Tool: "fs.read", Run: "a b\n"})
			return err
		},
		"session": func() error {
			_, err := w.coder.call(&palyrav1.CallToolRequest{Tool: "fs.read", Session: "../x"})
			return err
		},
		"key": func() error {
			_, err := w.coder.call(&palyrav1.CallToolRequest{Tool: "fs.read", IdempotencyKey: "a b"})
			return err
		},
		"sources": func() error {
			_, err := w.alice.policy().ValidatePolicy(ctx, &palyrav1.ValidatePolicyRequest{})
			return err
		},
	} {
		wantError(t, name, try(), reason.InvalidInput)
	}
	if w.read.Runs.Load() != 0 || w.db.Head().Seq != w.admitted() {
		t.Errorf("the tool ran %d times, the journal has %d events", w.read.Runs.Load(), w.db.Head().Seq)
	}
}

// admitted returns the sequence number of the last event of package identity.
func (w *world) admitted() int64 {
	var last int64
	events := must.Get(w.journalEvents())(w.t)
	for _, e := range events {
		if strings.HasPrefix(e.GetCode(), "PAL-I") {
			last = e.GetSeq()
		}
	}
	return last
}

func (w *world) journalEvents() ([]*palyrav1.Event, error) {
	res, err := w.eve.journal().ListEvents(w.t.Context(), &palyrav1.ListEventsRequest{PageSize: 500})
	return res.GetEvents(), err
}

// Unknown JSON members of a message are refused, not dropped.
func TestUnknownJSONMemberIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for body, want := range map[string]int{`{}`: http.StatusOK, `{"nope":1}`: http.StatusBadRequest, `{"`: http.StatusBadRequest, ``: http.StatusBadRequest} {
		res := must.Get(w.alice.http.Post(w.url+statusProcedure, "application/json", strings.NewReader(body)))(t)
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%q: status %d: %s", body, res.StatusCode, text)
		}
	}
}

func TestMessagesOverTheLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	big := func(n int) *palyrav1.ValidatePolicyRequest {
		req := &palyrav1.ValidatePolicyRequest{}
		for left := n; left > 0; left -= 1 << 20 {
			req.Sources = append(req.Sources, &palyrav1.PolicySource{Name: "p", Text: strings.Repeat("x", min(left, 1<<20))})
		}
		return req
	}
	for name, opts := range protocols {
		_, err := w.alice.policy(opts...).ValidatePolicy(t.Context(), big(api.MaxMessage))
		wantError(t, name+", unary", err, reason.InputTooLarge)
		if code := connect.CodeOf(err); code != connect.CodeInvalidArgument {
			t.Errorf("%s: code %s", name, code)
		}
		_, err = w.coder.call(&palyrav1.CallToolRequest{Tool: "fs.read", InputJson: bytes.Repeat([]byte("x"), api.MaxMessage)}, opts...)
		wantError(t, name+", stream", err, reason.InputTooLarge)
		if _, err = w.alice.policy(opts...).ValidatePolicy(t.Context(), big(api.MaxMessage-1024)); err != nil {
			t.Errorf("%s: the control under the limit: %v", name, err)
		}
	}
	// The limit applies to the decompressed size.
	_, err := w.alice.policy(connect.WithSendGzip()).ValidatePolicy(t.Context(), big(api.MaxMessage))
	if connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("compressed: %v", err)
	}
	if w.read.Runs.Load() != 0 {
		t.Error("the tool ran")
	}
}

// The limit applies to each message of a stream separately.
func TestFramesAreMeasuredOneByOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := connect.NewClient[palyrav1.ListToolsRequest, palyrav1.CallToolResponse](
		w.alice.http, w.url+palyrav1connect.GatewayServiceCallToolProcedure, connect.WithGRPC())
	stream := c.CallBidiStream(t.Context())
	for range 3 {
		if err := stream.Send(&palyrav1.ListToolsRequest{}); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	_ = stream.CloseRequest()
	_, err := stream.Receive()
	wantError(t, "an empty call", err, reason.InvalidInput)
	_ = stream.CloseResponse()
}

func TestHealthIsPublicAndMinimal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	check := func() (healthv1.HealthCheckResponse_ServingStatus, error) {
		c := connect.NewClient[healthv1.HealthCheckRequest, healthv1.HealthCheckResponse](
			w.connect("", nil).http, w.url+"/grpc.health.v1.Health/Check", connect.WithGRPC())
		res, err := c.CallUnary(t.Context(), connect.NewRequest(&healthv1.HealthCheckRequest{}))
		if err != nil {
			return 0, err
		}
		return res.Msg.GetStatus(), nil
	}
	if s, err := check(); err != nil || s != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("ready: %v, %v", s, err)
	}
	w.gateway.set("the journal cannot be written")
	if s, err := check(); err != nil || s != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("not ready: %v, %v", s, err)
	}
}

func TestReflectionNeedsACredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list := func(c *client) (int, error) {
		stream := grpcreflect.NewClient(c.http, w.url, connect.WithGRPC()).NewStream(t.Context())
		defer stream.Close()
		names, err := stream.ListServices()
		return len(names), err
	}
	if n, err := list(w.bob); err != nil || n != len(api.Services) {
		t.Errorf("%d services, %v", n, err)
	}
	if _, err := list(w.connect("", nil)); err == nil {
		t.Error("reflection answered nobody")
	}
}

// Reflection returns a file with all its imports, each once, and an error for an unknown file.
func TestReflectionDescribesTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stream := grpcreflect.NewClient(w.bob.http, w.url, connect.WithGRPC()).NewStream(t.Context())
	defer stream.Close()
	read := func(files []*descriptorpb.FileDescriptorProto, err error) []string {
		must.Check(t, err)
		var paths []string
		for _, f := range files {
			paths = append(paths, f.GetName())
		}
		return paths
	}
	first := read(stream.FileContainingSymbol("palyra.v1.StatusService"))
	for _, path := range []string{"palyra/v1/status.proto", "buf/validate/validate.proto", "google/protobuf/descriptor.proto"} {
		if !slices.Contains(first, path) {
			t.Errorf("%s is not among %v", path, first)
		}
	}
	if again := read(stream.FileByFilename("palyra/v1/status.proto")); !slices.Equal(again, first[:1]) {
		t.Errorf("the second time: %v", again)
	}
	const fieldOptions = "google.protobuf.FieldOptions"
	numbers, err := stream.AllExtensionNumbers(fieldOptions)
	if err != nil || len(numbers) == 0 {
		t.Fatalf("%v, %v", numbers, err)
	}
	if rules := read(stream.FileContainingExtension(fieldOptions, numbers[0])); !slices.Equal(rules, []string{"buf/validate/validate.proto"}) {
		t.Errorf("the rules are in %v", rules)
	}
	if none, err := stream.AllExtensionNumbers("palyra.v1.FreezeRequest"); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
	if _, err := stream.FileContainingSymbol("palyra.v1.NoService"); err == nil || grpcreflect.IsReflectionStreamBroken(err) {
		t.Error("a service that is not there:", err)
	}
}

func TestExportsAreAuditedOrRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	export := func() error {
		_, err := collect(w.eve.journal().ExportJournal(t.Context(), &palyrav1.ExportJournalRequest{}))
		return err
	}
	must.Do(t, export())
	if want := "user:eve " + palyrav1connect.JournalServiceExportJournalProcedure; len(w.audit.exported) != 1 || w.audit.exported[0] != want {
		t.Errorf("audited %v", w.audit.exported)
	}
	w.audit.err = reason.Errorf(reason.JournalUnavailable, "no journal")
	wantError(t, "an export that cannot be recorded", export(), reason.JournalUnavailable)
}

func TestInternalErrorsAreLoggedAndNotShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, opts := range protocols {
		_, err := w.alice.policy(opts...).GetSnapshot(t.Context(), &palyrav1.GetSnapshotRequest{SnapshotDigest: "sha256:" + strings.Repeat("0", 64)})
		wantError(t, name, err, reason.Internal)
		if strings.Contains(err.Error(), "/var/lib") {
			t.Errorf("%s: the client sees %v", name, err)
		}
	}
	if !strings.Contains(w.log.String(), errPrivate.Error()) {
		t.Errorf("the log lacks the cause: %s", w.log.String())
	}
}

// TestUnauthenticatedLimitIsSeparate: unauthenticated clients, regardless of their number, do
// not consume the limits of members, because they share a separate bucket.
func TestUnauthenticatedLimitIsSeparate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.limits[api.LimitRead] = limit.Rates{
			Each: limit.Limit{PerSecond: 0.01, Burst: 3}, Global: limit.Limit{PerSecond: 0.01, Burst: 3},
		}
	})
	status := func(c *client) error {
		_, err := c.status().GetStatus(t.Context(), &palyrav1.GetStatusRequest{})
		return err
	}
	for range 3 {
		wantError(t, "nobody", status(w.connect("", nil)), reason.Unauthenticated)
	}
	wantError(t, "nobody, too often", status(w.connect("", nil)), reason.RateLimited)
	for range 3 {
		must.Do(t, status(w.bob))
	}
	wantError(t, "another member", status(w.dan), reason.RateLimited) // control: one shared bucket
}
