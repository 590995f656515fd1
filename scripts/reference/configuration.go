package main

import (
	"fmt"
	"reflect"
	"strings"

	"palyra/internal/core/config"
	"palyra/internal/core/lazyregexp"
)

var configurationPage = page{
	file: "configuration.md", title: "Configuration", body: configuration,
	intro: `
palyrad and palyra work without a configuration file. They read these sources; an earlier one takes
precedence:

1. Flags of palyrad, for the keys that are often set for one start: ` + "`listen.api`" + ` is
   ` + "`--listen-api`. `palyrad --help`" + ` lists them.
2. Variables. ` + "`PALYRA_`" + ` and the key in upper case, with underscores for dots: ` + "`listen.api`" + ` is
   ` + "`PALYRA_LISTEN_API`" + `. Lists are separated by commas, and an empty variable counts as not set. Any
   other variable that begins with ` + "`PALYRA_`" + ` is an error.
3. The file that ` + "`--config` or `PALYRA_CONFIG`" + ` names, which must exist; otherwise
   ` + "`$XDG_CONFIG_HOME/palyra/palyra.toml` (`~/.config/palyra/palyra.toml`)" + `, and for root
   ` + "`/etc/palyra/palyra.toml`" + ` if that file does not exist.
4. The defaults below.

` + "`palyra config check`" + ` lists all errors, ` + "`palyra config show`" + ` prints each effective value and its
source (` + "`-o json`" + ` for typed values), and ` + "`palyra config path`" + ` prints the path of the file.

The file is [TOML](https://toml.io). An unknown key and an invalid value are errors with file, line and
column, and palyrad does not start. palyrad refuses a file that other users could change: its owner,
its mode and all directories above it follow the rules for [policies](../policy.md). Paths are
absolute, or begin with ` + "`~/`" + `. Durations are written as in Go: ` + "`\"90s\"`, `\"10m\"`, `\"24h\"`" + `.

` + "```toml" + `
max_calls_per_run = 100

[[workspaces]]
name = "site"
path = "~/src/site"

[process_runner]
allowed_executables = ["git", "go", "make"]

[approvals]
default_timeout = "5m"
` + "```",
}

// keyTables writes the tables of keys of a configuration type and of the types of its fields.
type keyTables struct {
	comments comments
	defaults map[string]string
	b        strings.Builder
}

func configuration() (string, error) {
	found, err := readComments("internal/core/config")
	if err != nil {
		return "", err
	}
	k := keyTables{comments: found, defaults: make(map[string]string)}
	for _, s := range config.Settings(config.Default(), nil) {
		k.defaults[s.Key] = s.TOML
	}
	err = k.section("General", "", "", reflect.TypeFor[config.Config]())
	return k.b.String(), err
}

// section writes the keys of a type, and then sections for its tables.
func (k *keyTables) section(heading, prefix, intro string, t reflect.Type) error {
	rows := newTable("key", "default", "description")
	var tables []reflect.StructField
	for i := range t.NumField() {
		field := t.Field(i)
		key := prefix + field.Tag.Get("toml")
		switch inner := tableType(field.Type); {
		case field.Tag.Get("toml") == "-":
		case inner == reflect.TypeFor[config.RateLimit]():
			if err := k.bucket(rows, key, t.Name()+"."+field.Name, inner); err != nil {
				return err
			}
		case inner != nil:
			tables = append(tables, field)
		default:
			text, err := k.comments.sentence(t.Name() + "." + field.Name)
			if err != nil {
				return err
			}
			rows.row("`"+key+"`", k.defaultOf(key, field.Type, &text), text)
		}
	}
	fmt.Fprintf(&k.b, "## %s\n\n%s%s\n", heading, intro, rows)
	for _, field := range tables {
		if err := k.table(prefix+field.Tag.Get("toml"), field); err != nil {
			return err
		}
	}
	return nil
}

// table writes the section of a field that is a table, or a list of them.
func (k *keyTables) table(key string, field reflect.StructField) error {
	t := tableType(field.Type)
	heading := "`[" + key + "]`"
	if field.Type.Kind() == reflect.Slice {
		heading = "`[[" + key + "]]`"
	}
	intro, err := k.comments.sentence(t.Name())
	if err != nil {
		return err
	}
	intro += "\n\n"
	if example := k.comments.example(t.Name()); example != "" {
		intro += "```toml\n" + strings.TrimSpace(example) + "\n```\n\n"
	}
	return k.section(heading, key+".", intro, t)
}

// bucket writes the keys of one rate limit.
func (k *keyTables) bucket(rows *table, key, field string, t reflect.Type) error {
	class, err := k.comments.sentence(field)
	if err != nil {
		return err
	}
	for i := range t.NumField() {
		name := key + "." + t.Field(i).Tag.Get("toml")
		text, err := k.comments.sentence(t.Name() + "." + t.Field(i).Name)
		if err != nil {
			return err
		}
		rows.row("`"+name+"`", "`"+k.defaults[name]+"`", class+" "+text)
	}
	return nil
}

var (
	requiredForm = lazyregexp.New(` Required(?:,? (?:for|except for) [^.]*)?\.$`)
	defaultForm  = lazyregexp.New(` Default: (.*)\.$`)
)

// defaultOf returns the default of a key. A comment states it if config.Default does not: it ends in
// "Required." or "Default: VALUE.", which is removed from the text.
func (k *keyTables) defaultOf(key string, t reflect.Type, text *string) string {
	if at := requiredForm.FindStringIndex(*text); at != nil {
		required := (*text)[at[0]:]
		*text = (*text)[:at[0]]
		return strings.Trim(strings.ToLower(required), " .")
	}
	if m := defaultForm.FindStringSubmatch(*text); m != nil {
		*text = strings.TrimSuffix(*text, m[0])
		return m[1]
	}
	if value, ok := k.defaults[key]; ok {
		return "`" + value + "`"
	}
	return map[reflect.Kind]string{reflect.Slice: "`[]`", reflect.Bool: "`false`", reflect.String: "`\"\"`"}[t.Kind()]
}

// tableType returns the struct type of a table or of the elements of a list of tables; nil for a
// plain value.
func tableType(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct {
		return t
	}
	return nil
}
