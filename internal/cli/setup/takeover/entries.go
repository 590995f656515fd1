package takeover

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"palyra/internal/agent/edit"
	"palyra/internal/agent/edit/jsonc"
	"palyra/internal/agent/files"
	"palyra/internal/core/tomledit"
)

// entry is a server in a client's configuration. It has the members of all clients.
type entry struct {
	Type    string           `json:"type"`
	Command string           `json:"command"`
	Args    []text           `json:"args"`
	Env     map[string]*text `json:"env"`
	EnvFile string           `json:"envFile"`
	Dir     string           `json:"cwd"`
	URL     string           `json:"url"`
	Headers map[string]*text `json:"headers"`
	// Codex has headers, and names of variables that contain the values.
	HTTPHeaders   map[string]*text  `json:"http_headers"`
	TokenVariable string            `json:"bearer_token_env_var"`
	HeaderEnv     map[string]string `json:"env_http_headers"`
	Variables     []string          `json:"env_vars"`
	// Logins and start-up programs of the client itself.
	HeadersHelper string `json:"headersHelper"`
	Disabled      bool   `json:"disabled"`
	Enabled       *bool  `json:"enabled"`
}

// text is a configuration value: a string, or a number, true, false or null as written. Clients
// pass those on in this form, too. A variable or header that is null is not set.
type text string

func (t *text) UnmarshalJSON(raw []byte) error {
	switch raw[0] {
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		*t = text(s)
		return err
	case '{':
		return &json.UnmarshalTypeError{Value: "object"}
	case '[':
		return &json.UnmarshalTypeError{Value: "array"}
	}
	*t = text(raw)
	return nil
}

// args returns the arguments that the program receives.
func (e entry) args() []string {
	list := make([]string, len(e.Args))
	for i, arg := range e.Args {
		list[i] = string(arg)
	}
	return list
}

// set returns the variables or headers that have a value.
func set(all map[string]*text) map[string]string {
	values := make(map[string]string, len(all))
	for name, value := range all {
		if value != nil {
			values[name] = string(*value)
		}
	}
	return values
}

// place is an entry and its location in the file. why is the reason if the entry cannot be
// read; at is empty if the reason concerns more than one entry.
type place struct {
	at      []string
	project string
	entry   entry
	why     string
}

// read reads the entries of one file, and determines the action for each.
func (t *Taker) read(file files.File, project string) (list []Server) {
	f, err := edit.Read(file.Path, t.root(file, project))
	if err != nil {
		return []Server{{Agent: string(file.Agent), File: file.Path, Why: file.Path + " cannot be read: " + err.Error()}}
	}
	if !f.Exists() {
		return nil
	}
	for _, p := range entries(file, f.Text) {
		s := Server{Agent: string(file.Agent), Why: p.why}
		switch {
		case len(p.at) == 0:
			s.Why = f.Path + " cannot be read: " + p.why
		case p.why != "":
			s.Entry = p.at[len(p.at)-1]
		default:
			s = judge(file.Agent, p.at[len(p.at)-1], p.entry, t)
		}
		s.File, s.file, s.at, s.entry, s.Project = f.Path, file, p.at, p.entry, p.project
		list = append(list, s)
	}
	return list
}

// entries returns the entries of a file, by name, the general ones before the projects' ones. An
// unreadable part does not hide others.
func entries(file files.File, content []byte) (list []place) {
	doc, err := decode(file.Format, content)
	if err != nil {
		return []place{{why: err.Error()}}
	}
	list = servers(doc[file.Key], "", file.Key)
	if file.Projects == "" {
		return list
	}
	projects, ok := object(doc[file.Projects])
	if !ok {
		return append(list, place{why: "its " + file.Projects + " is not an object"})
	}
	for _, dir := range sorted(projects) {
		one, ok := object(projects[dir])
		if !ok {
			list = append(list, place{project: dir, why: "the project " + dir + " is not an object"})
			continue
		}
		list = append(list, servers(one[file.Key], dir, file.Projects, dir, file.Key)...)
	}
	return list
}

// decode decodes a file as a JSON object. An empty file is an empty object.
func decode(format files.Format, content []byte) (doc map[string]json.RawMessage, err error) {
	content = tomledit.Unmarked(content)
	if len(bytes.TrimSpace(content)) == 0 {
		return nil, nil
	}
	var raw json.RawMessage
	if format == files.TOML {
		var all map[string]any
		if err := tomledit.Decode(content, &all); err != nil {
			return nil, err
		}
		if raw, err = json.Marshal(all); err != nil {
			return nil, errors.New("it has a number that is infinite, or not a number")
		}
	} else if err := jsonc.Decode(content, &raw); err != nil {
		return nil, err
	}
	doc, ok := object(raw)
	if !ok {
		return nil, errors.New("it is not an object")
	}
	return doc, nil
}

// servers returns the entries of an object of servers at a location of its file.
func servers(raw json.RawMessage, project string, at ...string) (list []place) {
	all, ok := object(raw)
	if !ok {
		return []place{{project: project, why: strings.Join(at, ".") + " is not an object"}}
	}
	for _, name := range sorted(all) {
		one := place{at: append(slices.Clone(at), name), project: project}
		one.entry, one.why = decodeEntry(all[name])
		list = append(list, one)
	}
	return list
}

// decodeEntry decodes an entry; why is the reason if it cannot be decoded.
func decodeEntry(raw json.RawMessage) (e entry, why string) {
	if _, ok := object(raw); !ok {
		return e, "it is not an object"
	}
	err := json.Unmarshal(raw, &e)
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
		field, _, _ := strings.Cut(wrong.Field, ".")
		return entry{}, "its " + field + " has a value of the wrong type (" + wrong.Value + ")"
	}
	if err != nil {
		return entry{}, err.Error()
	}
	if e.Headers == nil {
		e.Headers = e.HTTPHeaders
	}
	return e, ""
}

// object decodes an object. null and missing values are empty objects.
func object(raw json.RawMessage) (members map[string]json.RawMessage, ok bool) {
	if raw == nil {
		return nil, true
	}
	return members, json.Unmarshal(raw, &members) == nil
}
