package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"palyra/internal/core/text"
)

// key is one setting that a file, a variable or a flag can set.
type key struct {
	// name is dotted: "process_runner.tier".
	name string
	// env is the variable that overrides it, "" for a table.
	env   string
	path  bool
	value reflect.Value
}

var durationType = reflect.TypeFor[time.Duration]()

// keysOf lists the settings of a configuration in the order of the struct. A list of tables is
// one setting.
func keysOf(c *Config) []key {
	return appendKeys(nil, "", reflect.ValueOf(c).Elem())
}

func appendKeys(list []key, prefix string, v reflect.Value) []key {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Tag.Get("toml") == "-" {
			continue // not a setting
		}
		name := prefix + field.Tag.Get("toml")
		value := v.Field(i)
		if value.Kind() == reflect.Struct {
			list = appendKeys(list, name+".", value)
			continue
		}
		k := key{name: name, path: field.Tag.Get("path") != "", value: value}
		if !isTableList(value.Type()) {
			k.env = envName(name, field.Tag.Get("env"))
		}
		list = append(list, k)
	}
	return list
}

func isTableList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// envName returns the variable of a key: upper case, with underscores in place of dots.
func envName(name, override string) string {
	if override != "" {
		return override
	}
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}

// setText sets a scalar, or a list of scalars separated by commas, from the text of a variable
// or flag.
func setText(v reflect.Value, text string) error {
	if v.Type() == durationType {
		return setDuration(v, text)
	}
	if isTableList(v.Type()) {
		return errors.New("cannot be set by a variable or flag; set it in the file")
	}
	switch v.Kind() {
	case reflect.Pointer:
		return setOptional(v, text, func(v reflect.Value) error { return setText(v, text) })
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return wants(v.Type(), quote(text))
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, v.Type().Bits())
		if err != nil {
			return wants(v.Type(), quote(text))
		}
		v.SetInt(n)
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return wants(v.Type(), quote(text))
		}
		v.SetFloat(f)
	case reflect.Slice:
		return setList(v, splitList(text))
	}
	return nil
}

// unset is the notation of a setting without a value.
const unset = "unset"

// setOptional sets a setting that may have no value.
func setOptional(v reflect.Value, given any, set func(reflect.Value) error) error {
	if given == unset {
		v.SetZero()
		return nil
	}
	value := reflect.New(v.Type().Elem())
	if set(value.Elem()) != nil {
		return wants(v.Type(), describe(given))
	}
	v.Set(value)
	return nil
}

func splitList(text string) []string {
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return slices.DeleteFunc(parts, func(s string) bool { return s == "" })
}

func setList(v reflect.Value, parts []string) error {
	list := reflect.MakeSlice(v.Type(), len(parts), len(parts))
	for i, part := range parts {
		if setText(list.Index(i), part) != nil {
			return wants(v.Type(), "a list with "+quote(part))
		}
	}
	v.Set(list)
	return nil
}

func setDuration(v reflect.Value, text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return wants(durationType, quote(text))
	}
	v.SetInt(int64(d))
	return nil
}

// wants returns the error for a value of the wrong type.
func wants(t reflect.Type, got string) error {
	return fmt.Errorf("wants %s, not %s", typeWord(t), got)
}

func typeWord(t reflect.Type) string {
	if t == durationType {
		return `a duration such as "90s" or "10m"`
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeWord(t.Elem()) + `, or "` + unset + `"`
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Struct:
		return "a table"
	}
	if isTableList(t) {
		return "a list of tables"
	}
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Int64 {
		return "a list of whole numbers"
	}
	return "a list of strings"
}

func quote(content string) string {
	return strconv.Quote(text.Ellipsis(content, 60))
}

// show formats a setting's value as in palyra.toml.
func show(v reflect.Value) string {
	if v.Type() == durationType {
		return strconv.Quote(shortDuration(time.Duration(v.Int())))
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return tomlString(unset)
		}
		return show(v.Elem())
	case reflect.String:
		return tomlString(v.String())
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = show(v.Index(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case reflect.Struct:
		parts := make([]string, v.NumField())
		for i := range parts {
			parts[i] = v.Type().Field(i).Tag.Get("toml") + " = " + show(v.Field(i))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

// tomlString formats a basic string. JSON's escapes are a subset of TOML's; DEL is the only
// character that TOML escapes and JSON does not.
func tomlString(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return strconv.Quote(s)
	}
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}

// shortDuration formats a duration without the zero units that Duration.String adds: "10m", not
// "10m0s".
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
