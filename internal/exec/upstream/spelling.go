package upstream

import (
	"bytes"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// messageKeys are the keys of a server message that the gateway reads: of its results, requests
// and notifications. The type is used only for its keys; no message is decoded into it.
type messageKeys struct {
	Version any        `json:"jsonrpc"`
	ID      any        `json:"id"`
	Method  any        `json:"method"`
	Params  paramKeys  `json:"params"`
	Result  resultKeys `json:"result"`
	Error   struct {
		Code    any `json:"code"`
		Message any `json:"message"`
		Data    any `json:"data"`
	} `json:"error"`
}

// paramKeys are the keys of elicitation/create, sampling/createMessage and notifications.
type paramKeys struct {
	Meta          map[string]any           `json:"_meta"`
	Message       any                      `json:"message"`
	Mode          any                      `json:"mode"`
	URL           any                      `json:"url"`
	ElicitationID any                      `json:"elicitationId"`
	Schema        any                      `json:"requestedSchema"`
	Messages      []*mcp.SamplingMessageV2 `json:"messages"`
	System        any                      `json:"systemPrompt"`
	MaxTokens     any                      `json:"maxTokens"`
	Temperature   any                      `json:"temperature"`
	Stop          any                      `json:"stopSequences"`
	Include       any                      `json:"includeContext"`
	Preferences   *mcp.ModelPreferences    `json:"modelPreferences"`
	Tools         []*mcp.Tool              `json:"tools"`
	ToolChoice    *mcp.ToolChoice          `json:"toolChoice"`
	ProgressToken any                      `json:"progressToken"`
	Progress      any                      `json:"progress"`
	Total         any                      `json:"total"`
	Level         any                      `json:"level"`
	Logger        any                      `json:"logger"`
	Data          any                      `json:"data"`
	URI           any                      `json:"uri"`
	RequestID     any                      `json:"requestId"`
}

type resultKeys struct {
	Meta         map[string]any               `json:"_meta"`
	Type         any                          `json:"resultType"`
	Content      []contentKeys                `json:"content"`
	Structured   any                          `json:"structuredContent"`
	IsError      any                          `json:"isError"`
	Requests     map[string]requestKeys       `json:"inputRequests"`
	State        any                          `json:"requestState"`
	Tools        []*mcp.Tool                  `json:"tools"`
	Prompts      []*mcp.Prompt                `json:"prompts"`
	Resources    []*mcp.Resource              `json:"resources"`
	Templates    []*mcp.ResourceTemplate      `json:"resourceTemplates"`
	Contents     []*mcp.ResourceContents      `json:"contents"`
	Messages     []*mcp.PromptMessage         `json:"messages"`
	Completion   *mcp.CompletionResultDetails `json:"completion"`
	NextCursor   any                          `json:"nextCursor"`
	Revision     any                          `json:"protocolVersion"`
	Revisions    any                          `json:"supportedVersions"`
	Server       *mcp.Implementation          `json:"serverInfo"`
	Capabilities *mcp.ServerCapabilities      `json:"capabilities"`
	Instructions any                          `json:"instructions"`
}

type requestKeys struct {
	Method any       `json:"method"`
	Params paramKeys `json:"params"`
}

type contentKeys struct {
	Type     any                   `json:"type"`
	Text     any                   `json:"text"`
	Data     any                   `json:"data"`
	MIMEType any                   `json:"mimeType"`
	URI      any                   `json:"uri"`
	Name     any                   `json:"name"`
	Resource *mcp.ResourceContents `json:"resource"`
}

// exactly returns an error for a message that has a key twice or in a second spelling. The
// library reads exact names and drops other spellings, while a person may read the dropped
// value. The library detects all other errors.
func exactly(message []byte) error {
	err := canonical.Names(message, messageKeys{})
	if errors.Is(err, canonical.ErrSpelling) || errors.Is(err, canonical.ErrDuplicateKey) {
		return reason.Errorf(reason.ToolFailed, "the upstream server sent an ambiguous message: %w", err).
			WithRemedy("Report it to the author of the server.")
	}
	return nil
}

// wholeMessage validates the body of a response that is one message and returns it.
func wholeMessage(body io.ReadCloser) (io.ReadCloser, error) {
	text, err := io.ReadAll(io.LimitReader(body, mostMessage+1))
	if err == nil && len(text) <= mostMessage {
		err = exactly(text)
		text = wrapContent(text)
	}
	if err != nil {
		return nil, errors.Join(err, body.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), body), body}, nil
}
