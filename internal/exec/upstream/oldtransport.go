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

// errOldTransport ends a stream of the transport of revision 2024-11-05, which tells the
// client with its first event where to send messages.
var errOldTransport = reason.Errorf(reason.UpstreamUnavailable, "it speaks HTTP+SSE, the transport of MCP revision 2024-11-05, which the gateway does not speak").
	WithRemedy("Add the server by the URL of its Streamable HTTP endpoint, which often ends in /mcp in place of /sse. If it has none, update the server.")

// probeTime bounds how long a server may take to answer the probe.
const probeTime = 5 * time.Second

// announcesEndpoint reports whether a line of a stream begins the event of the old transport.
func announcesEndpoint(line []byte) bool {
	value, is := bytes.CutPrefix(line, []byte("event:"))
	return is && string(bytes.TrimSpace(value)) == "endpoint"
}

// speaksOld reports whether a server that refused the first request speaks the old transport.
// The specification has clients ask for a stream then, and look at its first event.
func (in *instance) speaksOld(ctx context.Context, transport *mcp.StreamableClientTransport) bool {
	if in.oldTransport.Load() {
		return true
	}
	refused := []int32{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType, http.StatusNotImplemented}
	if !slices.Contains(refused, in.refusal.Load()) {
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
	// The way to the server (overheard) sees the event as it is read.
	for lines := bufio.NewScanner(io.LimitReader(response.Body, 4<<10)); !in.oldTransport.Load() && lines.Scan(); {
	}
	return in.oldTransport.Load()
}
