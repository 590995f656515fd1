package mcp

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
)

// refusedCode is the code of refused calls, in methods whose results have no error.
const refusedCode = -32000

// errorOf returns a refusal for methods whose results have no error.
func errorOf(r *result) error {
	var words []string
	for _, one := range r.Content {
		if t, is := one.(textContent); is {
			words = append(words, t.Text)
		}
	}
	data, err := json.Marshal(r.Meta)
	if err != nil {
		return err
	}
	return &jsonrpc.Error{Code: refusedCode, Message: strings.Join(words, "\n"), Data: data}
}

// notFoundCode means in the older revisions that the resource does not exist.
const notFoundCode = -32002

// relayed are the reserved codes of server errors that clients receive unchanged. The other
// codes that the protocol reserves concern the connection between the gateway and the server.
var relayed = []int64{jsonrpc.CodeInvalidParams, jsonrpc.CodeInternalError, notFoundCode, mcp.CodeMissingRequiredClientCapabilities}

// faultIn returns the error that a server returned for a call, or nil if clients do not receive
// it. uri is the client's URI of the resource, "" for none.
func faultIn(report tool.Report, uri string) error {
	var decoded struct {
		Error struct {
			RPC *struct {
				Code    int64           `json:"code"`
				Message string          `json:"message"`
				Data    json.RawMessage `json:"data"`
			} `json:"rpc"`
		} `json:"error"`
	}
	if report.Executor.Name != tool.MCPUpstream || report.Outcome == tool.Succeeded || canonical.Read(report.Result, &decoded) != nil || decoded.Error.RPC == nil {
		return nil //nolint:nilerr // not an error of a server
	}
	e := decoded.Error.RPC
	if e.Code >= -32768 && e.Code <= -32000 && !slices.Contains(relayed, e.Code) {
		return nil
	}
	var data map[string]any
	if uri != "" && json.Unmarshal(e.Data, &data) == nil && data["uri"] != nil {
		data["uri"] = uri
		if text, err := json.Marshal(data); err == nil {
			e.Data = text
		}
	}
	return &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}
}
