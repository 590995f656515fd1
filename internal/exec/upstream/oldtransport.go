package upstream

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/reason"
)

// errOldTransport ends a stream of the transport of revision 2024-11-05. The first event of such
// a stream names the URL for the client's messages.
var errOldTransport = reason.Errorf(reason.UpstreamUnavailable, "the server uses HTTP+SSE, the transport of MCP revision 2024-11-05, which the gateway does not support").
	WithRemedy("Add the server by the URL of its Streamable HTTP endpoint, which often ends in /mcp in place of /sse. If it has none, update the server.")

// probeTime is the timeout of the probe.
const probeTime = 5 * time.Second

// announcesEndpoint reports whether a line of a stream begins the first event of the old
// transport.
func announcesEndpoint(line []byte) bool {
	value, is := bytes.CutPrefix(line, []byte("event:"))
	return is && string(bytes.TrimSpace(value)) == "endpoint"
}

// speaksOld reports whether a server that refused the first request uses the old transport. As
// the specification requires, it opens a stream and reads the first event.
func (r *remote) speaksOld(ctx context.Context, transport *mcp.StreamableClientTransport) bool {
	if r.oldTransport.Load() {
		return true
	}
	refused := []int32{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType, http.StatusNotImplemented}
	if !slices.Contains(refused, r.refusal.Load()) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, transport.Endpoint, nil)
	if err != nil {
		return false
	}
	request.Header.Set("Accept", "text/event-stream")
	response, err := transport.HTTPClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	// The transport (inspectedStream) detects the event while the response is read.
	for lines := bufio.NewScanner(io.LimitReader(response.Body, 4<<10)); !r.oldTransport.Load() && lines.Scan(); {
	}
	return r.oldTransport.Load()
}
