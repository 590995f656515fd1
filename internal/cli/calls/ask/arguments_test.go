package ask

import "testing"

func TestArguments(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]string{
		`{"path":"a/b.txt","n":3}`:           `n=3 path=a/b.txt`,
		`{"text":"two words","line":"a\nb"}`: `line="a\nb" text="two words"`,
		`{"argv":["git","log"],"e":""}`:      `argv=["git","log"] e=""`,
		`not json`:                           `not json`,
		``:                                   ``,
	} {
		if got := Arguments([]byte(input)); got != want {
			t.Errorf("%s: %s, want %s", input, got, want)
		}
	}
	for input, want := range map[string]string{
		`{"argv":["git","commit","-m","two words"],"workspace":"demo"}`: `git commit -m 'two words' (workspace=demo)`,
		`{"argv":["sh","-c","it's $HOME\n",""]}`:                        `sh -c "it's $HOME\n" ''`,
		`{"argv":["make"]}`:                                             `make`,
		`{"argv":"make"}`:                                               `argv=make`,
		`{"path":"a/b.txt"}`:                                            `path=a/b.txt`,
		``:                                                              ``,
	} {
		if got := Summary([]byte(input)); got != want {
			t.Errorf("%s: %s, want %s", input, got, want)
		}
	}
}
