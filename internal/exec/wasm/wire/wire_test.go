package wire

import (
	"bytes"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// writes counts its writes.
type writes struct {
	bytes.Buffer
	n int
}

func (w *writes) Write(p []byte) (int, error) {
	w.n++
	return w.Buffer.Write(p)
}

// TestFrames: a frame is received like it was sent. A small frame is one write; a large body is
// not copied for this.
func TestFrames(t *testing.T) {
	t.Parallel()
	small, large := []byte("small"), bytes.Repeat([]byte("large"), together)
	for name, c := range map[string]struct {
		body   [][]byte
		writes int
	}{
		"no body":         {nil, 1},
		"small pieces":    {[][]byte{small, nil, small}, 1},
		"a large piece":   {[][]byte{large}, 2},
		"small and large": {[][]byte{small, large}, 3},
	} {
		var to writes
		must.Do(t, Write(&to, Done, End{Outcome: Finished, Fuel: 7}, c.body...))
		if to.n != c.writes {
			t.Errorf("%s: %d writes, want %d", name, to.n, c.writes)
		}
		body := bytes.Join(c.body, nil)
		if len(body) > 0 {
			if _, err := Read(bytes.NewReader(to.Bytes()), len(body)-1); err == nil || !strings.Contains(err.Error(), "exceeds") {
				t.Errorf("%s: a body larger than what is taken: %v", name, err)
			}
		}
		f := must.Get(Read(&to, len(body)))(t)
		if end := must.Get(As[End](f, Done))(t); end.Fuel != 7 || !bytes.Equal(f.Body, body) || to.Len() > 0 {
			t.Errorf("%s: %+v, %d bytes, %d left", name, end, len(f.Body), to.Len())
		}
	}
}

// TestHeads: a frame header that does not match its kind is refused.
func TestHeads(t *testing.T) {
	t.Parallel()
	for head, good := range map[string]bool{
		`{"outcome":"trap","problem":"a` + "\xff" + `b","fuel":1}`: true,
		`{"outcome":"trap","more":1}`:                              true,
		`{"fuel":1,"fuel":2}`:                                      false,
		`{"fuel":-1}`:                                              false,
		`{"fuel":1}{}`:                                             false,
		`[]`:                                                       false,
	} {
		if _, err := As[End](Frame{Kind: Done, Head: []byte(head)}, Done); (err == nil) != good {
			t.Errorf("%s: %v", head, err)
		}
	}
	if _, err := As[End](Frame{Kind: Failed, Head: []byte("{}")}, Done); err == nil {
		t.Error("a frame of another kind was taken")
	}
}
