package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Source is the kind of source of a value.
type Source string

// The sources, weakest first.
const (
	SourceDefault Source = "default"
	SourceFile    Source = "file"
	SourceEnv     Source = "env"
	SourceFlag    Source = "flag"
)

// Origin is the source of an effective value.
type Origin struct {
	Source Source `json:"source"`
	// Name is the file, the variable or the flag.
	Name string `json:"name,omitempty"`
	// Line and Column count from 1 and are set for a file.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// String returns "default", "FILE:LINE", "env NAME" or "flag --NAME".
func (o Origin) String() string {
	switch o.Source {
	case SourceFile:
		return fmt.Sprintf("%s:%d", o.Name, o.Line)
	case SourceEnv:
		return "env " + o.Name
	case SourceFlag:
		return "flag --" + o.Name
	}
	return string(SourceDefault)
}

// Origins maps the dotted name of every key to the origin of its value.
type Origins map[string]Origin

// Setting is one effective value, for `palyra config show`.
type Setting struct {
	Key string
	// Value is a string, a number, a boolean, a list of strings or of tables (map[string]any); a
	// duration is a string such as "10m", and an unset value is nil.
	Value any
	// TOML is the value as written in palyra.toml.
	TOML   string
	Origin Origin
}

// Settings lists every key of c with its value and origin, in the order of
// docs/reference/configuration.md.
func Settings(c *Config, origins Origins) []Setting {
	var list []Setting
	for _, k := range keysOf(c) {
		list = append(list, Setting{Key: k.name, Value: plainValue(k.value), TOML: show(k.value), Origin: origins[k.name]})
	}
	return list
}

// plainValue returns a setting's value in the types of JSON.
func plainValue(v reflect.Value) any {
	if v.Type() == durationType {
		return shortDuration(time.Duration(v.Int()))
	}
	switch v.Kind() {
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plainValue(v.Index(i))
		}
		return list
	case reflect.Struct:
		table := make(map[string]any, v.NumField())
		for i := range v.NumField() {
			table[v.Type().Field(i).Tag.Get("toml")] = plainValue(v.Field(i))
		}
		return table
	case reflect.String:
		return v.String()
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return plainValue(v.Elem())
	}
	return v.Interface()
}

// Keys lists the dotted names of all keys.
func Keys() []string {
	var names []string
	for _, k := range keysOf(&Config{}) {
		names = append(names, k.name)
	}
	return names
}

// FlagName returns the flag of a key: "listen.api" is --listen-api.
func FlagName(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, ".", "-"), "_", "-")
}

// Finding is one defect of the configuration.
type Finding struct {
	// Key is dotted; "" for a file that cannot be read at all.
	Key    string `json:"key,omitempty"`
	Origin Origin `json:"origin"`
	// Message describes the defect, Remedy describes the correct setting.
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// String returns "where: key message (remedy)".
func (f Finding) String() string {
	var b strings.Builder
	if f.Origin.Source != SourceDefault && f.Origin.Source != "" {
		b.WriteString(f.Origin.String())
		if f.Origin.Column > 0 {
			fmt.Fprintf(&b, ":%d", f.Origin.Column)
		}
		b.WriteString(": ")
	}
	if f.Key != "" {
		b.WriteString(f.Key + " ")
	}
	b.WriteString(f.Message)
	if f.Remedy != "" {
		b.WriteString("; " + f.Remedy)
	}
	return b.String()
}

// Findings are all defects of a configuration. It implements error.
type Findings []Finding

// Error returns one line for each finding.
func (f Findings) Error() string {
	lines := make([]string, len(f))
	for i, finding := range f {
		lines[i] = finding.String()
	}
	return strings.Join(lines, "\n")
}
