// palyra-hook is the program that agents start as their hook: internal/surface/hook/client with a
// command line.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"palyra/internal/surface/hook/client"
)

const usage = `usage: palyra-hook AGENT [-socket PATH] [-token-file PATH] [-limit SECONDS]
       palyra-hook schema

AGENT is claude-code, codex or generic. The socket is hooks.sock in palyrad's state
directory where that is the usual one, or PALYRA_HOOK_SOCKET. The token is read from the
file, or is PALYRA_HOOK_TOKEN; without one, the system says whose process this is. The
limit is how long the agent waits for this program, 60 unless it is said`

func main() {
	os.Exit(run(os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}

// run executes the command line. Any error in it is a denial.
func run(args []string, env func(string) string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	if len(args) == 1 && args[0] == "schema" {
		if _, err := io.WriteString(stdout, client.Schema); err != nil {
			return 1
		}
		return 0
	}
	h := &client.Hook{}
	if err := read(h, args, env); err != nil {
		return h.Deny(err, stdout, stderr)
	}
	return h.Run(stdin, stdout, stderr)
}

// read reads the command line and the environment.
func read(h *client.Hook, args []string, env func(string) string) (err error) {
	h.Socket, h.Token, h.Limit = env("PALYRA_HOOK_SOCKET"), env("PALYRA_HOOK_TOKEN"), client.DefaultLimit
	if h.Socket == "" {
		h.Socket = client.UsualSocket(env)
	}
	if len(args) == 0 || len(args)%2 == 0 {
		return errors.New(usage)
	}
	h.Agent = args[0]
	for i := 1; i < len(args); i += 2 {
		switch name, value := args[i], args[i+1]; strings.TrimPrefix(name, "-") {
		case "-socket", "socket":
			h.Socket = value
		case "-token-file", "token-file":
			if h.Token, err = client.ReadToken(value); err != nil {
				return err
			}
		case "-limit", "limit":
			seconds, err := strconv.ParseUint(value, 10, 16)
			if err != nil || seconds == 0 {
				return fmt.Errorf("%q is not a valid number of seconds", value)
			}
			h.Limit = time.Duration(seconds) * time.Second
		default:
			return fmt.Errorf("the option %s is unknown\n%s", name, usage)
		}
	}
	if h.Agent != "claude-code" && h.Agent != "codex" && h.Agent != client.Generic {
		return fmt.Errorf("the agent %q is unknown\n%s", h.Agent, usage)
	}
	return nil
}
