// Command notebook contains three tools in one module: its name, which is its only argument,
// selects the tool. The notes are in the storage of the skill.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"example.org/skills/host"
)

// prefix is the prefix of the keys of notes.
const prefix = "note/"

type input struct {
	Title string `json:"title"`
	Text  string `json:"text"`
}

// note is a stored note.
type note struct {
	Text    string    `json:"text"`
	Written time.Time `json:"written"`
}

// store stores notes: the storage of the skill, or a map in tests.
type store interface {
	Get(key string) ([]byte, error)
	Put(key string, value []byte) error
	Delete(key string) error
	List(prefix string) ([]string, error)
}

func main() {
	kept, err := host.Storage()
	if err == nil {
		err = serve(os.Args[0], kept, host.Now(), os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(tool string, kept store, now time.Time, from io.Reader, to io.Writer) error {
	var in input
	if err := json.NewDecoder(from).Decode(&in); err != nil {
		return fmt.Errorf("reading the input: %w", err)
	}
	var out any
	var err error
	switch tool {
	case "write":
		out, err = write(kept, in, now)
	case "read":
		out, err = read(kept, in.Title)
	case "remove":
		out, err = map[string]string{"removed": in.Title}, kept.Delete(prefix+in.Title)
	default:
		err = fmt.Errorf("the tool %q does not exist", tool)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(to).Encode(out)
}

func write(kept store, in input, now time.Time) (any, error) {
	text, err := json.Marshal(note{in.Text, now})
	if err != nil {
		return nil, err
	}
	return map[string]string{"written": in.Title}, kept.Put(prefix+in.Title, text)
}

func read(kept store, title string) (any, error) {
	if title == "" {
		keys, err := kept.List(prefix)
		titles := make([]string, 0, len(keys))
		for _, key := range keys {
			titles = append(titles, strings.TrimPrefix(key, prefix))
		}
		return map[string][]string{"titles": titles}, err
	}
	text, err := kept.Get(prefix + title)
	if errors.Is(err, host.ErrNoKey) {
		return nil, fmt.Errorf("the note %q does not exist", title)
	}
	if err != nil {
		return nil, err
	}
	var n note
	return &n, json.Unmarshal(text, &n)
}
