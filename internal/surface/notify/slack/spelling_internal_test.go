package slack

import (
	"encoding/json"
	"net/http"
	"testing"
)

// TestAnswersAreReadExactly: a response of Slack with a second spelling of a member name is
// refused. Controls: the first response is accepted, and encoding/json accepts the other spelling,
// which makes a guest a full member.
func TestAnswersAreReadExactly(t *testing.T) {
	t.Parallel()
	type user struct {
		User struct {
			Restricted bool `json:"is_restricted"`
		} `json:"user"`
	}
	ok := &http.Response{StatusCode: http.StatusOK}
	var got user
	if err := read("users.info", ok, []byte(`{"ok":true,"user":{"is_restricted":true,"other":1,"OTHER":2}}`), &got); err != nil || !got.User.Restricted {
		t.Fatalf("the control: %+v, %v", got, err)
	}
	for _, answer := range []string{
		`{"ok":true,"user":{"is_restricted":true,"IS_RESTRICTED":false}}`,
		`{"ok":true,"user":{"is_restricted":true},"User":{"is_restricted":false}}`,
		`{"ok":false,"OK":true,"user":{"is_restricted":false}}`,
	} {
		var got, loose user
		if err := read("users.info", ok, []byte(answer), &got); err == nil {
			t.Errorf("%s is read as %+v", answer, got)
		}
		if err := json.Unmarshal([]byte(answer), &loose); err != nil || loose.User.Restricted {
			t.Errorf("the control: encoding/json reads %+v from %s, %v", loose, answer, err)
		}
	}
}
