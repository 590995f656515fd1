package linked

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// declaration returns the licence that package.json declares, for a package without a licence
// file, and the copyright comments at the beginning of its linked modules.
func (b *bundled) declaration(root string) ([]Text, error) {
	body, err := os.ReadFile(filepath.Join(b.dir, "package.json"))
	if err != nil {
		return nil, err
	}
	var manifest struct {
		License string
		Author  json.RawMessage
	}
	if err := json.Unmarshal(body, &manifest); err != nil {
		return nil, fmt.Errorf("reading package.json: %w", err)
	}
	if manifest.License == "" {
		return nil, fmt.Errorf("the package has no licence file, and package.json names no licence")
	}
	texts, err := b.comments()
	if err != nil {
		return nil, err
	}
	expression := strings.Trim(manifest.License, "()")
	for _, id := range strings.Split(expression, " AND ") {
		if slices.ContainsFunc(texts, func(t Text) bool { return t.Licence == id }) {
			continue
		}
		text, err := standardText(root, id, author(manifest.Author))
		if err != nil {
			return nil, err
		}
		texts = append(texts, Text{Name: "package.json", Licence: id, Body: text})
	}
	return texts, nil
}

// author returns the author of a package.json, which is a string or an object with a name.
func author(value json.RawMessage) string {
	var name string
	if json.Unmarshal(value, &name) == nil {
		return name
	}
	var object struct{ Name string }
	if json.Unmarshal(value, &object) == nil {
		return object.Name
	}
	return ""
}

// leading matches the line comments or the block comment at the beginning of a module.
var leading = regexp.MustCompile(`^(?:\s*//[^\n]*\n)+|^\s*/\*(?s:.*?)\*/`)

// comments returns the different copyright comments of the linked modules.
func (b *bundled) comments() ([]Text, error) {
	var texts []Text
	for _, module := range b.modules {
		body, err := os.ReadFile(filepath.Join(b.dir, filepath.FromSlash(module)))
		if err != nil {
			return nil, err
		}
		comment := leading.FindString(string(body))
		if !strings.Contains(comment, "Copyright") || slices.ContainsFunc(texts, func(t Text) bool { return t.Body == comment }) {
			continue
		}
		text := Text{Name: module, Body: comment}
		// A comment that only refers to a licence leaves the text to package.json.
		if id, err := identify([]byte(comment)); err == nil {
			text.Licence = id
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// standardText returns the text of a licence that a package only names.
func standardText(root, id, author string) (string, error) {
	switch id {
	case "MIT":
		return "Copyright (c) " + author + "\n\n" + mit, nil
	case "Apache-2.0":
		body, err := os.ReadFile(filepath.Join(root, "LICENSE"))
		return string(body), err
	}
	return "", fmt.Errorf("the package has no licence file, and package.json names the licence %q, of which linked has no text", id)
}

// mit is the text of the licence, without its title and copyright line.
const mit = `Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
`
