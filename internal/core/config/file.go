package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"palyra/internal/core/text"
	"palyra/internal/core/tomledit"
)

// applyFile sets the keys in the text of a file. The library decodes the text into a map, which
// finds syntax errors. This package then assigns the values to the fields of Config itself,
// because the library would stop at the first error. All findings are therefore returned at
// once, each with its line and column.
func applyFile(path string, text []byte, c *Config, origins Origins) Findings {
	text = tomledit.Unmarked(text)
	var doc map[string]any
	if err := toml.Unmarshal(text, &doc); err != nil {
		return Findings{syntaxFinding(path, err)}
	}
	b := binder{path: path, places: placesOf(text), origins: origins}
	b.table("", reflect.ValueOf(c).Elem(), doc)
	return b.findings
}

func syntaxFinding(path string, err error) Finding {
	f := Finding{Origin: Origin{Source: SourceFile, Name: path, Line: 1, Column: 1}}
	f.Message = "is not valid TOML: " + strings.TrimPrefix(err.Error(), "toml: ")
	var decode *toml.DecodeError
	if errors.As(err, &decode) {
		f.Origin.Line, f.Origin.Column = decode.Position()
	}
	return f
}

// binder sets fields from decoded values and collects findings.
type binder struct {
	path     string
	places   map[string]unstable.Position
	origins  Origins
	findings Findings
}

// at returns the position of a dotted name, or of the nearest enclosing table.
func (b *binder) at(name string) Origin {
	o := Origin{Source: SourceFile, Name: b.path, Line: 1, Column: 1}
	for n := name; n != ""; n = parent(n) {
		if position, ok := b.places[n]; ok {
			o.Line, o.Column = position.Line, position.Column
			break
		}
	}
	return o
}

func parent(name string) string {
	i := strings.LastIndexAny(name, ".[")
	if i < 0 {
		return ""
	}
	return name[:i]
}

func (b *binder) find(name, message, remedy string) {
	b.findings = append(b.findings, Finding{Key: name, Origin: b.at(name), Message: message, Remedy: remedy})
}

// table sets the fields of a struct from a table.
func (b *binder) table(prefix string, v reflect.Value, doc map[string]any) {
	fields := make(map[string]reflect.Value, v.NumField())
	for i := range v.NumField() {
		if name := v.Type().Field(i).Tag.Get("toml"); name != "-" {
			fields[name] = v.Field(i)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(doc)) {
		full := prefix + name
		field, ok := fields[name]
		if !ok {
			b.find(full, "does not exist", b.suggest(prefix, name, fields))
			continue
		}
		b.value(full, field, doc[name])
	}
}

// suggest searches the siblings of the unknown key first, then all keys.
func (b *binder) suggest(prefix, name string, fields map[string]reflect.Value) string {
	if near := text.Nearest(name, slices.Sorted(maps.Keys(fields))); near != "" {
		return fmt.Sprintf("did you mean %s%s?", prefix, near)
	}
	for _, known := range Keys() {
		if known == name || strings.HasSuffix(known, "."+name) {
			text := fmt.Sprintf("did you mean %s? A key belongs to the [table] above it", known)
			if table := strings.TrimSuffix(prefix, "."); table != "" {
				text += "; the keys of " + table + " are " + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
			}
			return text
		}
	}
	return suggestion(prefix+name, Keys())
}

func (b *binder) value(name string, v reflect.Value, decoded any) {
	switch {
	case v.Kind() == reflect.Struct:
		table, ok := decoded.(map[string]any)
		if !ok {
			b.find(name, wants(v.Type(), describe(decoded)).Error(), "")
			return
		}
		b.table(name+".", v, table)
		return
	case isTableList(v.Type()):
		b.tables(name, v, decoded)
		return
	}
	if err := setDecoded(v, decoded); err != nil {
		b.find(name, err.Error(), "")
		return
	}
	b.origins[name] = b.at(name)
}

// tables sets a list of tables, such as [[workspaces]].
func (b *binder) tables(name string, v reflect.Value, decoded any) {
	items, ok := decoded.([]any)
	if !ok {
		b.find(name, wants(v.Type(), describe(decoded)).Error(), fmt.Sprintf("write [[%s]] with double brackets", name))
		return
	}
	list := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		each := fmt.Sprintf("%s[%d]", name, i)
		table, ok := item.(map[string]any)
		if !ok {
			b.find(each, wants(v.Type().Elem(), describe(item)).Error(), "")
			continue
		}
		b.table(each+".", list.Index(i), table)
		b.origins[each] = b.at(each)
	}
	v.Set(list)
	b.origins[name] = b.at(name)
}

// setDecoded sets a scalar or a list of scalars.
func setDecoded(v reflect.Value, decoded any) error {
	mismatch := wants(v.Type(), describe(decoded))
	if v.Type() == durationType {
		text, ok := decoded.(string)
		if !ok {
			return mismatch
		}
		return setDuration(v, text)
	}
	if v.Kind() == reflect.Pointer {
		return setOptional(v, decoded, func(v reflect.Value) error { return setDecoded(v, decoded) })
	}
	switch value := decoded.(type) {
	case string:
		if v.Kind() != reflect.String {
			return mismatch
		}
		v.SetString(value)
	case bool:
		if v.Kind() != reflect.Bool {
			return mismatch
		}
		v.SetBool(value)
	case int64:
		switch {
		case v.Kind() == reflect.Float64:
			v.SetFloat(float64(value))
		case v.CanInt() && !v.OverflowInt(value):
			v.SetInt(value)
		default:
			return mismatch
		}
	case float64:
		if v.Kind() != reflect.Float64 {
			return mismatch
		}
		v.SetFloat(value)
	case []any:
		return setItems(v, value)
	default:
		return mismatch
	}
	return nil
}

func setItems(v reflect.Value, items []any) error {
	if v.Kind() != reflect.Slice {
		return wants(v.Type(), "a list")
	}
	list := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		if setDecoded(list.Index(i), item) != nil {
			return wants(v.Type(), "a list with "+describe(item))
		}
	}
	v.Set(list)
	return nil
}

// describe names a decoded value in a message.
func describe(decoded any) string {
	switch value := decoded.(type) {
	case string:
		return "the string " + quote(value)
	case bool, int64, float64:
		return fmt.Sprint(value)
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	case time.Time, toml.LocalDate, toml.LocalTime, toml.LocalDateTime:
		return "a date or time"
	}
	return fmt.Sprintf("%T", decoded)
}
