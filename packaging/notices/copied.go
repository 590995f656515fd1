package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"palyra/packaging/linked"
)

//go:embed unicode.txt
var unicode string

// copied returns the sources of others in the repository itself that the programs contain.
func copied(root string) ([]component, error) {
	proto, err := os.ReadFile(filepath.Join(root, "proto", "grpc", "health", "v1", "health.proto"))
	if err != nil {
		return nil, fmt.Errorf("reading the licence of a copied file: %w", err)
	}
	comment, _, _ := strings.Cut(string(proto), "\n\n")
	everywhere := []string{"palyra", "palyrad"}
	return []component{
		{"gRPC health and reflection services (proto/grpc)", "Apache-2.0", everywhere, []linked.Text{{Name: "health.proto", Licence: "Apache-2.0", Body: comment}}, nil},
		{"Unicode confusables 13.0.0 (internal/core/text/confusables.txt)", "Unicode-DFS-2016", everywhere, []linked.Text{{Name: "unicode.txt", Licence: "Unicode-DFS-2016", Body: unicode}}, nil},
	}, nil
}
