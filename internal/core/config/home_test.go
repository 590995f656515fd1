package config

import "testing"

func TestTilde(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"~": "/home/ada", "~/": "/home/ada", "~/src": "/home/ada/src", "~bob": "~bob", "/~": "/~", "": "",
	} {
		if got := (machine{home: "/home/ada"}).tilde(path); got != want {
			t.Errorf("%q is %q", path, got)
		}
	}
	if got := (machine{}).tilde("~"); got != "~" {
		t.Errorf("without a home: %q", got)
	}
}
