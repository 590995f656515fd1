package strictyaml

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// maxValues limits the values of a file after expanding aliases.
const maxValues = 1_000_000

// Placer is a value that stores the position of its mapping: its first key.
type Placer interface{ SetPlace(line, column int) }

// Decode decodes a tree from Parse into a pointer to a struct. Unknown keys, duplicate keys and
// values of another type are errors. An empty value is the zero value.
func Decode(root *yaml.Node, into any) error {
	d := &decoder{}
	return d.value(root, reflect.ValueOf(into).Elem())
}

type decoder struct {
	values int
	open   []*yaml.Node
}

func (d *decoder) value(n *yaml.Node, v reflect.Value) error {
	if d.values++; d.values > maxValues {
		return at(n, "the file has more than %d values with its aliases", maxValues)
	}
	if n.Kind == yaml.AliasNode {
		return d.alias(n, v)
	}
	if err := knownTag(n); err != nil {
		return err
	}
	if isNull(n) {
		v.SetZero()
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(n, v.Elem())
	case reflect.Interface:
		return d.anything(n, v)
	case reflect.Struct:
		return d.fields(n, v)
	case reflect.Map:
		return d.entries(n, v)
	case reflect.Slice:
		return d.list(n, v)
	}
	return scalar(n, v)
}

// alias decodes the referenced node. It refuses a node that contains itself.
func (d *decoder) alias(n *yaml.Node, v reflect.Value) error {
	for _, o := range d.open {
		if o == n.Alias {
			return at(n, "the alias %q holds itself", n.Value)
		}
	}
	d.open = append(d.open, n.Alias)
	defer func() { d.open = d.open[:len(d.open)-1] }()
	return d.value(n.Alias, v)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func knownTag(n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!null", "!!bool", "!!int", "!!float", "!!str", "!!timestamp", "!!seq", "!!map", "!!merge":
		return nil
	}
	return at(n, "the tag %s has no meaning here", n.Tag)
}

func mismatch(n *yaml.Node, want string) error {
	return at(n, "this is %s; it has to be %s", what(n), want)
}

func what(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return strconv.Quote(n.Value)
}

type pair struct{ key, value *yaml.Node }

// pairs returns the entries of a mapping; entries of merged mappings follow its own, which override
// them.
func (d *decoder) pairs(n *yaml.Node) ([]pair, error) {
	var own, merged []pair
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode || isNull(key) {
			return nil, at(n.Content[i], "a key has to be a text")
		}
		if line, twice := seen[key.Value]; twice {
			return nil, at(n.Content[i], "the key %q is already defined at line %d", key.Value, line)
		}
		seen[key.Value] = n.Content[i].Line
		if isMerge(key) {
			more, err := d.merged(value)
			if err != nil {
				return nil, err
			}
			merged = more
			continue
		}
		own = append(own, pair{key, value})
	}
	for _, p := range merged {
		if _, has := seen[p.key.Value]; !has {
			seen[p.key.Value] = p.key.Line
			own = append(own, p)
		}
	}
	return own, nil
}

// merged returns the entries of a merged mapping, or of a list of merged mappings.
func (d *decoder) merged(n *yaml.Node) ([]pair, error) {
	if n.Kind == yaml.SequenceNode {
		var all []pair
		for _, one := range n.Content {
			if one.Kind == yaml.SequenceNode {
				return nil, at(one, "what << merges has to be a mapping")
			}
			more, err := d.merged(one)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
		return all, nil
	}
	source := n
	if n.Kind == yaml.AliasNode {
		source = n.Alias
	}
	if source.Kind != yaml.MappingNode {
		return nil, at(n, "what << merges has to be a mapping")
	}
	if d.values += len(source.Content); d.values > maxValues || len(d.open) > 100 {
		return nil, at(n, "the file has more than %d values with its aliases", maxValues)
	}
	d.open = append(d.open, source)
	defer func() { d.open = d.open[:len(d.open)-1] }()
	return d.pairs(source)
}

func (d *decoder) fields(n *yaml.Node, v reflect.Value) error {
	if n.Kind != yaml.MappingNode {
		return mismatch(n, "a mapping")
	}
	if p, ok := v.Addr().Interface().(Placer); ok {
		place := n
		if len(n.Content) > 0 {
			place = n.Content[0]
		}
		p.SetPlace(place.Line, place.Column)
	}
	pairs, err := d.pairs(n)
	if err != nil {
		return err
	}
	for _, p := range pairs {
		field, ok := tagged(v, p.key.Value)
		if !ok {
			return at(p.key, "unknown field %q", p.key.Value)
		}
		if err := d.value(p.value, field); err != nil {
			return err
		}
	}
	return nil
}

func tagged(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if tag, ok := v.Type().Field(i).Tag.Lookup("yaml"); ok && tag == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

func (d *decoder) entries(n *yaml.Node, v reflect.Value) error {
	if n.Kind != yaml.MappingNode {
		return mismatch(n, "a mapping")
	}
	pairs, err := d.pairs(n)
	if err != nil {
		return err
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(pairs)))
	for _, p := range pairs {
		value := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(p.value, value); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(p.key.Value), value)
	}
	return nil
}

func (d *decoder) list(n *yaml.Node, v reflect.Value) error {
	if n.Kind != yaml.SequenceNode {
		return mismatch(n, "a list")
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, entry := range n.Content {
		if err := d.value(entry, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// anything decodes JSON values. A date remains text.
func (d *decoder) anything(n *yaml.Node, v reflect.Value) error {
	var made reflect.Value
	var err error
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		made = reflect.ValueOf(&m).Elem()
		err = d.entries(n, made)
	case yaml.SequenceNode:
		l := []any{}
		made = reflect.ValueOf(&l).Elem()
		err = d.list(n, made)
	default:
		var one any
		if one, err = plain(n); err == nil {
			made = reflect.ValueOf(one)
		}
	}
	if err != nil {
		return err
	}
	v.Set(made)
	return nil
}

// plain decodes a value without a type. A number that YAML reads as a float without a decimal
// point, such as 1e3, 08 or a long identifier, remains text.
func plain(n *yaml.Node) (one any, err error) {
	switch tag := n.ShortTag(); {
	case n.Value == "-0" && tag == "!!float":
		return 0, nil
	case tag == "!!float" && n.Style&yaml.TaggedStyle == 0 && !strings.Contains(n.Value, "."):
		return n.Value, nil
	case tag == "!!bool", tag == "!!int", tag == "!!float":
		if err := n.Decode(&one); err != nil {
			return nil, at(n, "%q cannot be read: %v", n.Value, err)
		}
		return one, nil
	}
	return n.Value, nil
}

// scalar reads a value into a field of its type. A string field accepts any value except a list or
// mapping.
func scalar(n *yaml.Node, v reflect.Value) error {
	if n.Kind != yaml.ScalarNode {
		return mismatch(n, "a "+kind(v))
	}
	tag := n.ShortTag()
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		if d, err := time.ParseDuration(n.Value); err == nil && tag == "!!str" {
			v.SetInt(int64(d))
			return nil
		}
	case v.Kind() == reflect.String:
		v.SetString(n.Value)
		return nil
	case v.Kind() == reflect.Bool && tag == "!!bool", v.CanInt() && tag == "!!int":
		if err := n.Decode(v.Addr().Interface()); err == nil {
			return nil
		}
	}
	return mismatch(n, "a "+kind(v))
}

func kind(v reflect.Value) string {
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		return "time such as 50ms"
	case v.CanInt():
		return "whole number"
	case v.Kind() == reflect.Bool:
		return "true or false"
	}
	return "text"
}

// member returns the node at a key of a mapping or an index of a list.
func member(n *yaml.Node, part string) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil {
		return nil
	}
	if n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
		return nil
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == part {
			return n.Content[i+1]
		}
	}
	return nil
}
