package ask

import "testing"

func TestReadable(t *testing.T) {
	t.Parallel()
	for result, want := range map[string]string{
		`{"path":"a","content":"one\ntwo","encoding":"utf-8","truncated":false}`:            "one\ntwo\n",
		`{"path":"a","content":"one","encoding":"utf-8","truncated":true}`:                  "one\n(truncated; use -o json for details)\n",
		`{"entries":[{"path":"a","kind":"file","size":3},{"path":"d","kind":"directory"}]}`: "file               3  a\ndirectory             d\n",
		`{"matches":[{"path":"a","line":7,"text":"x := 1"}],"left_out":2}`:                  "a:7: x := 1\n(2 omitted: policy does not let this caller see them)\n",
		`{"files":[{"path":"a","action":"create","bytes":4}]}`:                              "create a, 4 bytes\n",
		`{"entries":[]}`: "",
	} {
		if got, ok := Readable([]byte(result)); !ok || got != want {
			t.Errorf("%s is %q, %t", result, got, ok)
		}
	}
	for _, other := range []string{`{"content":"AAEC","encoding":"base64"}`, `{"text":"hello"}`, `[1]`, `no JSON`, ``} {
		if got, ok := Readable([]byte(other)); ok {
			t.Errorf("%s is %q", other, got)
		}
	}
}

func TestEnding(t *testing.T) {
	t.Parallel()
	zero, failed := 0, 128
	for _, c := range []struct {
		outcome string
		r       ProcessResult
		want    string
	}{
		{"succeeded", ProcessResult{}, "succeeded"}, {"succeeded", ProcessResult{ExitCode: &zero}, "succeeded, exit code 0"},
		{"succeeded", ProcessResult{ExitCode: &failed}, "ended, exit code 128"}, {"failed", ProcessResult{ExitCode: &failed, Signal: "SIGKILL"}, "failed, exit code 128, signal SIGKILL"},
	} {
		if word, rest := Ending(c.outcome, c.r); word+rest != c.want {
			t.Errorf("%q", word+rest)
		}
	}
}
