// Package assets embeds the pages of the web console under the build tag palyraweb. npm builds
// the pages; without the tag, `go build ./...` needs no Node.
package assets
