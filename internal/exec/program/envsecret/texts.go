package envsecret

import (
	"encoding/json"
	"errors"
	"reflect"

	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
)

// Clean removes the secrets from every text of a report, including file names, hosts and
// messages.
func (g Secrets) Clean(r tool.Report) tool.Report {
	if g.values == nil {
		return r
	}
	cleanTexts(reflect.ValueOf(&r), g.values.Text)
	if r.Cause != nil {
		r.Cause = errors.New(g.values.Text(r.Cause.Error()))
	}
	var result any
	if err := json.Unmarshal(r.Result, &result); err != nil {
		r.Result = nil
		return r
	}
	text, err := canonical.Marshal(cleaned(result, g.values.Text))
	if err != nil {
		text = nil
	}
	r.Result = text
	return r
}

// cleanTexts cleans all texts in the value of a pointer.
func cleanTexts(v reflect.Value, clean func(string) string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			cleanTexts(v.Elem(), clean)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				cleanTexts(v.Field(i), clean)
			}
		}
	case reflect.Slice:
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len()) // shared slices must not be modified
		reflect.Copy(own, v)
		if !v.IsNil() {
			v.Set(own)
		}
		for i := range v.Len() {
			cleanTexts(v.Index(i), clean)
		}
	case reflect.String:
		v.SetString(clean(v.String()))
	default: // contains no text
	}
}

// cleaned returns a JSON value with all its texts cleaned.
func cleaned(v any, clean func(string) string) any {
	switch v := v.(type) {
	case string:
		return clean(v)
	case []any:
		for i := range v {
			v[i] = cleaned(v[i], clean)
		}
	case map[string]any:
		for name := range v {
			v[name] = cleaned(v[name], clean)
		}
	}
	return v
}
