package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"palyra/internal/surface/api"
)

var methodsPage = page{
	file: "methods.md", title: "Methods of the API", body: methods,
	intro: `
The contract is in ` + "`proto/palyra/v1`" + `. [The API](../api.md) describes connections, messages and errors,
and defines the shell functions ` + "`api` and `stream`" + ` of the examples. [Access](access.md) lists the roles
that have each permission.`,
}

// clients is the directory of the generated clients, whose interfaces have the comments of the RPCs.
const clients = "gen/palyra/v1/palyrav1connect"

func methods() (string, error) {
	found, err := readComments(clients)
	if err != nil {
		return "", err
	}
	table := maps.Collect(api.Methods())
	var b strings.Builder
	service := ""
	for _, procedure := range slices.Sorted(maps.Keys(table)) {
		name, ours := strings.CutPrefix(procedure, "/palyra.v1.")
		if !ours {
			continue
		}
		of, method, _ := strings.Cut(name, "/")
		if of != service {
			service = of
			fmt.Fprintf(&b, "## %s\n\n", service)
		}
		text, err := section(name, found[of+"Client."+method], table[procedure])
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// section returns the section of one method.
func section(name, comment string, m api.Method) (string, error) {
	text, example, ok := strings.Cut(strings.TrimSpace(comment), "\n\nExample: ")
	if !ok || !json.Valid([]byte(example)) {
		return "", fmt.Errorf("the comment of %s in proto/palyra/v1 does not end with a paragraph \"Example: \" and JSON", name)
	}
	kind, tool, err := streaming(name)
	if err != nil {
		return "", err
	}
	permission := "No credential and no permission"
	if m.Needs != api.NeedsNothing {
		permission = fmt.Sprintf("Permission `%s`", m.Permission)
	}
	return fmt.Sprintf("### %s\n\n%s\n\n%s, limit class `%s`%s.\n\n```\n%s %s '%s'\n```\n\n",
		name, text, permission, m.Limit, kind, tool, name, strings.ReplaceAll(example, "\n", "\n  ")), nil
}

// streaming returns how a method streams, in words, and the shell function for it.
func streaming(name string) (kind, tool string, err error) {
	service, method, _ := strings.Cut(name, "/")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("palyra.v1." + service + "." + method))
	if err != nil {
		return "", "", fmt.Errorf("finding %s: %w", name, err)
	}
	m, ok := d.(protoreflect.MethodDescriptor)
	switch {
	case !ok:
		return "", "", fmt.Errorf("%s is not a method", name)
	case m.IsStreamingClient() && m.IsStreamingServer():
		return ", stream in both directions", "stream", nil
	case m.IsStreamingServer():
		return ", server stream", "stream", nil
	case m.IsStreamingClient():
		return ", client stream", "api", nil
	}
	return "", "api", nil
}
