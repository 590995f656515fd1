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

// send sends the message as one HTTP/1.0 request, whose response ends with the connection.
func (h *Hook) send(input []byte) (decision string, body []byte, err error) {
	c, err := dial(h.Socket)
	if err != nil {
		return "", nil, fmt.Errorf("connecting to palyrad: %w; start it with palyra up", err)
	}
	defer c.Close()
	authorization := ""
	if h.Token != "" {
		authorization = "Authorization: Bearer " + h.Token + "\r\n"
	}
	head := fmt.Sprintf("POST /hooks/v1/%s HTTP/1.0\r\nHost: localhost\r\n%sContent-Type: application/json\r\nPalyra-Hook-Limit: %d\r\nContent-Length: %d\r\n\r\n",
		h.Agent, authorization, int(h.Limit/time.Second), len(input))
	if _, err := c.Write(append([]byte(head), input...)); err != nil {
		return "", nil, fmt.Errorf("sending the message to palyrad: %w", err)
	}
	return answer(bufio.NewReader(io.LimitReader(c, mostAnswer)))
}

// answer reads the gateway's response.
func answer(r *bufio.Reader) (decision string, body []byte, err error) {
	status, err := r.ReadString('\n')
	if err != nil {
		return "", nil, fmt.Errorf("reading palyrad's response: %w", err)
	}
	length := -1
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", nil, fmt.Errorf("palyrad's response is incomplete: %w", err)
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); strings.ToLower(name) {
		case "palyra-decision":
			decision += value // two values match neither
		case "content-length":
			if length, err = strconv.Atoi(value); err != nil {
				return "", nil, errors.New("palyrad's response has no Content-Length")
			}
		}
	}
	if body, err = io.ReadAll(r); err != nil {
		return "", nil, fmt.Errorf("palyrad's response is incomplete: %w", err)
	}
	fields := strings.Fields(status)
	switch {
	case len(fields) < 2 || !strings.HasPrefix(fields[0], "HTTP/1."):
		return "", nil, errors.New("the program that listens on the socket is not palyrad")
	case fields[1] != "200":
		return "", nil, fmt.Errorf("palyrad refused the hook: %s", refusal(body, fields[1]))
	case length >= 0 && length != len(body):
		return "", nil, errors.New("palyrad's response is incomplete")
	}
	return decision, body, nil
}

// refusal returns palyrad's error for a refused message.
func refusal(body []byte, status string) string {
	var out struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &out) != nil || out.Message == "" {
		return "status " + status
	}
	return out.Message
}
