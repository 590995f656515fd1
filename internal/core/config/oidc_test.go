package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

const oidcTable = `
[oidc]
issuer = "https://id.example.com/realms/main"
client_id = "palyra"
[[oidc.groups]]
group = "approvers"
roles = ["operator"]
`

func TestOIDC(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(oidcTable)
	c, _ := w.load(w.options())
	if c.OIDC.Issuer != "https://id.example.com/realms/main" || len(c.OIDC.Groups) != 1 || c.OIDC.DeviceFlow || c.OIDC.AllowOwner {
		t.Errorf("%+v", c.OIDC)
	}
	for name, test := range map[string]struct{ was, is, want string }{
		"http":                  {"https://id", "http://id", "oidc.issuer is \"http://id.example.com/realms/main\", which is not https"},
		"no URL":                {"https://id.example.com", "id.example.com", "set it to the provider's own name"},
		"with a query":          {"realms/main", "realms/main?x=1", "set it to the provider's own name"},
		"with a user":           {"https://id", "https://u:p@id", "set it to the provider's own name"},
		"no client":             {`client_id = "palyra"`, "", "oidc.client_id is missing"},
		"no issuer":             {`issuer = "https://id.example.com/realms/main"`, "", "oidc.issuer is missing, and other settings of oidc are there"},
		"no groups":             {"[[oidc.groups]]\ngroup = \"approvers\"\nroles = [\"operator\"]", "", "oidc.groups is empty, so logins are disabled"},
		"alg none":              {`client_id = "palyra"`, "client_id = \"palyra\"\nalgorithms = [\"none\"]", `oidc.algorithms has "none", with which others than the provider could sign`},
		"HS256":                 {`client_id = "palyra"`, "client_id = \"palyra\"\nalgorithms = [\"RS256\", \"HS256\"]", `oidc.algorithms has "HS256"`},
		"no algorithm":          {`client_id = "palyra"`, "client_id = \"palyra\"\nalgorithms = []", "oidc.algorithms is empty"},
		"no openid":             {`client_id = "palyra"`, "client_id = \"palyra\"\nscopes = [\"profile\"]", `oidc.scopes lacks "openid"`},
		"a long session":        {`client_id = "palyra"`, "client_id = \"palyra\"\nsession = \"25h\"", "oidc.session"},
		"owner":                 {`"operator"`, `"owner"`, `oidc.groups[0].roles has "owner", so the provider's administrator could create owners`},
		"agent":                 {`"operator"`, `"agent"`, `oidc.groups[0].roles has "agent"`},
		"no such role":          {`"operator"`, `"boss"`, `oidc.groups[0].roles has "boss", which is not a role`},
		"no role":               {`["operator"]`, "[]", "oidc.groups[0].roles is empty"},
		"no group":              {`group = "approvers"`, `group = ""`, "oidc.groups[0].group is missing"},
		"a domain that is none": {`client_id = "palyra"`, "client_id = \"palyra\"\nusername_domain = \"@example.com\"", "oidc.username_domain"},
		"a relative file":       {`client_id = "palyra"`, "client_id = \"palyra\"\nclient_secret_file = \"secret\"", "oidc.client_secret_file"},
	} {
		w := newWorld(t)
		w.write(strings.Replace(oidcTable, test.was, test.is, 1))
		if text := Check(w.options()).Error(); !strings.Contains(text, test.want) {
			t.Errorf("%s: %q, want %q", name, text, test.want)
		}
	}
	for name, table := range map[string]string{
		"owner, duplicated": strings.Replace(oidcTable, `"operator"`, `"owner"`, 1) + "[oidc.x]\n",
		"on this machine":   strings.Replace(oidcTable, "https://id.example.com", "http://127.0.0.1:5556", 1),
		"a declared role":   strings.Replace(oidcTable, `"operator"`, `"security"`, 1),
	} {
		table = strings.Replace(table, "[oidc.x]\n", "", 1)
		if strings.Contains(table, `"owner"`) {
			table = strings.Replace(table, "client_id", "allow_owner = true\nclient_id", 1)
		}
		w := newWorld(t)
		w.write(table)
		if findings := Check(w.options()); len(findings) > 0 {
			t.Errorf("%s: %v", name, findings)
		}
	}
}

// The client's secret is read like other private files, and never repeated in output.
func TestClientSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := filepath.Join(w.home, "oidc")
	w.write(strings.Replace(oidcTable, "client_id", "client_secret_file = \"~/oidc\"\nclient_id", 1))
	for text, want := range map[string]string{"the secret & more\n": "", "": "is empty", "two\nlines": "holds more than one line"} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		c, _ := w.load(w.options())
		secret, err := c.OIDC.ClientSecret()
		found := Check(w.options()).Error()
		if want == "" {
			if secret != "the secret & more" || err != nil || found != "" {
				t.Errorf("%q, %v, %s", secret, err, found)
			}
		} else if err == nil || !strings.Contains(found, "oidc.client_secret_file cannot be used") || !strings.Contains(found, want) || strings.Contains(found, "lines"+"\n") {
			t.Errorf("%q: %v, %s", text, err, found)
		}
	}
	must.Do(t, os.Chmod(path, 0o644))
	if found := Check(w.options()).Error(); !strings.Contains(found, "has mode 0644") {
		t.Errorf("for everybody: %s", found)
	}
}
