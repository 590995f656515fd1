package skill_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/skill"
)

func TestParseManifest(t *testing.T) {
	t.Parallel()
	m := must.Get(skill.ParseManifest([]byte(manifest)))(t)
	add, ok := m.Tool("add")
	if !ok || m.ID != "notes" || m.Version != "1.2.3" || m.Publisher != "example.org" || m.Quotas.WallMillis != 5000 || m.Compatibility.Palyra != "0.5.0" {
		t.Errorf("%+v", m)
	}
	want := skill.Capabilities{HTTP: []string{"api.example.org:443"}, Secrets: []skill.Secret{{Name: "global/notes", Use: skill.Placeholder}}, StorageBytes: 65536}
	if add.FuelOf() != 200_000_000 || add.RiskOf() != 20 || !add.Features.SIMD || add.Features.MultiValue || !reflect.DeepEqual(add.Capabilities, want) || string(add.OutputSchema()) != `{"type": "object"}` {
		t.Errorf("%+v", add)
	}
	if least := must.Get(skill.ParseManifest([]byte(with("fuel = 200_000_000\nrisk = 20\n", ""))))(t).Tools[0]; least.FuelOf() != 10_000_000 || least.RiskOf() != 50 {
		t.Errorf("%+v", least)
	}
	if _, ok := m.Tool("remove"); ok {
		t.Error("a tool that is not there was found")
	}
}

// TestParseManifestRefuses: each error names the key and the next step.
func TestParseManifestRefuses(t *testing.T) {
	t.Parallel()
	second := strings.ReplaceAll(manifest[strings.Index(manifest, "[[tools]]"):], "\n[tools.", "\n[tools.")
	for name, c := range map[string]struct{ text, key, wants, step string }{
		"empty":                   {"", "format", `is ""`, "palyra-skill/v1"},
		"no TOML":                 {"format = ", "", "line 1", "Correct"},
		"another format":          {with("skill/v1", "skill/v2"), "format", "v2", "palyra-skill/v1"},
		"an unknown key":          {with("name = \"Notes\"", "name = \"Notes\"\nverison = \"1\""), "verison", "the key is unknown", "Did you mean version?"},
		"an unknown key of tools": {with("risk = 20", "rsik = 20"), "tools.rsik", "the key is unknown", "Did you mean tools.risk?"},
		"a key twice":             {with("name = \"Notes\"", "name = \"Notes\"\nname = \"Notes\""), "name", "line 4", "Correct"},
		"another kind":            {with("fuel = 200_000_000", `fuel = "much"`), "tools.fuel", "line", "Correct"},
		"negative fuel":           {with("fuel = 200_000_000", `fuel = -1`), "tools.fuel", "line", "Correct"},
		"an id":                   {with(`id = "notes"`, `id = "No tes"`), "id", "is not a valid id", "lower-case"},
		"a long id":               {with(`id = "notes"`, `id = "`+strings.Repeat("n", 41)+`"`), "id", "is not a valid id", "at most 40"},
		"no name":                 {with(`name = "Notes"`, ""), "name", "is missing", "Write a text"},
		"a name of two lines":     {with(`name = "Notes"`, `name = "a\nb"`), "name", "cannot be displayed", "Remove line breaks"},
		"a name that turns":       {with(`name = "Notes"`, `name = "a\u202eb"`), "name", "cannot be displayed", "Remove line breaks"},
		"a version":               {with("1.2.3", "1.2"), "version", "not a semantic version", "1.0.0"},
		"a version with v":        {with("1.2.3", "v1.2.3"), "version", "not a semantic version", "1.0.0"},
		"a publisher":             {with("example.org\"\n", "Example Org\"\n"), "publisher", "not a valid publisher name", "lower-case"},
		"a homepage":              {with("[compatibility]", "homepage = \"http://x\"\n[compatibility]"), "homepage", "not an https URL", "absolute"},
		"another interface":       {with(`interface = "0.1.0"`, `interface = "9.0.0"`), "compatibility.interface", "not known", "0.1.0"},
		"no interface":            {with(`interface = "0.1.0"`, ``), "compatibility.interface", "is missing", "0.1.0"},
		"a quota":                 {with("wall_ms = 5000", "wall_ms = -1"), "quotas.wall_ms", "is -1", "or remove the key"},
		"no tools":                {manifest[:strings.Index(manifest, "[[tools]]")], "tools", "the list is empty", "[[tools]]"},
		"a tool twice":            {manifest + second, "tools.add.id", "two tools", "a unique id"},
		"a tool's id":             {with(`id = "add"`, `id = "Add"`), "tools[0].id", "is not a valid id", "lower-case"},
		"no description":          {with(`description = "Add a note."`, ""), "tools.add.description", "is missing", "Write a text"},
		"a module":                {with("modules/notes.wasm", "../notes.wasm"), "tools.add.module", "not a valid module of a package", "modules/NAME.wasm"},
		"much fuel":               {with("200_000_000", "1_000_000_001"), "tools.add.fuel", "1000000001", "at most 1000000000"},
		"a risk":                  {with("risk = 20", "risk = 101"), "tools.add.risk", "101", "1 to 100"},
		"no schema":               {with("input_schema = '{\"type\": \"object\", \"properties\": {\"text\": {\"type\": \"string\"}}}'", ""), "tools.add.input_schema", "is missing", "JSON Schema"},
		"a schema of text":        {with("output_schema = '{\"type\": \"object\"}'", "output_schema = '{\"type\": \"string\"}'"), "tools.add.output_schema", `"type": "object"`, "Correct the schema"},
		"a schema elsewhere":      {with("output_schema = '{\"type\": \"object\"}'", "output_schema = '{\"type\": \"object\", \"$ref\": \"https://example.org/x\"}'"), "tools.add.output_schema", "the schema", "Correct the schema"},
		"a URL as a host":         {with("api.example.org:443", "https://api.example.org"), "tools.add.capabilities.http", "is not a valid host", "without a scheme"},
		"a host twice":            {with(`"api.example.org:443"`, `"a.example", "a.example"`), "tools.add.capabilities.http", "twice", "once"},
		"a secret's use":          {with(`use = "placeholder"`, `use = "see"`), "tools.add.capabilities.secrets.use", `"see"`, "placeholder"},
		"a secret's name":         {with("global/notes", "vault://global/notes"), "tools.add.capabilities.secrets.name", "not a valid secret name", "SCOPE/KEY"},
		"another skill's secret":  {with("global/notes", "skill:web/key"), "tools.add.capabilities.secrets.name", "in the scope of another skill", "skill:notes/KEY"},
		"a scope without a key":   {with("global/notes", "skill:notes"), "tools.add.capabilities.secrets.name", "in the scope of another skill", "skill:notes/KEY"},
		"much storage":            {with("storage_bytes = 65536", "storage_bytes = 99999999999"), "tools.add.capabilities.storage_bytes", "99999999999", "1 to"},
		"a channel":               {with("storage_bytes = 65536", "channels = [\"A b\"]"), "tools.add.capabilities.channels", "not a valid channel name", "palyra.toml"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := skill.ParseManifest([]byte(c.text))
			known := reason.Known(err, "")
			if err == nil || known.Code != reason.InvalidInput || known.Fields["key"] != c.key || !strings.Contains(known.Message, c.wants) || !strings.Contains(known.NextStep(), c.step) {
				t.Errorf("got %v (%s, key %q, next %q), want %q of %q, next %q", err, known.Code, known.Fields["key"], known.NextStep(), c.wants, c.key, c.step)
			}
			if c.key != "" && !strings.Contains(known.Message, c.key) {
				t.Errorf("%q does not name %s", known.Message, c.key)
			}
		})
	}
	if _, err := skill.ParseManifest(make([]byte, skill.MaxManifest+1)); reason.Of(err) != reason.InputTooLarge {
		t.Error(err)
	}
	if _, err := skill.ParseManifest([]byte("name = \"\xff\"")); reason.Of(err) != reason.InvalidUTF8 {
		t.Error(err)
	}
}

// FuzzParseManifest: any text results in a manifest with an ID, a publisher and a valid number
// of tools, or in an error with a code and a next step.
func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(manifest))
	f.Add([]byte(with("api.example.org:443", "*")))
	f.Add([]byte("format = 1\n[[tools]]\n[tools.capabilities]\nsecrets = [{}]"))
	if text, err := os.ReadFile("workshop/template/skill.toml.txt"); err == nil {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := skill.ParseManifest(text)
		if err != nil {
			if known := reason.Known(err, reason.Internal); known.Code == reason.Internal || known.NextStep() == "" {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if m.ID == "" || m.Publisher == "" || len(m.Tools) == 0 || len(m.Tools) > skill.MaxTools {
			t.Fatalf("%q: %+v", text, m)
		}
	})
}
