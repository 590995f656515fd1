package printer

import (
	"encoding/json"
	"strings"

	"palyra/internal/core/lazyregexp"
)

// yamlDocument writes an ordered object as block-style YAML 1.2. Strings other than plain words
// are written as JSON strings, which are valid YAML, so that no control character is written.
// Embedded JSON stays in flow style.
func yamlDocument(o Object) (string, error) {
	var b strings.Builder
	if err := yamlObject(&b, o, ""); err != nil {
		return "", err
	}
	return b.String(), nil
}

func yamlObject(b *strings.Builder, o Object, indent string) error {
	for _, m := range o {
		b.WriteString(indent + m.Name + ":")
		if err := yamlMember(b, m.Value, indent); err != nil {
			return err
		}
	}
	return nil
}

func yamlMember(b *strings.Builder, v any, indent string) error {
	switch v := v.(type) {
	case Object:
		if len(v) > 0 {
			b.WriteByte('\n')
			return yamlObject(b, v, indent+"  ")
		}
		b.WriteString(" {}\n")
		return nil
	case []any:
		if len(v) > 0 {
			b.WriteByte('\n')
			return yamlList(b, v, indent)
		}
		b.WriteString(" []\n")
		return nil
	}
	text, err := yamlScalar(v)
	b.WriteString(" " + text + "\n")
	return err
}

func yamlList(b *strings.Builder, list []any, indent string) error {
	for _, v := range list {
		o, ok := v.(Object)
		if !ok || len(o) == 0 {
			text, err := yamlScalar(v)
			if err != nil {
				return err
			}
			b.WriteString(indent + "- " + text + "\n")
			continue
		}
		var item strings.Builder
		if err := yamlObject(&item, o, indent+"  "); err != nil {
			return err
		}
		b.WriteString(indent + "- " + strings.TrimPrefix(item.String(), indent+"  "))
	}
	return nil
}

// yamlWord matches strings that are unambiguous in YAML.
var yamlWord = lazyregexp.New(`^[A-Za-z_/][A-Za-z0-9_./@-]*$`)

// yamlReserved are words that some YAML parsers treat as values.
var yamlReserved = lazyregexp.New(`^(?i:true|false|null|yes|no|on|off|y|n)$`)

func yamlScalar(v any) (string, error) {
	if s, ok := v.(string); ok && yamlWord.MatchString(s) && !yamlReserved.MatchString(s) {
		return s, nil
	}
	text, err := Marshal(v)
	if raw, ok := v.(json.RawMessage); ok && len(raw) == 0 {
		return "null", nil
	}
	return string(VisibleJSON(text)), err
}
