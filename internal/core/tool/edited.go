package tool

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"palyra/internal/core/canonical"
)

// Edited records that approvers changed a call before they approved it.
type Edited struct {
	ApprovalID string `json:"approval_id"`
	// By are the users who changed it, Reason is the comment of the last one.
	By     []string `json:"by"`
	Reason string   `json:"reason,omitempty"`
	// Proposed is the digest of the call as proposed; the call that ran has another digest.
	Proposed string `json:"proposed_call_digest"`
	// Changes are the arguments that differ from the proposed ones, with secrets redacted. The
	// journal omits them, because it has the arguments of both calls.
	Changes []Difference `json:"changes,omitempty"`
}

// Text describes the change in a sentence, for a model or a person.
func (e *Edited) Text() string {
	if e == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "executed_as_edited: %s changed this call before it was approved; it ran as changed, not as proposed.", strings.Join(e.By, ", "))
	for _, c := range e.Changes {
		fmt.Fprintf(&b, " %s was %s and is %s.", c.Field, absent(c.Was), absent(c.Is))
	}
	if e.Reason != "" {
		b.WriteString(" They say: " + e.Reason)
	}
	return b.String()
}

func absent(value string) string {
	if value == "" {
		return "absent"
	}
	return value
}

// ArgumentChanges compares the arguments of two calls of a tool, by JSON Pointer (RFC 6901):
// objects by member, all other values as a whole. Secrets are redacted; "" represents a missing
// value.
func ArgumentChanges(was, is json.RawMessage, secretPaths []string) ([]Difference, error) {
	var sides [2]any
	for i, text := range []json.RawMessage{was, is} {
		shown, _, err := Redact(text, secretPaths)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(shown, &sides[i]); err != nil {
			return nil, fmt.Errorf("reading arguments to compare: %w", err)
		}
	}
	var list []Difference
	err := compare("", sides[0], sides[1], &list)
	slices.SortFunc(list, func(a, b Difference) int { return strings.Compare(a.Field, b.Field) })
	return list, err
}

// nothing represents a missing value, which differs from null.
type nothing struct{}

func compare(pointer string, was, is any, list *[]Difference) error {
	olds, before := was.(map[string]any)
	news, after := is.(map[string]any)
	if before && after {
		for name := range union(olds, news) {
			at := pointer + "/" + escapePointer(name)
			if err := compare(at, member(olds, name), member(news, name), list); err != nil {
				return err
			}
		}
		return nil
	}
	texts := [2]string{}
	for i, value := range []any{was, is} {
		if value == (nothing{}) {
			continue
		}
		text, err := canonical.Marshal(value)
		if err != nil {
			return err
		}
		texts[i] = string(text)
	}
	if texts[0] != texts[1] {
		*list = append(*list, Difference{Field: pointer, Was: texts[0], Is: texts[1]})
	}
	return nil
}

func union(a, b map[string]any) map[string]bool {
	names := make(map[string]bool, len(a)+len(b))
	for name := range a {
		names[name] = true
	}
	for name := range b {
		names[name] = true
	}
	return names
}

func member(object map[string]any, name string) any {
	if value, ok := object[name]; ok {
		return value
	}
	return nothing{}
}

// Keep restores the redacted values in edited arguments. Values that were not displayed to the
// editor must stay unchanged: if was has a redacted value or a placeholder of a secret, is must
// have the same value or omit the member. Neither may appear anywhere else. refused lists the
// pointers that violate this.
func Keep(was, is json.RawMessage, secretPaths []string, placeholder func(string) bool) (kept json.RawMessage, refused []string, err error) {
	shown, _, err := redact(was, secretPaths)
	if err != nil {
		return nil, nil, err
	}
	var real, seen, made any
	for into, text := range map[*any]json.RawMessage{&real: was, &seen: shown, &made: is} {
		if err := json.Unmarshal(text, into); err != nil {
			return nil, nil, fmt.Errorf("reading arguments to compare: %w", err)
		}
	}
	k := keeper{placeholder: placeholder}
	made = k.keep("", real, seen, made)
	// A value at a path for secrets was never displayed.
	if text, err := canonical.Marshal(made); err == nil {
		kept = text
	} else {
		return nil, nil, err
	}
	_, hidden, err := redact(kept, secretPaths)
	if err != nil {
		return nil, nil, err
	}
	for _, pointer := range hidden {
		if !slices.Contains(k.restored, pointer) {
			k.refused = append(k.refused, pointer)
		}
	}
	slices.Sort(k.refused)
	return kept, slices.Compact(k.refused), nil
}

type keeper struct {
	placeholder       func(string) bool
	refused, restored []string
}

// keep compares the edited value with the original, as it is and as displayed.
func (k *keeper) keep(pointer string, real, seen, made any) any {
	switch m := made.(type) {
	case map[string]any:
		reals, _ := real.(map[string]any)
		seens, _ := seen.(map[string]any)
		for name, value := range m {
			at := pointer + "/" + escapePointer(name)
			m[name] = k.keep(at, member(reals, name), member(seens, name), value)
		}
	case []any:
		reals, _ := real.([]any)
		seens, _ := seen.([]any)
		for i, value := range m {
			was, shown := any(nothing{}), any(nothing{})
			if i < len(reals) && i < len(seens) {
				was, shown = reals[i], seens[i]
			}
			m[i] = k.keep(fmt.Sprintf("%s/%d", pointer, i), was, shown, value)
		}
	}
	text, isText := made.(string)
	shown, wasText := seen.(string)
	hidden := wasText && shown != fmt.Sprint(real)
	switch {
	case hidden && isText && text == shown:
		k.restored = append(k.restored, pointer)
		return real
	case hidden, isText && strings.Contains(text, Redaction) && text != shown:
		k.refused = append(k.refused, pointer)
	case wasText && k.placeholder(shown) && !(isText && text == shown), isText && k.placeholder(text) && !(wasText && text == shown):
		k.refused = append(k.refused, pointer)
	}
	return made
}
