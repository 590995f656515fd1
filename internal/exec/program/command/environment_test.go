package command

import (
	"os"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// TestListed: the allow list contains only variables that cannot change the executed code, and
// only with a plain value.
func TestListed(t *testing.T) {
	t.Parallel()
	for _, pair := range []string{
		"LANG=en_US.UTF-8", "LC_ALL=C", "LC_CTYPE=de_DE@euro", "TZ=UTC", "TERM=xterm-256color", "NO_COLOR=", "NO_COLOR=1", "COLUMNS=80", "CI=true", "GOMAXPROCS=4",
		"RUST_BACKTRACE=full", "PYTHONUNBUFFERED=1", "NPM_CONFIG_LOGLEVEL=error",
	} {
		if left := Unlisted([]string{pair}); len(left) > 0 {
			t.Errorf("%s is not on the list", pair)
		}
	}
	for _, pair := range []string{
		"OPENSSL_CONF=./a.cnf", "GOROOT=/workspace/go", "JAVA_HOME=a", "DOTNET_STARTUP_HOOKS=a.dll", "RIPGREP_CONFIG_PATH=a", "HGRCPATH=a", "FOO=1", "foo=", "ca=1", "ci=1", "lang=C",
		"DEBUG=a", "NODE_ENV=test", "GOOS=js", "DEBIAN_FRONTEND=a", "PYTHONIOENCODING=a", "NPM_CONFIG_CAFILE=a", "npm_config_loglevel=error", "NPM_CONFIG_SCRIPT_SHELL=a", "HTTPS_PROXY=a",
		"LD_PRELOAD=a", "PATH=/bin", "HOME=/", "TZDIR=a", "TERMINFO=a", "TERMCAP=a", "LOCPATH=a", "LC_A=C", "LANGUAGE=a",
		// These names are listed, but the values could be more than a word.
		"LANG=../../workspace/a", "LC_ALL=/workspace/a", "TZ=:/workspace/a", "TZ=Europe/Prague", "TZ=a", "TERM=../a", "TERM=a", "COLUMNS=-x", "CI=a b", "CI=$(rm)", "CI=a:80", "NO_COLOR=..", "CI=\n",
	} {
		if left := Unlisted([]string{"LANG=C", pair}); !slices.Equal(left, []string{pair}) {
			t.Errorf("%s is on the list", pair)
		}
	}
	for name, values := range listed {
		if Steers(name) || slices.Contains(fixed, name) {
			t.Errorf("%s is on the allow list and is refused", name)
		}
		for _, value := range values {
			if !Listed(name, value) {
				t.Errorf("%s=%s is no plain word", name, value)
			}
		}
	}
}

// TestDocsOfListed: docs/policy-commands.md contains the variables of the allow list.
func TestDocsOfListed(t *testing.T) {
	t.Parallel()
	text := string(must.Get(os.ReadFile("../../../../docs/policy-commands.md"))(t))
	for name := range listed {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("docs/policy-commands.md does not have %s", name)
		}
	}
}
