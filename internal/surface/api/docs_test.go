package api_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/surface/api"
)

// documented is the section of a method in docs/reference/methods.md.
type documented struct{ text, tool, body string }

var (
	sectionHead = regexp.MustCompile(`(?m)^### (\w+/\w+)\n`)
	example     = regexp.MustCompile("(?m)^```\n(api|stream) (\\w+/\\w+) '([^']*)'\n```$")
)

// readDocs returns the sections of a text by Service/Method.
func readDocs(text string) map[string]documented {
	sections := map[string]documented{}
	heads := sectionHead.FindAllStringSubmatchIndex(text, -1)
	for i, h := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		d := documented{text: text[h[1]:end]}
		name := text[h[2]:h[3]]
		if m := example.FindStringSubmatch(d.text); m != nil && m[2] == name {
			d.tool, d.body = m[1], m[3]
		}
		sections[name] = d
	}
	return sections
}

// undocumented returns the faults of the documentation.
func undocumented(sections map[string]documented) (missing []string) {
	for procedure, method := range procedures() {
		name := strings.TrimPrefix(procedure, "/palyra.v1.")
		row, _ := api.Lookup(procedure)
		line := fmt.Sprintf("Permission `%s`, limit class `%s`", row.Permission, row.Limit)
		if row.Needs == api.NeedsNothing {
			line = fmt.Sprintf("No credential and no permission, limit class `%s`", row.Limit)
		}
		want := "api"
		if method.IsStreamingServer() {
			want = "stream"
		}
		switch d, ok := sections[name]; {
		case !ok:
			missing = append(missing, name+" has no section")
		case d.body == "":
			missing = append(missing, name+" has no example")
		case !strings.Contains(d.text, line):
			missing = append(missing, name+" does not say: "+line)
		case d.tool != want:
			missing = append(missing, name+" has an example with "+d.tool)
		}
	}
	return missing
}

func apiDocs(t *testing.T) string {
	t.Helper()
	text := must.Get(os.ReadFile("../../../docs/reference/methods.md"))(t)
	return string(text)
}

// TestEveryMethodIsDocumented: docs/reference/methods.md has a section for every method, with
// its permission and an example, and no section for an unknown method.
func TestEveryMethodIsDocumented(t *testing.T) {
	t.Parallel()
	text := apiDocs(t)
	sections := readDocs(text)
	for _, what := range undocumented(sections) {
		t.Error(what)
	}
	for name := range sections {
		if procedures()["/palyra.v1."+name] == nil {
			t.Errorf("%s is no method", name)
		}
	}
	// Control: each removed part is reported.
	for _, change := range [][2]string{
		{"### GatewayService/ListTools\n", "### Other\n"}, {"api GatewayService/ListTools '{}'", ""},
		{"Permission `tool.list`", "Permission `tool.call`"}, {"api GatewayService/ListTools", "stream GatewayService/ListTools"},
	} {
		if got := undocumented(readDocs(strings.Replace(text, change[0], change[1], 1))); len(got) != 1 {
			t.Errorf("without %q: %v", change[0], got)
		}
	}
}

// Every example is valid JSON of its request, without unknown members, and satisfies the field
// rules.
func TestExamplesAreRequests(t *testing.T) {
	t.Parallel()
	validator := must.Get(protovalidate.New())(t)
	for name, d := range readDocs(apiDocs(t)) {
		m := newRequest(t, procedures()["/palyra.v1."+name])
		if err := protojson.Unmarshal([]byte(d.body), m); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if err := validator.Validate(m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func newRequest(t *testing.T, method protoreflect.MethodDescriptor) protoreflect.ProtoMessage {
	t.Helper()
	kind := must.Get(protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName()))(t)
	return kind.New().Interface()
}

// refusesAlice has the reason for which a method refuses its example from alice.
var refusesAlice = map[string]string{
	"KeyService/RotateKey":             "alice is not on the gateway's host",
	"IdentityService/AddDevice":        "alice is not on the gateway's host",
	"PresenceService/ResetPresenceKey": "alice is not on the gateway's host",
	"PresenceService/ConfirmMembers":   "alice is not on the gateway's host",
	"AccessService/ConfirmMember":      "bea is in the hands that alice is in",
}

// TestExamplesAreAccepted: every documented example is a valid request to its method. The id of an
// example may be unknown.
func TestExamplesAreAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, d := range readDocs(apiDocs(t)) {
		send := w.alice.sendUnary
		if d.tool == "stream" {
			send = w.alice.sendStream
		}
		switch code := send(t, name, d.body); {
		case code == reason.PermissionDenied && refusesAlice[name] != "":
		case code == reason.InvalidInput && name == "VaultService/UnlockVault": // the vault's key has no passphrase
		case slices.Contains([]reason.Code{reason.InvalidInput, reason.PermissionDenied, reason.Unauthenticated}, code):
			t.Errorf("%s: %s", name, code)
		}
		// Control: an example with an unknown member is refused.
		wrong := strings.Replace(d.body, "{", `{"no_such_member":1,`, 1)
		wrong = strings.Replace(wrong, ",}", "}", 1)
		if code := send(t, name, wrong); code != reason.InvalidInput {
			t.Errorf("%s with an unknown member: %q", name, code)
		}
	}
}

// answerError is an error in the Connect protocol.
type answerError struct {
	Details []struct {
		Debug struct {
			Reason reason.Code `json:"reason"`
		} `json:"debug"`
	} `json:"details"`
}

func (e *answerError) code() reason.Code {
	if e == nil {
		return ""
	}
	if len(e.Details) == 0 {
		return "an error without ErrorInfo"
	}
	return e.Details[0].Debug.Reason
}

func (c *client) post(ctx context.Context, t *testing.T, name, kind string, body []byte) *http.Response {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, c.w.url+"/palyra.v1."+name, bytes.NewReader(body)))(t)
	req.Header.Set("Content-Type", kind)
	return must.Get(c.http.Do(req))(t)
}

// sendUnary sends a unary request and returns the reason of the error, or "".
func (c *client) sendUnary(t *testing.T, name, body string) reason.Code {
	t.Helper()
	res := c.post(t.Context(), t, name, "application/json", []byte(body))
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		return ""
	}
	var e answerError
	if err := json.NewDecoder(res.Body).Decode(&e); err != nil {
		t.Errorf("%s: %s: %v", name, res.Status, err)
	}
	return e.code()
}

// sendStream sends a streaming request, reads the first message of the response, and
// disconnects. A refused request has its error in the first message.
func (c *client) sendStream(t *testing.T, name, body string) reason.Code {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	framed := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
	res := c.post(ctx, t, name, "application/connect+json", framed)
	defer res.Body.Close()
	head := make([]byte, 5)
	if _, err := io.ReadFull(res.Body, head); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	message := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(res.Body, message); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	const last = 2
	if head[0]&last == 0 {
		return ""
	}
	var end struct {
		Error *answerError `json:"error"`
	}
	if err := json.Unmarshal(message, &end); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return end.Error.code()
}
