// Package assets embeds the pages of the web console under the build tag palyraweb. They are built
// by npm, so that a plain `go build ./...` needs no Node.
package assets
