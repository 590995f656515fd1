package canonical

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
)

// answer is a type like the ones into which answers are read.
type answer struct {
	Action string `json:"action"`
	embedded
	Inner struct {
		Name string `json:"name"`
	} `json:"inner"`
	List    []embedded          `json:"list"`
	ByName  map[string]embedded `json:"byName"`
	Content map[string]any      `json:"content"`
	Raw     json.RawMessage     `json:"raw"`
	Any     any                 `json:"any"`
	Untold  string
	Left    string  `json:"-"`
	Pointer *answer `json:"pointer"`
}

type embedded struct {
	Kind string `json:"kind"`
}

// TestRead: a second spelling of a known name is refused, although encoding/json accepts it.
// Documents without one are read as by encoding/json.
func TestRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		`{"action":"decline","ACTION":"accept"}`:                  ErrSpelling,
		`{"Action":"accept"}`:                                     ErrSpelling,
		`{"action":"decline","action":"accept"}`:                  ErrDuplicateKey,
		`{"action":"decline","\u0061ction":"accept"}`:             ErrDuplicateKey,
		`{"action":"decline","\u0041ction":"accept"}`:             ErrSpelling,
		`{"kind":"a","\u212aind":"b"}`:                            ErrSpelling, // the Kelvin sign
		`{"inner":{"name":"a","NAME":"b"}}`:                       ErrSpelling,
		`{"list":[{"kind":"a"},{"kind":"a","Kind":"b"}]}`:         ErrSpelling,
		`{"byName":{"x":{"kind":"a","KIND":"b"}}}`:                ErrSpelling,
		`{"byName":{"x":{"kind":"a"},"x":{"kind":"b"}}}`:          ErrDuplicateKey,
		`{"pointer":{"pointer":{"action":"a","actioN":"b"}}}`:     ErrSpelling,
		`{"Untold":"a","untold":"b"}`:                             ErrSpelling,
		`{"action":"a"`:                                           ErrSyntax,
		`{"action":"a","list":[{"kind":"a"}`:                      ErrSyntax,
		``:                                                        ErrSyntax,
		`{"action":"a","other":1,"OTHER":2,"left":3,"LEFT":4}`:    nil,
		`{"byName":{"x":{"kind":"a"},"X":{"kind":"b"}}}`:          nil,
		`{"content":{"action":"a","ACTION":"b"},"action":"c"}`:    nil,
		`{"raw":{"action":"a","ACTION":"b"},"any":{"a":1,"A":2}}`: nil,
		`{"action":"a","list":null,"inner":{},"pointer":null}`:    nil,
		"{\"action\":\"\xff \\ud800\"}":                           nil,
	} {
		var got, other answer
		err := Read([]byte(text), &got)
		loose := json.Unmarshal([]byte(text), &other)
		switch {
		case !errors.Is(err, want):
			t.Errorf("%s: %v, want %v", text, err, want)
		case want == nil && (err != nil || loose != nil || !reflect.DeepEqual(got, other)):
			t.Errorf("%s is read as %+v, %v, and as %+v, %v by encoding/json", text, got, err, other, loose)
		case want != nil && !errors.Is(want, ErrSyntax) && loose != nil:
			t.Errorf("the control: encoding/json refuses %s, too: %v", text, loose)
		}
	}
	var control answer
	if err := json.Unmarshal([]byte(`{"action":"decline","ACTION":"accept"}`), &control); err != nil || control.Action != "accept" {
		t.Errorf("the control: encoding/json reads %q, %v", control.Action, err)
	}
	if err := Read([]byte(`{"action":"a"} x`), &control); err == nil {
		t.Error("text after the value is read")
	}
}
