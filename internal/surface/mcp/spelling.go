package mcp

import (
	"bytes"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// messageKeys are the keys that the gateway reads from a client's message: from every request,
// and from the answers to requests of upstream servers.
type messageKeys struct {
	Version any        `json:"jsonrpc"`
	ID      any        `json:"id"`
	Method  any        `json:"method"`
	Params  paramKeys  `json:"params"`
	Result  answerKeys `json:"result"`
	Error   any        `json:"error"`
}

type paramKeys struct {
	Meta         metaKeys                   `json:"_meta"`
	Name         any                        `json:"name"`
	Arguments    any                        `json:"arguments"`
	URI          any                        `json:"uri"`
	Cursor       any                        `json:"cursor"`
	Level        any                        `json:"level"`
	RequestID    any                        `json:"requestId"`
	TaskID       any                        `json:"taskId"`
	Ref          mcp.CompleteReference      `json:"ref"`
	Argument     mcp.CompleteParamsArgument `json:"argument"`
	Context      mcp.CompleteContext        `json:"context"`
	Responses    map[string]answerKeys      `json:"inputResponses"`
	State        any                        `json:"requestState"`
	Revision     any                        `json:"protocolVersion"`
	Capabilities mcp.ClientCapabilities     `json:"capabilities"`
	Client       mcp.Implementation         `json:"clientInfo"`
}

// metaKeys are the keys in callIDs, reasonKey, and the keys of the protocol.
type metaKeys struct {
	Token        any                    `json:"progressToken"`
	ToolUseID    any                    `json:"claudecode/toolUseId"`
	CallID       any                    `json:"callId"`
	Reason       any                    `json:"palyra.dev/requester-reason"`
	Revision     any                    `json:"io.modelcontextprotocol/protocolVersion"`
	Client       mcp.Implementation     `json:"io.modelcontextprotocol/clientInfo"`
	Capabilities mcp.ClientCapabilities `json:"io.modelcontextprotocol/clientCapabilities"`
	LogLevel     any                    `json:"io.modelcontextprotocol/logLevel"`
}

// answerKeys are the keys of mcp.ElicitResult, mcp.CreateMessageWithToolsResult and
// mcp.ListRootsResult.
type answerKeys struct {
	Action  any `json:"action"`
	Content any `json:"content"`
	Model   any `json:"model"`
	Role    any `json:"role"`
	Stop    any `json:"stopReason"`
	Roots   any `json:"roots"`
}

// exactly reads a message, and refuses a known key that is duplicated or in another spelling.
// The library reads exact names and ignores others, while the client, or an inspector of its
// traffic, may read the other spelling. The library reports all other errors.
func exactly(body io.Reader) (io.Reader, error) {
	text, err := io.ReadAll(io.LimitReader(body, mostBody+1))
	if err == nil && len(text) <= mostBody {
		if err := canonical.Names(text, messageKeys{}); errors.Is(err, canonical.ErrSpelling) || errors.Is(err, canonical.ErrDuplicateKey) {
			return nil, reason.Errorf(reason.InvalidInput, "the message is ambiguous: %w", err).
				WithRemedy("Send each key once, in the spelling of the specification.")
		}
	}
	return io.MultiReader(bytes.NewReader(text), body), nil
}
