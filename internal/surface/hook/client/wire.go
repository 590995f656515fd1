package client

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// send sends the message as one request of HTTP/1.0, whose answer ends with the
// connection.
func (h *Hook) send(input []byte) (decision string, body []byte, err error) {
	c, err := dial(h.Socket)
	if err != nil {
		return "", nil, fmt.Errorf("palyrad cannot be reached: %w; start it with palyra up", err)
	}
	defer c.Close()
	shown := ""
	if h.Token != "" {
		shown = "Authorization: Bearer " + h.Token + "\r\n"
	}
	head := fmt.Sprintf("POST /hooks/v1/%s HTTP/1.0\r\nHost: localhost\r\n%sContent-Type: application/json\r\nPalyra-Hook-Limit: %d\r\nContent-Length: %d\r\n\r\n",
		h.Agent, shown, int(h.Limit/time.Second), len(input))
	if _, err := c.Write(append([]byte(head), input...)); err != nil {
		return "", nil, fmt.Errorf("palyrad did not take the message: %w", err)
	}
	return answer(bufio.NewReader(io.LimitReader(c, mostAnswer)))
}

// answer reads the gateway's answer.
func answer(r *bufio.Reader) (decision string, body []byte, err error) {
	status, err := r.ReadString('\n')
	if err != nil {
		return "", nil, fmt.Errorf("palyrad left without an answer: %w", err)
	}
	length := -1
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", nil, fmt.Errorf("palyrad's answer is cut: %w", err)
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); strings.ToLower(name) {
		case "palyra-decision":
			decision += value // two of them are none
		case "content-length":
			if length, err = strconv.Atoi(value); err != nil {
				return "", nil, errors.New("palyrad's answer has no length")
			}
		}
	}
	if body, err = io.ReadAll(r); err != nil {
		return "", nil, fmt.Errorf("palyrad's answer is cut: %w", err)
	}
	fields := strings.Fields(status)
	switch {
	case len(fields) < 2 || !strings.HasPrefix(fields[0], "HTTP/1."):
		return "", nil, errors.New("what listens on the socket is no palyrad")
	case fields[1] != "200":
		return "", nil, fmt.Errorf("palyrad refused the hook: %s", refusal(body, fields[1]))
	case length >= 0 && length != len(body):
		return "", nil, errors.New("palyrad's answer is cut")
	}
	return decision, body, nil
}

// refusal is what palyrad says of a message that it does not take.
func refusal(body []byte, status string) string {
	var out struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &out) != nil || out.Message == "" {
		return "status " + status
	}
	return out.Message
}
