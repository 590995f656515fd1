package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// terminal is a transport whose requests name the command line as their surface.
type terminal struct{ http.RoundTripper }

func (c terminal) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(access.SurfaceHeader, string(access.SurfaceCLI))
	return c.RoundTripper.RoundTrip(r)
}

// echo calls echo with a text of that many bytes.
func echo(ctx context.Context, d *running, client *http.Client, bytes int) error {
	text, err := json.Marshal(map[string]string{"text": strings.Repeat("x", bytes)})
	if err != nil {
		return err
	}
	stream, err := palyrav1connect.NewGatewayServiceClient(client, d.url()).CallTool(ctx, &palyrav1.CallToolRequest{Tool: "echo", InputJson: text})
	if err != nil {
		return err
	}
	for stream.Receive() {
	}
	return errors.Join(stream.Err(), stream.Close())
}

// infoOf returns the ErrorInfo of an error of the API.
func infoOf(err error) *errdetails.ErrorInfo {
	var failed *connect.Error
	if !errors.As(err, &failed) {
		return nil
	}
	for _, detail := range failed.Details() {
		if value, err := detail.Value(); err == nil {
			if info, ok := value.(*errdetails.ErrorInfo); ok {
				return info
			}
		}
	}
	return nil
}

// floodUntilRefused calls with 512 KiB of input until a refusal, and returns the number of
// calls before it and the error.
func floodUntilRefused(t *testing.T, d *running) (int, *errdetails.ErrorInfo) {
	t.Helper()
	for n := range 40 {
		if err := echo(t.Context(), d, d.client(), 512<<10); err != nil {
			return n, infoOf(err)
		}
	}
	return 40, nil
}

// TestFloodEndsAtTheQuota: on a disk with free space, a flooding client is refused and stores
// nothing more. The same member can continue at a terminal, and a restart does not reset the
// quota.
func TestFloodEndsAtTheQuota(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Quotas.DayBytes = 6 << 20
	d := start(t, cfg)
	n, info := floodUntilRefused(t, d)
	if n == 0 || n == 40 || reason.Code(info.GetReason()) != reason.QuotaExceeded || info.GetMetadata()["retry_after"] == "" || !strings.Contains(info.GetMetadata()["remedy"], "quotas.day_bytes") {
		t.Fatalf("after %d calls: %v", n, info)
	}
	size := func() int64 {
		s := must.Get(palyrav1connect.NewStatusServiceClient(d.client(), d.url()).GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t)
		return s.GetJournalSize()
	}
	before := size()
	for range 20 {
		if err := echo(t.Context(), d, d.client(), 512<<10); reason.Code(infoOf(err).GetReason()) != reason.QuotaExceeded {
			t.Fatal(err)
		}
	}
	if after := size(); after != before {
		t.Errorf("refused calls left %d events", after-before)
	}
	operator := d.client()
	operator.Transport = terminal{operator.Transport}
	if err := echo(t.Context(), d, operator, 512<<10); err != nil {
		t.Errorf("the operator at a terminal: %v", err)
	}
	d.end()

	d = start(t, cfg)
	if err := echo(t.Context(), d, d.client(), 512<<10); reason.Code(infoOf(err).GetReason()) != reason.QuotaExceeded {
		t.Errorf("after a restart: %v", err)
	}
	stream := must.Get(palyrav1connect.NewJournalServiceClient(d.client(), d.url()).ListEvents(t.Context(), &palyrav1.ListEventsRequest{PageSize: 1000}))(t)
	coalesced := 0
	for _, e := range stream.GetEvents() {
		if strings.Contains(string(e.GetPayloadJson()), string(reason.QuotaExceeded)) {
			coalesced++
		}
	}
	if coalesced != 1 {
		t.Errorf("the refusals are %d events, want 1", coalesced)
	}
	d.end()
}

// TestFloodWithoutAQuotaControl is the control: with the default quotas the same flood is
// accepted.
func TestFloodWithoutAQuotaControl(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	if cfg.Quotas != config.Default().Quotas {
		t.Fatal("the test changes the defaults")
	}
	d := start(t, cfg)
	if n, info := floodUntilRefused(t, d); n != 40 {
		t.Errorf("refused after %d calls: %v", n, info)
	}
	d.end()
}
