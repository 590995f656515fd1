package hook_test

import (
	"encoding/json"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/surface/hook/client"
)

// TestGenericSchema: the gateway accepts exactly the messages that the schema permits, and its
// answers conform to the schema.
func TestGenericSchema(t *testing.T) {
	t.Parallel()
	schema := must.Get(tool.CompileSchema(oneOf(t, "message")))(t)
	answers := must.Get(tool.CompileSchema(oneOf(t, "answer")))(t)
	w := newWorld(t, "")
	for body, want := range map[string]struct {
		fits     bool
		decision string
	}{
		`{"event":"before","session":"s","call":"c1","tool":"read","input":{"path":"a"},"cwd":"` + w.ws + `"}`: {true, "allow"},
		`{"event":"after","session":"s","call":"c1","tool":"read","input":{"path":"a"},"result":"x"}`:          {true, "none"},
		`{"event":"session_end","session":"s"}`:                                                                {true, "none"},
		`{"event":"before","session":"s","tool":"read","input":{"path":"a"}}`:                                  {false, ""},
		`{"event":"before","call":"c2","tool":"read","input":{"path":"a"}}`:                                    {false, ""},
		`{"event":"later","session":"s"}`:                                                                      {false, ""},
	} {
		_, err := schema.Check([]byte(body))
		if (err == nil) != want.fits {
			t.Errorf("%s: the schema says %v", body, err)
		}
	}
	for _, body := range []string{
		`{"event":"before","session":"s","call":"c1","tool":"read","input":{"path":"a"},"cwd":"` + w.ws + `"}`,
		`{"event":"after","session":"s","call":"c1","tool":"read","input":{"path":"a"},"result":"x"}`,
		`{"event":"session_end","session":"s"}`,
	} {
		a := w.send(t.Context(), "generic", body)
		if _, err := answers.Check([]byte(a.body)); a.status != 200 || err != nil {
			t.Errorf("%s: %+v, %v", body, a, err)
		}
	}
	for _, body := range []string{`{"event":"before","session":"s","tool":"read","input":{"path":"a"}}`, `{"event":"later","session":"s"}`, `{"event":"before","call":"c2","tool":"read"}`} {
		if a := w.send(t.Context(), "generic", body); a.status == 200 {
			t.Errorf("%s: %+v", body, a)
		}
	}
}

// oneOf returns a definition of the schema as its own schema.
func oneOf(t *testing.T, name string) json.RawMessage {
	t.Helper()
	var whole map[string]any
	must.Do(t, json.Unmarshal([]byte(client.Schema), &whole))
	defs := whole["$defs"].(map[string]any)
	one := defs[name].(map[string]any)
	one["$defs"] = map[string]any{"name": defs["name"]}
	return must.Get(json.Marshal(one))(t)
}
