package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"palyra/internal/core/reason"
)

// mostSchemaDepth limits the depth of a server's schema.
const mostSchemaDepth = 32

// Unchecked is a keyword of a schema that only the server can check.
type Unchecked struct {
	// Pointer is the JSON Pointer of the schema that has the keyword.
	Pointer string
	Keyword string
	Why     string
}

// String describes the keyword for people.
func (u Unchecked) String() string {
	at := u.Pointer
	if at == "" {
		at = "the top"
	}
	return fmt.Sprintf("%s at %s: %s", u.Keyword, at, u.Why)
}

// Checkable returns the part of a server's schema that calls can be checked against here, and
// the keywords that only the server can check. The part accepts every input that the whole
// schema accepts. Checkable returns an error only for a schema that does not describe an
// object.
//
// Removing a keyword makes a part accept more inputs. Below "not" and "if", and in "oneOf",
// such a part would make the enclosing schema accept fewer inputs. Those keywords are therefore
// removed, too. Their branches remain, as alternatives that always match, for readers of
// declared properties.
func Checkable(text json.RawMessage) (checked json.RawMessage, unchecked []Unchecked, err error) {
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, nil, reason.Errorf(reason.InvalidInput, "the input schema is not JSON")
	}
	top, ok := document.(map[string]any)
	if !ok {
		return nil, nil, reason.Errorf(reason.InvalidInput, "the input schema is not an object")
	}
	if !describesObjects(top["type"]) {
		return nil, nil, reason.Errorf(reason.InvalidInput, `the input schema describes no object: the top level must have "type": "object"`)
	}
	c := &checker{root: document, anchors: map[string]string{}, targets: map[string]*part{}, noted: map[Unchecked]bool{}, draft7: isDraft7(top["$schema"])}
	c.id, _ = top["$id"].(string)
	c.findAnchors(document, "", true)
	root := &part{}
	c.fill(root, document, "", 0, false)
	c.cutLoops()
	c.weakenAll()
	out, _ := root.render().(map[string]any)
	out["type"] = "object"
	if len(c.order) > 0 {
		defs := make(map[string]any, len(c.order))
		for i, p := range c.order {
			defs[strconv.Itoa(i)] = p.render()
		}
		out["$defs"] = defs
	}
	if c.draft7 {
		out["$schema"] = draft7
	}
	checked, err = json.Marshal(out)
	return checked, c.list, err
}

const draft7 = "http://json-schema.org/draft-07/schema#"

// isDraft7 reports whether a schema has a draft before 2019-09; these are read as draft-07.
func isDraft7(version any) bool {
	text, _ := version.(string)
	for _, draft := range []string{"draft-04", "draft-06", "draft-07"} {
		if strings.Contains(text, "json-schema.org/"+draft) {
			return true
		}
	}
	return false
}

func describesObjects(kind any) bool {
	switch kind := kind.(type) {
	case string:
		return kind == "object"
	case []any:
		return slices.Contains(kind, any("object"))
	}
	return kind == nil
}

// part is a schema and its checkable part.
type part struct {
	at string
	// always is set for the schemas true and false.
	always *bool
	keep   map[string]any
	one    map[string]*part
	list   map[string][]*part
	table  map[string]map[string]*part
	// ref is the target of the part's reference, number is the index of the target in $defs.
	ref    *part
	number int
	uses   []use
}

// use is a place where a part applies.
type use struct {
	by      *part
	keyword string
}

// checker builds the parts of one schema.
type checker struct {
	root    any
	id      string
	draft7  bool
	anchors map[string]string
	// targets maps pointers to the parts that references lead to; order lists these parts by
	// number.
	targets map[string]*part
	order   []*part
	all     []*part
	weak    []*part
	list    []Unchecked
	noted   map[Unchecked]bool
	// lost is set if a keyword that evaluates properties or items is not checked.
	lost bool
}

// note records a keyword that p cannot check.
func (c *checker) note(p *part, keyword, why string) {
	c.weak = append(c.weak, p)
	if u := (Unchecked{p.at, keyword, why}); !c.noted[u] {
		c.noted[u] = true
		c.list = append(c.list, u)
	}
}

// The keywords with schemas.
var (
	oneSchema = []string{
		"additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
	}
	listOfSchemas  = []string{"allOf", "anyOf", "items", "oneOf", "prefixItems"}
	tableOfSchemas = []string{"dependencies", "dependentSchemas", "patternProperties", "properties"}
	definitions    = []string{"$defs", "definitions"}
)

// findAnchors records the locations of named schemas.
func (c *checker) findAnchors(node any, at string, top bool) {
	schema, ok := node.(map[string]any)
	if !ok || strings.Count(at, "/") > 2*mostSchemaDepth {
		return
	}
	if _, other := schema["$id"].(string); other && !top {
		return // it has its own scope of names
	}
	for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
		if name, ok := schema[keyword].(string); ok {
			c.anchors[name] = at
		}
	}
	for _, keyword := range oneSchema {
		c.findAnchors(schema[keyword], at+"/"+keyword, false)
	}
	for _, keyword := range listOfSchemas {
		list, _ := schema[keyword].([]any)
		for i, one := range list {
			c.findAnchors(one, at+"/"+keyword+"/"+strconv.Itoa(i), false)
		}
	}
	for _, keyword := range slices.Concat(tableOfSchemas, definitions) {
		table, _ := schema[keyword].(map[string]any)
		for name, one := range table {
			c.findAnchors(one, at+"/"+keyword+"/"+escapePointer(name), false)
		}
	}
}

// fill makes p the part of a schema. foreign is set below a nested "$id", where references have
// other targets.
func (c *checker) fill(p *part, node any, at string, depth int, foreign bool) {
	p.at = at
	c.all = append(c.all, p)
	schema, ok := node.(map[string]any)
	if always, is := node.(bool); is {
		p.always = &always
		return
	}
	if !ok || depth > mostSchemaDepth {
		c.lost = true
		if ok {
			c.note(p, "the schema", fmt.Sprintf("it is nested deeper than %d", mostSchemaDepth))
		} else {
			c.note(p, "the schema", "it is neither an object nor true or false")
		}
		return
	}
	p.keep, p.one, p.list, p.table = map[string]any{}, map[string]*part{}, map[string][]*part{}, map[string]map[string]*part{}
	if _, is := schema["$id"].(string); is && depth > 0 {
		foreign = true
	}
	if c.refer(p, schema, foreign); p.ref != nil && c.draft7 {
		return // in that draft, a reference excludes other keywords
	}
	for _, keyword := range slices.Sorted(maps.Keys(schema)) {
		c.take(p, keyword, schema[keyword], depth, foreign)
	}
	if p.table["patternProperties"] != nil {
		c.dropPatterns(p)
	}
}

// refer follows the references of a schema.
func (c *checker) refer(p *part, schema map[string]any, foreign bool) {
	for _, keyword := range []string{"$dynamicRef", "$recursiveRef"} {
		if _, there := schema[keyword]; there {
			c.lost = true
			c.note(p, keyword, "references that depend on the caller are not followed")
		}
	}
	value, there := schema["$ref"]
	if !there {
		return
	}
	ref, _ := value.(string)
	target, ok := c.target(ref, foreign)
	if !ok {
		c.lost = true
		c.note(p, "$ref", "it leads to no schema within this one")
		return
	}
	if p.ref = c.targets[target]; p.ref == nil {
		node, _ := lookup(c.root, target)
		p.ref = &part{number: len(c.order)}
		c.targets[target] = p.ref // references below it may lead to it
		c.order = append(c.order, p.ref)
		c.fill(p.ref, node, target, 0, false)
	}
	p.ref.uses = append(p.ref.uses, use{p, "$ref"})
}

// target returns the pointer to the target of a reference. ok is false if the target is not a
// schema of this document.
func (c *checker) target(ref string, foreign bool) (pointer string, ok bool) {
	if rest, own := strings.CutPrefix(ref, c.id); own && c.id != "" && (rest == "" || rest[0] == '#') {
		ref, foreign = "#"+strings.TrimPrefix(rest, "#"), false
	}
	if foreign || ref == "" {
		return "", false
	}
	if pointer, ok = RefPointer(ref); !ok {
		name, _ := url.PathUnescape(strings.TrimPrefix(ref, "#"))
		if pointer, ok = c.anchors[name]; !ok || ref[0] != '#' {
			return "", false
		}
	}
	node, err := lookup(c.root, pointer)
	switch node.(type) {
	case map[string]any, bool:
		return pointer, err == nil
	}
	return "", false
}

// take adds one keyword of a schema to p.
func (c *checker) take(p *part, keyword string, value any, depth int, foreign bool) {
	if c.otherDraft(p, keyword, value) {
		return
	}
	at := p.at + "/" + keyword
	child := func(node any, at string) *part {
		below := &part{uses: []use{{p, keyword}}}
		c.fill(below, node, at, depth+1, foreign)
		return below
	}
	list, isList := value.([]any)
	table, isTable := value.(map[string]any)
	switch {
	case slices.Contains(listOfSchemas, keyword) && isList:
		for i, one := range list {
			p.list[keyword] = append(p.list[keyword], child(one, at+"/"+strconv.Itoa(i)))
		}
	case slices.Contains(oneSchema, keyword):
		p.one[keyword] = child(value, at)
	case slices.Contains(tableOfSchemas, keyword) && isTable:
		p.table[keyword] = map[string]*part{}
		for _, name := range slices.Sorted(maps.Keys(table)) {
			if names, ok := table[name].([]any); ok && keyword == "dependencies" {
				c.depend(p, name, names)
				continue
			}
			p.table[keyword][name] = child(table[name], at+"/"+escapePointer(name))
		}
	case slices.Contains(listOfSchemas, keyword), slices.Contains(tableOfSchemas, keyword):
		c.lost = true
		c.note(p, keyword, "it does not have the form of the keyword")
	default:
		c.assertion(p, keyword, value)
	}
}

// depend adds an entry of "dependencies" that is a list of names.
func (c *checker) depend(p *part, name string, names []any) {
	if !allTexts(names) {
		c.note(p, "dependencies", "it does not have the form of the keyword")
		return
	}
	required := &part{at: p.at, keep: map[string]any{"required": names}}
	p.table["dependencies"][name] = required
}

// otherDraft records keywords that the draft of the schema does not have.
func (c *checker) otherDraft(p *part, keyword string, value any) bool {
	_, tuple := value.([]any)
	other := false
	switch keyword {
	case "prefixItems", "dependentRequired", "dependentSchemas":
		other = c.draft7
	case "additionalItems", "dependencies":
		other = !c.draft7
	case "items":
		other = !c.draft7 && tuple
	}
	if other {
		c.lost = true
		c.note(p, keyword, "it is not of the draft of the schema")
	}
	return other
}

// dropPatterns removes the patterns of names that do not compile here, and the keywords that depend
// on their matches.
func (c *checker) dropPatterns(p *part) {
	for _, pattern := range slices.Sorted(maps.Keys(p.table["patternProperties"])) {
		if _, err := regexp.Compile(pattern); err == nil {
			continue
		}
		delete(p.table["patternProperties"], pattern)
		c.lost = true
		c.note(p, "patternProperties", fmt.Sprintf("the pattern %s is of a dialect that cannot be checked here", show(pattern)))
		if p.one["additionalProperties"] != nil {
			delete(p.one, "additionalProperties")
			c.note(p, "additionalProperties", "a sibling pattern is not checked")
		}
	}
}

// assertion adds a keyword without schemas. Annotations and unknown keywords assert nothing.
func (c *checker) assertion(p *part, keyword string, value any) {
	form, known := forms[keyword]
	if !known {
		return
	}
	if !form(value) {
		why := "it does not have the form of the keyword"
		if _, text := value.(string); text && keyword == "pattern" {
			why = "the pattern is of a dialect that cannot be checked here"
		}
		c.note(p, keyword, why)
		return
	}
	p.keep[keyword] = value
}

// forms checks the permitted values of each keyword.
var forms = map[string]func(any) bool{
	"type": isType, "enum": isList, "const": func(any) bool { return true }, "uniqueItems": isBool,
	"pattern":    func(v any) bool { return compiles(v) },
	"multipleOf": func(v any) bool { n, ok := v.(float64); return ok && n > 0 },
	"minimum":    isNumber, "maximum": isNumber, "exclusiveMinimum": isNumber, "exclusiveMaximum": isNumber,
	"minLength": isCount, "maxLength": isCount, "minItems": isCount, "maxItems": isCount, "minProperties": isCount, "maxProperties": isCount,
	"minContains": isCount, "maxContains": isCount,
	"required":          func(v any) bool { list, ok := v.([]any); return ok && allTexts(list) },
	"dependentRequired": isTableOfTexts,
}

var kinds = []any{"array", "boolean", "integer", "null", "number", "object", "string"}

func isType(v any) bool {
	if list, ok := v.([]any); ok {
		return len(list) > 0 && allTexts(list) && !slices.ContainsFunc(list, func(kind any) bool { return !slices.Contains(kinds, kind) })
	}
	_, text := v.(string)
	return text && slices.Contains(kinds, v)
}

func isList(v any) bool   { _, ok := v.([]any); return ok }
func isBool(v any) bool   { _, ok := v.(bool); return ok }
func isNumber(v any) bool { _, ok := v.(float64); return ok }

func isCount(v any) bool {
	n, ok := v.(float64)
	return ok && n >= 0 && n <= math.MaxInt32 && n == math.Trunc(n)
}

func isTableOfTexts(v any) bool {
	table, ok := v.(map[string]any)
	for _, one := range table {
		list, is := one.([]any)
		ok = ok && is && allTexts(list)
	}
	return ok
}

func allTexts(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool { _, text := v.(string); return !text })
}

func compiles(v any) bool {
	text, ok := v.(string)
	if !ok {
		return false
	}
	_, err := regexp.Compile(text)
	return err == nil
}
