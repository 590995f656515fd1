package config

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"palyra/internal/core/must"
)

var movedKeys = map[int]string{0: "vault://global/model-a", 1: "vault://global/model-b"}

func TestMoveSecrets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                       {"# only\n[http]\nmax_bytes = 1 # here\n", "# only\n[http]\nmax_bytes = 1 # here\n"},
		"empty":                         {"", ""},
		"one table":                     {"a = 1\n\n# of the secret\n[[secrets]]\nname = \"x\" # y\nhosts = [\n  \"a:1\", # b\n  ]\n\n# next\n[http]\nm = 1\n", "a = 1\n\n# of the secret\n\n# next\n[http]\nm = 1\n"},
		"at the end without a line end": {"a = 1\n[[secrets]]\nname = 'x'", "a = 1\n"},
		"two, apart":                    {"[[secrets]]\nname = 'x'\n\n[http]\nm = 1\n\n  [[ secrets ]] # c\n# in it\nname = 'y'\n\n[log]\nl = 'x'\n", "[http]\nm = 1\n\n[log]\nl = 'x'\n"},
		"lines of Windows":              {"a = 1\r\n\r\n[[secrets]]\r\nname = 'x'\r\n\r\n[http]\r\nm = 1\r\n", "a = 1\r\n\r\n[http]\r\nm = 1\r\n"},
		"a text of many lines":          {"[[secrets]]\nname = \"\"\"a\n[http]\n\"\"\"\n[http]\nm = 1\n", "[http]\nm = 1\n"},
		"as a value":                    {"a = 1\nsecrets = [ # all\n {name = 'x'},\n] # done\nb = 2\n", "a = 1\nb = 2\n"},
		"without keys":                  {"[[secrets]]\n[http]\nm = 1\n", "[http]\nm = 1\n"},
		"models": {
			"[[models]]\n  api_key_file   =   \"/k\"   # the key\nname = 'a'\n[[models]]\n'api_key_file' = '~/k 2'\n[[models]]\napi_key_file = '/other'\n",
			"[[models]]\n  api_key_secret   =   \"vault://global/model-a\"   # the key\nname = 'a'\n[[models]]\napi_key_secret = \"vault://global/model-b\"\n[[models]]\napi_key_file = '/other'\n",
		},
		"models as a value": {"models = [{name = 'a', api_key_file = '/k'}, # x\n {api_key_file='~/k 2'}]\n", "models = [{name = 'a', api_key_secret = \"vault://global/model-a\"}, # x\n {api_key_secret=\"vault://global/model-b\"}]\n"},
		"both":              {"[[models]]\napi_key_file = '/k'\n[[secrets]]\nname = 'x'\n[[models]]\napi_key_file = '/k'\n", "[[models]]\napi_key_secret = \"vault://global/model-a\"\n[[models]]\napi_key_secret = \"vault://global/model-b\"\n"},
		"elsewhere":         {"[oidc]\napi_key_file = '/k'\n[x.secrets]\na = 1\n", "[oidc]\napi_key_file = '/k'\n[x.secrets]\na = 1\n"},
		"in a text":         {"a = '''\n[[secrets]]\n'''\n[[models]]\nname = '''\napi_key_file = \"/k\"\n'''\n", "a = '''\n[[secrets]]\n'''\n[[models]]\nname = '''\napi_key_file = \"/k\"\n'''\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(must.Get(MoveSecrets([]byte(c.text), movedKeys))(t)); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
	for name, text := range map[string]string{
		"no TOML":                "[[secrets",
		"a key that is no text":  "[[models]]\napi_key_file = 5\n",
		"a key that cannot move": "[[models]]\napi_key_file = '/k'\napi_key_secret = 'x'\n",
	} {
		if got, err := MoveSecrets([]byte(text), movedKeys); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// FuzzMoveSecrets: for any document, the output parses and contains all of the document except
// the moved tables. Apart from keys, it has no line that the document did not have.
func FuzzMoveSecrets(f *testing.F) {
	f.Add("a = 1\n[[secrets]]\nname = 'x'\n# c\nhosts = [\n'a',\n]\n[[models]]\napi_key_file = '/k' # d\n[models.x]\ny = 1\n")
	f.Add("secrets = [{a = 1}]\nmodels = [{api_key_file = \"/k\"}]\r\n[http]\n\"é\" = '''\n[[secrets]]'''")
	f.Add("secrets.a = 1\nmodels = 3\n")
	f.Add("[secrets]\n[models]\napi_key_file = '/k'\n[[secrets.x]]\n")
	f.Fuzz(func(t *testing.T, text string) {
		before := make(map[string]any)
		if toml.Unmarshal([]byte(text), &before) != nil {
			return
		}
		got, err := MoveSecrets([]byte(text), movedKeys)
		if err != nil {
			return
		}
		after := make(map[string]any)
		must.Do(t, toml.Unmarshal(got, &after))
		if _, there := after["secrets"]; there {
			t.Errorf("the secrets are still there:\n%s", got)
		}
		for key, value := range before {
			if key != "secrets" && key != "models" && !reflect.DeepEqual(after[key], value) {
				t.Errorf("%s is %v, was %v", key, after[key], value)
			}
		}
		rest := text
		for line := range bytes.Lines(got) {
			if bytes.Contains(line, []byte("api_key_secret")) {
				continue
			}
			_, after, ok := strings.Cut(rest, string(line))
			if !ok {
				t.Fatalf("%q was not there, or not in this order:\n%s\nbecame\n%s", line, text, got)
			}
			rest = after
		}
	})
}
