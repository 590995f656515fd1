package skill

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/mod/semver"

	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tomledit"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
)

// The limits of a manifest.
const (
	// MaxManifest is the maximum size of skill.toml in bytes.
	MaxManifest = 256 << 10
	// MaxTools is the maximum number of tools of a skill.
	MaxTools = 64
	// MaxAsked is the maximum number of hosts, secrets or channels that a tool may request.
	MaxAsked = 32
	// MaxFuel is the upper limit of wasm_runtime.fuel_ceiling.
	MaxFuel = 1_000_000_000
	// MaxStorage is the maximum storage that a skill may request, in bytes.
	MaxStorage = 64 << 20
	// MaxMemory is the maximum size of a guest's memory, in bytes.
	MaxMemory = 64 << 20
	// maxWall is the maximum duration of a call, in milliseconds.
	maxWall   = 300_000
	maxOutput = 4 << 20
	maxUses   = 10_000
)

var (
	idForm     = lazyregexp.New(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	toolForm   = lazyregexp.New(`^[a-z][a-z0-9]*([._-][a-z0-9]+)*$`)
	secretForm = lazyregexp.New(`^([a-z0-9][a-z0-9._-]{0,63}/)?[a-z0-9][a-z0-9._-]{0,127}$`)
	moduleForm = lazyregexp.New(`^modules/[a-z0-9][a-z0-9._-]{0,63}\.wasm$`)
)

// ParseManifest parses skill.toml strictly. Each error names the key and the next step.
func ParseManifest(text []byte) (*Manifest, error) {
	if len(text) > MaxManifest {
		return nil, reason.Errorf(reason.InputTooLarge, "skill.toml has %d bytes; the limit is %d", len(text), MaxManifest).
			WithRemedy("Shorten descriptions and schemas.")
	}
	if !utf8.Valid(text) {
		return nil, reason.Errorf(reason.InvalidUTF8, "skill.toml is not valid UTF-8")
	}
	m := &Manifest{}
	if err := toml.NewDecoder(bytes.NewReader(tomledit.Unmarked(text))).DisallowUnknownFields().Decode(m); err != nil {
		return nil, unreadable(err)
	}
	c := checker{}
	c.manifest(m)
	if c.err != nil {
		return nil, c.err
	}
	return m, nil
}

// unreadable converts a TOML error or an unknown key into an error with a remedy.
func unreadable(err error) error {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) && len(strict.Errors) > 0 {
		first := &strict.Errors[0]
		line, _ := first.Position()
		key := strings.Join(first.Key(), ".")
		known := keysOf(reflect.TypeFor[Manifest](), "")
		remedy := "Remove it; docs/format/skill.md lists every key."
		if best := text.Nearest(key, known); best != "" {
			remedy = fmt.Sprintf("Did you mean %s? Otherwise remove it.", best)
		}
		return wrong(key, "line %d: the key is unknown", line).WithRemedy("%s", remedy)
	}
	var decode *toml.DecodeError
	if errors.As(err, &decode) {
		line, column := decode.Position()
		says := strings.TrimPrefix(decode.Error(), "toml: ")
		return wrong(strings.Join(decode.Key(), "."), "line %d, column %d: %s", line, column, says).
			WithRemedy("Correct that line; docs/format/skill.md describes the type of each key.")
	}
	return wrong("", "%s", strings.TrimPrefix(err.Error(), "toml: ")).WithRemedy("Correct it; docs/format/skill.md has an example.")
}

// keysOf returns all keys of a table, dotted.
func keysOf(t reflect.Type, prefix string) []string {
	var out []string
	for field := range t.Fields() {
		name := prefix + field.Tag.Get("toml")
		inner := field.Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		out = append(out, name)
		if inner.Kind() == reflect.Struct {
			out = append(out, keysOf(inner, name+".")...)
		}
	}
	return out
}

func wrong(key, format string, args ...any) *reason.Error {
	what := "skill.toml"
	if key != "" {
		what += ": " + key
	}
	return reason.Errorf(reason.InvalidInput, "%s: %s", what, fmt.Sprintf(format, args...)).WithField("key", key)
}

// checker keeps the first error of a manifest.
type checker struct {
	// id is the id of the manifest.
	id  string
	err error
}

// must records an error unless ok.
func (c *checker) must(ok bool, key, what, remedy string, args ...any) {
	if !ok && c.err == nil {
		c.err = wrong(key, "%s", what).WithRemedy(remedy, args...)
	}
}

func (c *checker) manifest(m *Manifest) {
	c.id = m.ID
	c.must(m.Format == Format, "format", fmt.Sprintf("is %q", m.Format), "Write format = %q.", Format)
	c.must(len(m.ID) <= 40 && idForm.MatchString(m.ID), "id", fmt.Sprintf("%q is not a valid id", m.ID),
		"Use at most 40 lower-case letters, digits and single hyphens, beginning with a letter.")
	c.line("name", m.Name, 80, true)
	c.line("description", m.Description, 500, false)
	c.version("version", m.Version, true)
	c.must(isPublisher(m.Publisher), "publisher", fmt.Sprintf("%q is not a valid publisher name", m.Publisher), publisherRemedy)
	c.line("license", m.License, 100, false)
	if m.Homepage != "" {
		u, err := url.Parse(m.Homepage)
		c.must(err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && len(m.Homepage) <= 500, "homepage", "is not an https URL", "Write an absolute URL, or remove the key.")
	}
	c.version("compatibility.palyra", m.Compatibility.Palyra, false)
	c.must(m.Compatibility.Interface == "" || m.Compatibility.Interface == InterfaceVersion, "compatibility.interface",
		fmt.Sprintf("%q is not known", m.Compatibility.Interface), "This version supports %s; remove the key if the modules import nothing of it.", InterfaceVersion)
	c.within("quotas.memory_bytes", m.Quotas.MemoryBytes, MaxMemory)
	c.within("quotas.wall_ms", m.Quotas.WallMillis, maxWall)
	c.within("quotas.output_bytes", m.Quotas.OutputBytes, maxOutput)
	c.within("quotas.uses", m.Quotas.Uses, maxUses)
	c.must(len(m.Tools) > 0, "tools", "the list is empty", "Add a [[tools]] table.")
	c.must(len(m.Tools) <= MaxTools, "tools", fmt.Sprintf("the list has %d entries", len(m.Tools)), "A skill may have at most %d; split it into two skills.", MaxTools)
	seen := map[string]bool{}
	for i, t := range m.Tools {
		key := fmt.Sprintf("tools[%d]", i)
		if toolForm.MatchString(t.ID) {
			key = "tools." + t.ID
		}
		c.must(!seen[t.ID], key+".id", fmt.Sprintf("%q is the id of two tools", t.ID), "Give each tool a unique id.")
		seen[t.ID] = true
		c.tool(key, t)
	}
	c.must(m.Compatibility.Interface != "" || !asksAny(m), "compatibility.interface", "is missing, but a tool requests a capability of that interface",
		"Write interface = %q under [compatibility].", InterfaceVersion)
}

const publisherRemedy = "Use at most 64 lower-case letters and digits, with single points, hyphens or underscores between them, such as example.org."

func isPublisher(name string) bool { return len(name) <= 64 && toolForm.MatchString(name) }

// CheckPublisher returns an error for an invalid publisher name.
func CheckPublisher(name string) error {
	if !isPublisher(name) {
		return reason.Errorf(reason.InvalidInput, "%.80q is not a valid publisher name", name).WithRemedy(publisherRemedy)
	}
	return nil
}

// asksAny reports whether a tool requests a capability of the handle interface. The clock and
// randomness do not count, because WASI provides them as well.
func asksAny(m *Manifest) bool {
	for _, t := range m.Tools {
		asked := t.Capabilities
		asked.Clock, asked.Random = false, false
		if asked.Asks() {
			return true
		}
	}
	return false
}

func (c *checker) tool(key string, t Tool) {
	c.must(len(t.ID) <= 40 && toolForm.MatchString(t.ID), key+".id", fmt.Sprintf("%q is not a valid id", t.ID),
		"Use at most 40 lower-case letters and digits, with single points, hyphens or underscores between them, beginning with a letter.")
	c.text(key+".description", t.Description, 2000)
	c.must(moduleForm.MatchString(t.Module), key+".module", fmt.Sprintf("%q is not a valid module of a package", t.Module),
		"Write modules/NAME.wasm, in lower-case letters, digits, points, hyphens and underscores.")
	c.schema(key+".input_schema", t.Input, true)
	c.schema(key+".output_schema", t.Output, false)
	c.must(t.Fuel <= MaxFuel, key+".fuel", fmt.Sprintf("is %d", t.Fuel), "Request at most %d.", MaxFuel)
	c.must(t.Risk >= 0 && t.Risk <= 100, key+".risk", fmt.Sprintf("is %d", t.Risk), "Write a number from 1 to 100, or remove the key for %d.", DefaultRisk)
	c.capabilities(key+".capabilities", t.Capabilities)
}

func (c *checker) capabilities(key string, asked Capabilities) {
	c.list(key+".http", asked.HTTP)
	for _, host := range asked.HTTP {
		if host == AnyHost {
			continue
		}
		_, err := egress.ParseRule(host)
		c.must(err == nil, key+".http", fmt.Sprintf("%q is not a valid host: %v", host, err), "Write host, host:port or *.domain, without a scheme and a path.")
	}
	names := make([]string, 0, len(asked.Secrets))
	for _, s := range asked.Secrets {
		names = append(names, s.Name)
		c.secretName(key+".secrets.name", s.Name)
		c.must(s.Use == Placeholder || s.Use == Read, key+".secrets.use", fmt.Sprintf("of %q is %q", s.Name, s.Use),
			`Write use = "placeholder", or use = "read" if the guest itself needs the value.`)
	}
	c.list(key+".secrets", names)
	c.list(key+".channels", asked.Channels)
	for _, name := range asked.Channels {
		c.must(len(name) <= 64 && toolForm.MatchString(name), key+".channels", fmt.Sprintf("%q is not a valid channel name", name), "Write its name as in palyra.toml.")
	}
	c.within(key+".storage_bytes", asked.StorageBytes, MaxStorage)
}

// secretName checks the name of a secret. Its scope may be the scope of the skill itself, but not
// of another skill.
func (c *checker) secretName(key, name string) {
	rest, scoped := strings.CutPrefix(name, SecretScope(""))
	c.must(secretForm.MatchString(rest), key, fmt.Sprintf("%q is not a valid secret name", name),
		"Write SCOPE/KEY, or KEY for a secret of the scope global, in lower case.")
	c.must(!scoped || strings.HasPrefix(rest, c.id+"/"), key, fmt.Sprintf("%q is in the scope of another skill", name),
		"Write %s/KEY: only the guests of another skill may use its secrets.", SecretScope(c.id))
}

func (c *checker) list(key string, values []string) {
	c.must(len(values) <= MaxAsked, key, fmt.Sprintf("has %d entries", len(values)), "Request at most %d.", MaxAsked)
	seen := map[string]bool{}
	for _, v := range values {
		c.must(!seen[v], key, fmt.Sprintf("%q occurs twice", v), "Name it once.")
		seen[v] = true
	}
}

func (c *checker) within(key string, n, most int64) {
	c.must(n >= 0 && n <= most, key, fmt.Sprintf("is %d", n), "Write a number from 1 to %d, or remove the key.", most)
}

func (c *checker) version(key, text string, needed bool) {
	if text == "" && !needed {
		return
	}
	v := "v" + text
	c.must(len(text) <= 64 && semver.IsValid(v) && (semver.Canonical(v)+semver.Build(v)) == v, key, fmt.Sprintf("%q is not a semantic version", text), "Write three numbers, such as 1.0.0.")
}

// line checks one line of text.
func (c *checker) line(key, text string, most int, needed bool) {
	c.must(text != "" || !needed, key, "is missing", "Write a text for people.")
	c.must(len(text) <= most, key, fmt.Sprintf("has %d bytes", len(text)), "Use at most %d.", most)
	c.must(strings.IndexFunc(text, unprintable) < 0, key, "has characters that cannot be displayed on one line", "Remove line breaks and control characters.")
}

// text checks a text of one or more lines.
func (c *checker) text(key, text string, most int) {
	c.line(key, strings.ReplaceAll(text, "\n", " "), most, true)
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

func (c *checker) schema(key, text string, needed bool) {
	if text == "" && !needed {
		return
	}
	c.must(text != "", key, "is missing", `Write a JSON Schema as text; '{"type": "object", "additionalProperties": false}' accepts only an empty object.`)
	if c.err != nil {
		return
	}
	if _, err := tool.CompileSchema([]byte(text)); err != nil {
		c.must(false, key, strings.ReplaceAll(err.Error(), "input schema", "the schema"), "Correct the schema: JSON Schema 2020-12, an object at the top.")
	}
}
