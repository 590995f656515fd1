// Package assets has the pages of the web console, where this build has them. They are
// built by npm and embedded under the tag palyraweb, so that a plain `go build ./...`
// needs no Node.
package assets
